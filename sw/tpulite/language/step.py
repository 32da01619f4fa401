"""The network of one or many tokens: an ONNX file with int8 weights and a cache of keys and values.

Each product of tokens with weights is MatMulInteger of int8 by int8. Weights are scaled by the
largest magnitude of each output channel. A token's activations have two digits of 8 bits, rows of
one matrix: the coarse one is scaled by their largest magnitude, the fine one is what is left, 254
times as fine. The machine loads a tile of weights once for all rows. Sums of int32 are scaled in
float32, so nothing is calibrated, and no product is rounded. ONNX Runtime runs the file as it is.
"""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from tpulite.language.int4_llama import Rows
from tpulite.language.llama import Llama
from tpulite.language.onnx_graph import OnnxGraph

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


def step_file(
    model: Llama, positions: int, *, tokens: int = 1, int4: Mapping[str, Rows] | None = None
) -> bytes:
    """Return an ONNX file for a number of tokens that follow each other.

    Inputs are ``token``, int64 [tokens], ``position`` of the first one, int64 [1], and for layer i
    ``keys.i`` [key_heads, depth, positions] and ``values.i`` [key_heads, positions, depth]; outputs
    are ``logits`` behind the last token, [1, vocabulary], and the cache with these tokens,
    ``keys_next.i`` and ``values_next.i``. A file of several tokens has the input ``count``, int64
    [1]: how many of them there are. The others are padding: any tokens, which change nothing.

    Parameters
    ----------
    positions : int
        Tokens that the cache holds.
    tokens : int
        Tokens of a run.
    int4 : mapping of str to (ndarray, ndarray), optional
        The weights of products rounded to 4 bits, int8 in the file; see
        :func:`tpulite.language.int4_llama.int4_weights`.
    """
    step, graph = _Step(model, positions, tokens, int4), OnnxGraph(model.name)
    step.declare(graph)
    x = step.embedded(graph)
    for i in range(model.sizes.layers):
        normal = step.normal(graph, x, f"{i}.attention_norm")
        x = graph.node("Add", x, step.attention(graph, i, normal))
        normal = step.normal(graph, x, f"{i}.feed_norm")
        x = graph.node("Add", x, step.feed(graph, i, normal))
    last = step.normal(graph, graph.node("Gather", x, "last"), "norm")
    logits = step.product(graph, last, "head", ("head",), rows=1)
    graph.output("logits", logits, TensorProto.FLOAT, (1, model.sizes.vocabulary))
    return graph.file()


