"""Operators that the host computes by numpy, with the bits of the libraries.

What they are, and of which types, :func:`tpulite.quant.own.is_own` tells.
"""

from collections.abc import Mapping

import numpy as np

from tpulite.golden.layers import run_layer
from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.layers import Elementwise
from tpulite.quant.exactness import Exactness
from tpulite.quant.own import pair_of, requantize_table
from tpulite.quant.tensors import UNSIGNED
from tpulite.runtime.host.lstm import lstm_cell, lstm_gates, lstm_output
from tpulite.runtime.host.tables import softmax_fixed_point, softmax_table

# The numerics of softmax of integers.
_SOFTMAX = {
    "litert-ref": softmax_fixed_point,
    "tflm": softmax_fixed_point,
    "litert-opt": softmax_table,
    "litert-xnnpack": softmax_table,
}

_LSTM = {"lstm_gates": lstm_gates, "lstm_cell": lstm_cell, "lstm_output": lstm_output}

_BLOCK = 8
"""Elements that LiteRT's optimized DEQUANTIZE computes at once, and otherwise than a rest."""


def run_node(
    node: Node, graph: Graph, values: Mapping[str, np.ndarray], exact: Exactness
) -> dict[str, np.ndarray]:
    """Compute a node that is the host's own.

    Parameters
    ----------
    values : mapping of str to ndarray
        At least its inputs that are not constants, in the graph's shapes and dtypes.

    Returns
    -------
    dict of str to ndarray
        Its output, in the graph's shape and dtype.
    """
    each = [_value(graph.tensors[name], values) for name in node.inputs]
    if node.op in _LSTM:
        result = _LSTM[node.op](node, each)
    elif (pair := pair_of(node, graph, exact)) is not None:
        result = _pair(pair, *each)
    elif node.op == "stack":
        result = np.stack(each, axis=node["axis"])
    else:
        result = _compute(node, each[0], graph, exact)
    output = graph.tensors[node.outputs[0]]
    return {output.name: result.astype(output.dtype, copy=False).reshape(output.shape)}


def _value(tensor: Tensor, values: Mapping[str, np.ndarray]) -> np.ndarray:
    return values[tensor.name] if tensor.data is None else tensor.data


def _pair(layer: Elementwise, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the integers that a layer makes of two tensors of one dtype."""
    offset = UNSIGNED if a.dtype == np.uint8 else 0
    images = ((x.astype(np.int64) - offset).astype(np.int8) for x in (a, b))
    return run_layer(layer, *images).astype(np.int64) + offset


def _compute(node: Node, x: np.ndarray, graph: Graph, exact: Exactness) -> np.ndarray:
    tensor, output = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    match node.op:
        case "quantize":
            return quantize(x, _meaning(output), output.dtype, exact)
        case "dequantize":
            return dequantize(x, _meaning(tensor), exact)
        case "requantize":
            table = requantize_table(tensor, output, exact)
            assert table is not None
            return table[x.astype(np.int64) - np.iinfo(tensor.dtype).min]
        case "softmax":
            return _softmax(node, x, tensor, output, exact)
    return DATA_MOVEMENT[graph.format][node.op](node, [x], [output])[0]


def quantize(x: np.ndarray, q: Quantization, dtype: str, exact: Exactness) -> np.ndarray:
    """Turn float32 numbers into integers as QUANTIZE of TFLite or QuantizeLinear of ONNX does.

    LiteRT's reference divides and rounds half away from zero; its other kernels multiply by the
    reciprocal and round half to even; ONNX Runtime divides and rounds half to even. What is not a
    number becomes the least integer.
    """
    x, (scale, zero_point) = x.astype(np.float32), q.along(x.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        if exact in ("litert-opt", "litert-xnnpack"):
            scaled = np.rint(x * (np.float32(1) / scale))
        elif exact.ort:
            scaled = np.rint(x / scale)
        else:
            ratio = (x / scale).astype(np.float64)
            scaled = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    limits = np.iinfo(dtype)
    scaled = np.where(np.isnan(scaled), -np.inf, scaled + zero_point.astype(np.float64))
    return np.clip(scaled, limits.min, limits.max).astype(dtype)


def dequantize(x: np.ndarray, q: Quantization, exact: Exactness) -> np.ndarray:
    """Turn integers into float32 numbers as DEQUANTIZE of TFLite or ONNX does.

    LiteRT's optimized kernel adds ``-scale * zero_point``, but in the last few elements.
    """
    scale, zero_point = q.along(x.ndim)
    centered = x.astype(np.float32) - zero_point.astype(np.float32)
    result = centered * scale
    if exact == "litert-opt" and q.axis is None:
        whole = x.size // _BLOCK * _BLOCK
        offset = np.float32(-float(q.zero_point[0]) * float(q.scale[0]))
        flat = x.reshape(-1)[:whole].astype(np.float32) * q.scale[0] + offset
        result.reshape(-1)[:whole] = flat
    return result


def _softmax(
    node: Node, x: np.ndarray, tensor: Tensor, output: Tensor, exact: Exactness
) -> np.ndarray:
    limits = np.iinfo(output.dtype)
    axis = node.attributes.get("axis", -1)
    scale, beta = float(_meaning(tensor).scale[0]), float(node.attributes.get("beta", 1.0))
    bits = range(limits.min, limits.max + 1)
    return np.moveaxis(_SOFTMAX[exact](np.moveaxis(x, axis, -1), scale, beta, bits), -1, axis)


def _meaning(tensor: Tensor) -> Quantization:
    assert tensor.quantization is not None
    return tensor.quantization
