"""The network of one token: an ONNX file with int8 weights and a cache of keys and values.

Each product of a token with weights is MatMulInteger of int8 by int8. Weights are scaled by the
largest magnitude of each output channel. An activation has two digits of 8 bits, rows of one
matrix: the coarse one is scaled by its largest magnitude, the fine one is what is left, 254 times
as fine. The machine loads a tile of weights once for both. Sums of int32 are scaled in float32, so
nothing is calibrated, and no product is rounded. ONNX Runtime runs the file as it is.
"""

import numpy as np
from onnx import TensorProto

from tpulite.language.llama import Llama
from tpulite.language.onnx_graph import OnnxGraph
from tpulite.quant.int4 import int4_rows

__all__ = ["int8_rows", "state_names", "step_file"]

_LARGEST = np.float32(127)
"""Magnitude of integers: weights and activations need no zero point."""

_FINER = np.float32(254)
"""Steps of the fine digit in one of the coarse digit, which is off by half a step at most."""

_TINY = np.float32(1e-30)
"""Least magnitude of an activation, so that one of zeros has a scale."""

_MASKED = np.float32(-1e9)
"""What is added to scores of positions without a token."""


def int8_rows(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a matrix as int8, and the float32 scale of each."""
    most = np.abs(weight).max(axis=1)
    scale = np.where(most > 0, most / _LARGEST, 1).astype(np.float32)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def state_names(layers: int) -> dict[str, str]:
    """Return the outputs of the file that are inputs of the next token."""
    return {f"{x}_next.{i}": f"{x}.{i}" for i in range(layers) for x in ("keys", "values")}


def step_file(model: Llama, positions: int, *, int4: bool = False) -> bytes:
    """Return an ONNX file for one token.

    Inputs are ``token`` and ``position``, int64 [1], and for layer i ``keys.i``
    [key_heads, depth, positions] and ``values.i`` [key_heads, positions, depth]; outputs are
    ``logits`` [1, vocabulary] and the cache with this token, ``keys_next.i`` and ``values_next.i``.

    Parameters
    ----------
    model : Llama
        The model.
    positions : int
        Tokens that the cache holds.
    int4 : bool
        Whether weights of products are rounded to 4 bits; they are int8 in the file.
    """
    step, graph = _Step(model, positions, int4=int4), OnnxGraph(model.name)
    step.declare(graph)
    x = step.embedded(graph)
    for i in range(model.sizes.layers):
        normal = step.normal(graph, x, f"{i}.attention_norm")
        x = graph.node("Add", x, step.attention(graph, i, normal))
        normal = step.normal(graph, x, f"{i}.feed_norm")
        x = graph.node("Add", x, step.feed(graph, i, normal))
    logits = step.product(graph, step.normal(graph, x, "norm"), "head", ("head",))
    graph.output("logits", logits, TensorProto.FLOAT, (1, model.sizes.vocabulary))
    return graph.file()


class _Step:
    """Blocks of a llama for one token, [1, width] from one to the next."""

    def __init__(self, model: Llama, positions: int, *, int4: bool) -> None:
        self._weights, self._sizes, self._positions = model.weights, model.sizes, positions
        self._rows = int4_rows if int4 else int8_rows

    def declare(self, graph: OnnxGraph) -> None:
        """Add the inputs, and what follows from the position for all layers."""
        sizes = self._sizes
        for name in ("token", "position"):
            graph.input(name, TensorProto.INT64, (1,))
        heads, depth, places = sizes.key_heads, sizes.depth, self._positions
        for i in range(sizes.layers):
            graph.input(f"keys.{i}", TensorProto.FLOAT, (heads, depth, places))
            graph.input(f"values.{i}", TensorProto.FLOAT, (heads, places, depth))
        order = graph.constant("places", np.arange(places))
        graph.node("Equal", order, "position", output="here")
        graph.node("Reshape", "here", graph.extents(places, 1), output="here_column")
        graph.node("LessOrEqual", order, "position", output="seen")
        zero, masked = graph.constant("zero", np.float32(0)), graph.constant("masked", _MASKED)
        graph.node("Where", "seen", zero, masked, output="mask")
        rates = float(sizes.base) ** (-np.arange(0, depth, 2) / depth)
        angles = np.arange(places)[:, None] * rates
        for name, function in (("cosine", np.cos), ("sine", np.sin)):
            table = graph.constant(f"{name}s", function(angles).astype(np.float32))
            graph.node("Gather", table, "position", output=name)

    def embedded(self, graph: OnnxGraph) -> str:
        """Add the row of the token."""
        rows, scale = int8_rows(self._weights["embedding"])
        row = graph.node("Gather", graph.constant("embedding", rows), "token")
        scaled = graph.node("Gather", graph.constant("embedding_scale", scale[:, None]), "token")
        return graph.node("Mul", graph.node("Cast", row, to=TensorProto.FLOAT), scaled)

    def normal(self, graph: OnnxGraph, x: str, gain: str) -> str:
        """Add a division by the root of the mean square, and a gain."""
        epsilon = graph.constant("epsilon", np.float32(self._sizes.epsilon))
        mean = graph.node("ReduceMean", graph.node("Mul", x, x), axes=[-1], keepdims=1)
        root = graph.node("Sqrt", graph.node("Add", mean, epsilon))
        scaled = graph.constant(gain, self._weights[gain].astype(np.float32))
        return graph.node("Mul", graph.node("Div", x, root), scaled)

    def product(self, graph: OnnxGraph, x: str, name: str, parts: tuple[str, ...]) -> str:
        """Add a product with matrices side by side."""
        pairs = [self._rows(self._weights[part]) for part in parts]
        rows, scales = (np.concatenate(each) for each in zip(*pairs, strict=True))
        weight = graph.constant(f"{name}.weight", np.ascontiguousarray(rows.T))
        tiny, largest = graph.constant("tiny", _TINY), graph.constant("largest", _LARGEST)
        most = graph.node("ReduceMax", graph.node("Abs", x), axes=[0, 1], keepdims=0)
        coarse = graph.node("Div", graph.node("Max", most, tiny), largest)
        fine = graph.node("Div", coarse, graph.constant("finer", _FINER))
        middle = graph.constant("middle", np.int8(0))
        high = graph.node("QuantizeLinear", x, coarse, middle)
        rest = graph.node("Sub", x, graph.node("DequantizeLinear", high, coarse, middle))
        low = graph.node("QuantizeLinear", rest, fine, middle)
        digits = graph.node("Concat", high, low, axis=0)
        sums = graph.node("MatMulInteger", digits, weight, output=name)
        sums = graph.node("Cast", sums, to=TensorProto.FLOAT)
        digit_scales = [graph.shaped(scale, 1, 1) for scale in (coarse, fine)]
        scaled = graph.node("Mul", sums, graph.node("Concat", *digit_scales, axis=0))
        added = graph.node("ReduceSum", scaled, graph.constant("digits", np.array([0])), keepdims=1)
        return graph.node("Mul", added, graph.constant(f"{name}.scale", scales))

    def attention(self, graph: OnnxGraph, i: int, x: str) -> str:
        """Add attention to all tokens up to this one; the cache gets its key and its value."""
        sizes, places = self._sizes, self._positions
        heads, keys, depth = sizes.heads, sizes.key_heads, sizes.depth
        parts = tuple(f"{i}.{part}" for part in ("query", "key", "value"))
        mixed = self.product(graph, x, f"{i}.attention", parts)
        turning, value = graph.split(mixed, 1, (heads + keys) * depth, keys * depth)
        turned = self._turned(graph, graph.shaped(turning, heads + keys, depth))
        query, key = graph.split(turned, 0, heads, keys)
        news = (graph.shaped(key, keys, depth, 1), graph.shaped(value, keys, 1, depth))
        kinds = (("keys", "here", (depth, places)), ("values", "here_column", (places, depth)))
        for new, (name, here, shape) in zip(news, kinds, strict=True):
            made = graph.node("Where", here, new, f"{name}.{i}")
            graph.output(f"{name}_next.{i}", made, TensorProto.FLOAT, (keys, *shape))
        query = graph.shaped(query, keys, heads // keys, depth)
        scores = graph.node("MatMul", query, f"keys_next.{i}")
        factor = graph.constant("factor", np.float32(depth**-0.5))
        masked = graph.node("Add", graph.node("Mul", scores, factor), "mask")
        shares = graph.node("Softmax", masked, axis=-1)
        seen = graph.node("MatMul", shares, f"values_next.{i}")
        return self.product(
            graph, graph.shaped(seen, 1, heads * depth), f"{i}.out", (f"{i}.output",)
        )

    def _turned(self, graph: OnnxGraph, x: str) -> str:
        """Add the rotary embedding of heads [n, depth], halves apart."""
        half = self._sizes.depth // 2
        a, b = graph.split(x, 1, half, half)
        first = graph.node("Sub", graph.node("Mul", a, "cosine"), graph.node("Mul", b, "sine"))
        second = graph.node("Add", graph.node("Mul", a, "sine"), graph.node("Mul", b, "cosine"))
        return graph.node("Concat", first, second, axis=1)

    def feed(self, graph: OnnxGraph, i: int, x: str) -> str:
        """Add the feed-forward part: SwiGLU between two products."""
        hidden = self._sizes.hidden
        both = self.product(graph, x, f"{i}.feed", (f"{i}.gate", f"{i}.up"))
        gate, up = graph.split(both, 1, hidden, hidden)
        gated = graph.node("Mul", gate, graph.node("Sigmoid", gate))
        return self.product(graph, graph.node("Mul", gated, up), f"{i}.back", (f"{i}.down",))