class _Step:
    """Blocks of a llama for some tokens, [tokens, width] from one to the next."""

    def __init__(
        self, model: Llama, positions: int, tokens: int, int4: Mapping[str, Rows] | None
    ) -> None:
        self._weights, self._sizes = model.weights, model.sizes
        self._positions, self._tokens = positions, tokens
        self._int4 = int4

    def declare(self, graph: OnnxGraph) -> None:
        """Add the inputs, and what follows from the position for all layers."""
        sizes, tokens = self._sizes, self._tokens
        graph.input("token", TensorProto.INT64, (tokens,))
        graph.input("position", TensorProto.INT64, (1,))
        one = graph.constant("one", np.array([1]))
        if tokens > 1:
            graph.input("count", TensorProto.INT64, (1,))
        count = "count" if tokens > 1 else one
        heads, depth, places = sizes.key_heads, sizes.depth, self._positions
        for i in range(sizes.layers):
            graph.input(f"keys.{i}", TensorProto.FLOAT, (heads, depth, places))
            graph.input(f"values.{i}", TensorProto.FLOAT, (heads, places, depth))
        order = graph.constant("places", np.arange(places))
        graph.node("Sub", count, one, output="last")
        self._declare_written(graph, order, count)
        own = graph.node("Add", "position", graph.constant("offsets", np.arange(tokens)))
        seen = graph.node("LessOrEqual", order, graph.shaped(own, tokens, 1))
        zero, masked = graph.constant("zero", np.float32(0)), graph.constant("masked", _MASKED)
        graph.node("Where", seen, zero, masked, output="mask")
        inside = graph.node("Min", own, graph.constant("end", np.array([places - 1])))
        rates = float(sizes.base) ** (-np.arange(0, depth, 2) / depth)
        angles = np.arange(places)[:, None, None] * rates
        for name, function in (("cosine", np.cos), ("sine", np.sin)):
            table = graph.constant(f"{name}s", function(angles).astype(np.float32))
            graph.node("Gather", table, inside, output=name)

    def _declare_written(self, graph: OnnxGraph, order: str, count: str) -> None:
        """Add which places get a token, and for several tokens which one."""
        behind = graph.node("Sub", order, "position")
        begun = graph.node("GreaterOrEqual", behind, graph.constant("begin", np.array([0])))
        graph.node("And", begun, graph.node("Less", behind, count), output="here")
        graph.node("Reshape", "here", graph.extents(self._positions, 1), output="here_column")
        if self._tokens > 1:
            first, end = (graph.constant(f"token {i}", np.array(i)) for i in (0, self._tokens - 1))
            graph.node("Clip", behind, first, end, output="source")

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

    def product(
        self, graph: OnnxGraph, x: str, name: str, parts: tuple[str, ...], rows: int
    ) -> str:
        """Add a product of rows with matrices side by side."""
        made = self._int4
        pairs = [made[part] if made else int8_rows(self._weights[part]) for part in parts]
        matrix, scales = (np.concatenate(each) for each in zip(*pairs, strict=True))
        weight = graph.constant(f"{name}.weight", np.ascontiguousarray(matrix.T))
        tiny, largest = graph.constant("tiny", _TINY), graph.constant("largest", _LARGEST)
        most = graph.node("ReduceMax", graph.node("Abs", x), axes=[1], keepdims=0)
        coarse = graph.node("Div", graph.node("Max", most, tiny), largest)
        fine = graph.node("Div", coarse, graph.constant("finer", _FINER))
        middle = graph.constant(f"middle of {rows}", np.zeros(rows, np.int8))
        high = graph.node("QuantizeLinear", x, coarse, middle, axis=0)
        told = graph.node("DequantizeLinear", high, coarse, middle, axis=0)
        rest = graph.node("Sub", x, told)
        low = graph.node("QuantizeLinear", rest, fine, middle, axis=0)
        digits = graph.node("Concat", high, low, axis=0)
        sums = graph.node("MatMulInteger", digits, weight, output=name)
        sums = graph.node("Cast", sums, to=TensorProto.FLOAT)
        digit_scales = graph.shaped(graph.node("Concat", coarse, fine, axis=0), 2 * rows, 1)
        scaled = graph.shaped(graph.node("Mul", sums, digit_scales), 2, rows, len(scales))
        added = graph.node("ReduceSum", scaled, graph.constant("digits", np.array([0])), keepdims=0)
        return graph.node("Mul", added, graph.constant(f"{name}.scale", scales))

    def attention(self, graph: OnnxGraph, i: int, x: str) -> str:
        """Add attention of each token to all up to it; the cache gets its key and its value."""
        sizes, tokens, places = self._sizes, self._tokens, self._positions
        heads, keys, depth = sizes.heads, sizes.key_heads, sizes.depth
        parts = tuple(f"{i}.{part}" for part in ("query", "key", "value"))
        mixed = self.product(graph, x, f"{i}.attention", parts, tokens)
        turning, value = graph.split(mixed, 1, (heads + keys) * depth, keys * depth)
        turned = self._turned(graph, graph.shaped(turning, tokens, heads + keys, depth))
        query, key = graph.split(turned, 1, heads, keys)
        self._keep(graph, f"keys_next.{i}", graph.node("Transpose", key, perm=[1, 2, 0]))
        value = graph.shaped(value, tokens, keys, depth)
        self._keep(graph, f"values_next.{i}", graph.node("Transpose", value, perm=[1, 0, 2]))
        rows = heads // keys * tokens  # of the queries that share a key
        query = graph.node("Transpose", query, perm=[1, 0, 2])
        scores = graph.node("MatMul", graph.shaped(query, keys, rows, depth), f"keys_next.{i}")
        factor = graph.constant("factor", np.float32(depth**-0.5))
        scaled = graph.shaped(graph.node("Mul", scores, factor), heads, tokens, places)
        shares = graph.node("Softmax", graph.node("Add", scaled, "mask"), axis=-1)
        seen = graph.node("MatMul", graph.shaped(shares, keys, rows, places), f"values_next.{i}")
        seen = graph.shaped(seen, heads, tokens, depth)
        seen = graph.shaped(graph.node("Transpose", seen, perm=[1, 0, 2]), tokens, heads * depth)
        return self.product(graph, seen, f"{i}.out", (f"{i}.output",), tokens)

    def _keep(self, graph: OnnxGraph, after: str, new: str) -> None:
        """Add a cache with new keys [heads, depth, tokens] or values [heads, tokens, depth]."""
        sizes, places = self._sizes, self._positions
        keys = after.startswith("keys")
        shape = (sizes.depth, places) if keys else (places, sizes.depth)
        if self._tokens > 1:
            new = graph.node("Gather", new, "source", axis=2 if keys else 1)
        here = "here" if keys else "here_column"
        made = graph.node("Where", here, new, after.replace("_next", ""))
        graph.output(after, made, TensorProto.FLOAT, (sizes.key_heads, *shape))

    def _turned(self, graph: OnnxGraph, x: str) -> str:
        """Add the rotary embedding of heads [tokens, n, depth], halves apart."""
        half = self._sizes.depth // 2
        a, b = graph.split(x, 2, half, half)
        first = graph.node("Sub", graph.node("Mul", a, "cosine"), graph.node("Mul", b, "sine"))
        second = graph.node("Add", graph.node("Mul", a, "sine"), graph.node("Mul", b, "cosine"))
        return graph.node("Concat", first, second, axis=2)

    def feed(self, graph: OnnxGraph, i: int, x: str) -> str:
        """Add the feed-forward part: SwiGLU between two products."""
        hidden = self._sizes.hidden
        both = self.product(graph, x, f"{i}.feed", (f"{i}.gate", f"{i}.up"), self._tokens)
        gate, up = graph.split(both, 1, hidden, hidden)
        gated = graph.node("Mul", gate, graph.node("Sigmoid", gate))
        hidden_of_tokens = graph.node("Mul", gated, up)
        return self.product(graph, hidden_of_tokens, f"{i}.back", (f"{i}.down",), self._tokens)
