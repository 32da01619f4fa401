"""Operators that the host computes without a library.

They are those at the ends of classifiers, and sums and products of pairs beside a library that
rounds them in another way.
"""

import math

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.layers import Elementwise
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.pairs import Pair, pair_layer
from tpulite.quant.tensors import UnsupportedError, quantized

_INTEGERS = ("int8", "uint8")

_PAIRS = ("add", "sub", "mul")

_SOFTMAX_SCALE = 1 / 256


def is_own(node: Node, graph: Graph, exactness: Exactness) -> bool:
    """Tell whether numpy has the bits of a node: see :func:`tpulite.runtime.host.ops.run_node`."""
    if not node.inputs or not node.inputs[0] or len(node.outputs) != 1:
        return False
    if node.op in _PAIRS:
        return pair_of(node, graph, exactness) is not None
    if node.op not in _RULES:
        return False
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    return _RULES[node.op](node, x, y, exactness)


def pair_of(node: Node, graph: Graph, exactness: Exactness) -> Elementwise | None:
    """Return the layer of a pair's sum, difference or product, if the format's library has others.

    Its images are the tensors in their own shapes; numpy broadcasts them.
    """
    if exactness.is_of_format(graph.format) or node.op not in _PAIRS:
        return None
    return settled_pair(node, graph, exactness)


def settled_pair(node: Node, graph: Graph, exactness: Exactness) -> Elementwise | None:
    """Return the layer of a pair, if its results do not depend on where an element is."""
    if len(node.inputs) != 2:
        return None
    try:
        a, b, y = (quantized(graph.tensors[x]) for x in (*node.inputs, node.outputs[0]))
        return pair_layer(Pair(node.op, a, b, y, node["activation"]), exactness)
    except UnsupportedError:
        return None


def requantize_table(x: Tensor, y: Tensor, exactness: Exactness) -> np.ndarray | None:
    """Return the integers that a change of scale makes of all integers, if there is a table."""
    try:
        before, after = quantized(x), quantized(y)
        size = math.prod(x.shape)
        image = function_table("requantize", before, after, {}, exactness, size)
    except UnsupportedError:
        return None
    return (image.astype(np.int64) - INT8[0] + after.low).astype(y.dtype)


def _always(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    return True


def _moves(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    return x.dtype == y.dtype and math.prod(x.shape) == math.prod(y.shape)


def _to_integers(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    return x.dtype == "float32" and _one_scale(y) and x.shape == y.shape


def _to_floats(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    return y.dtype == "float32" and _one_scale(x) and x.shape == y.shape


def _one_scale(tensor: Tensor) -> bool:
    found = tensor.quantization
    one = found is not None and found.axis is None and found.sound
    return tensor.dtype in _INTEGERS and one


def _softmax(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    if exactness.ort or exactness == Exactness.BM1684X:
        return False
    if x.dtype not in _INTEGERS or y.dtype != x.dtype or not (_one_scale(x) and _one_scale(y)):
        return False
    assert y.quantization is not None
    lowest = int(np.iinfo(y.dtype).min)
    meaning = float(y.quantization.scale[0]), int(y.quantization.zero_point[0])
    return meaning == (_SOFTMAX_SCALE, lowest)


def _argmax(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    plain = not node.attributes.get("select_last_index", 0)
    return plain and x.dtype in _INTEGERS and y.dtype in ("int32", "int64")


def _requantize(node: Node, x: Tensor, y: Tensor, exactness: Exactness) -> bool:
    return requantize_table(x, y, exactness) is not None


_RULES = {
    "argmax": _argmax,
    "dequantize": _to_floats,
    **dict.fromkeys(("lstm_cell", "lstm_gates", "lstm_output", "stack"), _always),
    "quantize": _to_integers,
    "requantize": _requantize,
    "reshape": _moves,
    "softmax": _softmax,
    "transpose": _moves,
}
