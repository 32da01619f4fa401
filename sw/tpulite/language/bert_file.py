"""The network of an encoder with floats: an ONNX file as exporters of transformers write it."""

import math

import numpy as np
from onnx import TensorProto

from tpulite.language.bert_weights import Bert
from tpulite.language.onnx_graph import OnnxGraph

HIDDEN = "last_hidden_state"
"""The output."""

_MASKED = np.float32(-1e9)
"""What is added to scores of tokens that are padding."""


def bert_file(model: Bert, tokens: int) -> bytes:
    """Return an ONNX file for texts of a number of tokens, padding included.

    Inputs are ``input_ids`` and ``attention_mask`` (1 for tokens, 0 for padding), int64
    [1, tokens]; the output is ``last_hidden_state``, float32 [1, tokens, width].

    Parameters
    ----------
    tokens : int
        Length of all texts.
    """
    graph, blocks = OnnxGraph(model.name), _Blocks(model, tokens)
    x = blocks.embedded(graph)
    mask = blocks.mask(graph)
    for layer in range(model.sizes.layers):
        attention = blocks.attention(graph, layer, x, mask)
        x = blocks.normal(graph, graph.node("Add", attention, x), f"{layer}.attention_norm")
        dense = blocks.linear(graph, x, f"{layer}.up")
        dense = blocks.linear(graph, blocks.gelu(graph, dense), f"{layer}.down")
        x = blocks.normal(graph, graph.node("Add", dense, x), f"{layer}.feed_norm")
    graph.output(HIDDEN, x, TensorProto.FLOAT, (1, tokens, model.sizes.width))
    return graph.file()


class _Blocks:
    """Parts of an encoder, [1, tokens, width] from one to the next."""

    def __init__(self, model: Bert, tokens: int) -> None:
        self._weights, self._sizes, self._tokens = model.weights, model.sizes, tokens

    def embedded(self, graph: OnnxGraph) -> str:
        """Return the sum of what words and positions are, normalized."""
        graph.input("input_ids", TensorProto.INT64, (1, self._tokens))
        words = graph.constant("words", self._weights["words"])
        x = graph.node("Gather", words, "input_ids")
        places = self._weights["positions"][: self._tokens] + self._weights["types"][0]
        x = graph.node("Add", x, graph.constant("places", places))
        return self.normal(graph, x, "norm")

    def mask(self, graph: OnnxGraph) -> str:
        """Return what is added to scores, [1, 1, 1, tokens]."""
        graph.input("attention_mask", TensorProto.INT64, (1, self._tokens))
        x = graph.node("Unsqueeze", "attention_mask", graph.extents(1, 2))
        x = graph.node("Cast", x, to=TensorProto.FLOAT)
        x = graph.node("Sub", graph.constant("one", np.float32(1)), x)
        return graph.node("Mul", x, graph.constant("masked", _MASKED))

    def normal(self, graph: OnnxGraph, x: str, name: str) -> str:
        """Normalize tokens."""
        gains = [graph.constant(each, self._weights[each]) for each in (name, f"{name}.bias")]
        epsilon = self._sizes.epsilon
        return graph.node("LayerNormalization", x, *gains, axis=-1, epsilon=epsilon)

    def linear(self, graph: OnnxGraph, x: str, name: str) -> str:
        """Multiply by a matrix and add its bias."""
        weight = graph.constant(name, np.ascontiguousarray(self._weights[name].T))
        bias = graph.constant(f"{name}.bias", self._weights[f"{name}.bias"])
        return graph.node("Add", graph.node("MatMul", x, weight), bias)

    def gelu(self, graph: OnnxGraph, x: str) -> str:
        """Return GELU by the error function."""
        root = graph.constant("root", np.float32(math.sqrt(2)))
        curve = graph.node("Erf", graph.node("Div", x, root))
        curve = graph.node("Add", curve, graph.constant("one", np.float32(1)))
        half = graph.constant("half", np.float32(0.5))
        return graph.node("Mul", graph.node("Mul", x, curve), half)

    def attention(self, graph: OnnxGraph, layer: int, x: str, mask: str) -> str:
        """Return what tokens see of each other, before it is added to them."""
        heads, width = self._sizes.heads, self._sizes.width
        depth = width // heads

        def split(name: str, *order: int) -> str:
            y = self.linear(graph, x, f"{layer}.{name}")
            y = graph.shaped(y, 1, self._tokens, heads, depth)
            return graph.node("Transpose", y, perm=order)

        scores = graph.node("MatMul", split("query", 0, 2, 1, 3), split("key", 0, 2, 3, 1))
        root = graph.constant("depth", np.float32(math.sqrt(depth)))
        scores = graph.node("Add", graph.node("Div", scores, root), mask)
        shares = graph.node("Softmax", scores, axis=-1)
        seen = graph.node("MatMul", shares, split("value", 0, 2, 1, 3))
        seen = graph.node("Transpose", seen, perm=[0, 2, 1, 3])
        return self.linear(graph, graph.shaped(seen, 1, self._tokens, width), f"{layer}.output")
