"""Operators on the host: exact where a library's bits can be named, else in floating point."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.graph.data_movement import DATA_MOVEMENT
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.tensors import UnsupportedError, quantized
from tpulite.runtime.host.float_ops import FLOAT_RULES, activate
from tpulite.runtime.host.softmax import softmax_fixed_point, softmax_table

__all__ = ["APPROXIMATE", "can_run", "dequantize", "host_reason", "quantize", "run_node"]

APPROXIMATE = "approximate: computed in floating point"
"""What is said of results that have no library's bits."""

_INTEGERS = ("int8", "uint8", "int16")

# Whose bits softmax of integers has.
_SOFTMAX = {
    "litert-ref": softmax_fixed_point,
    "tflm": softmax_fixed_point,
    "litert-opt": softmax_table,
    "litert-xnnpack": softmax_table,
}

_WEIGHTED = ("conv", "depthwise", "dense")

_BLOCK = 8
"""Elements that LiteRT's optimized DEQUANTIZE computes at once, and otherwise than a rest."""


def run_node(
    node: Node, graph: Graph, values: Mapping[str, np.ndarray], exact: str
) -> dict[str, np.ndarray]:
    """Compute a node.

    Parameters
    ----------
    node : Node
        The node.
    graph : Graph
        Its graph.
    values : mapping of str to ndarray
        At least its inputs that are not constants, in the graph's shapes and dtypes.
    exact : str
        Whose bits: a name of ``--exact``.

    Returns
    -------
    dict of str to ndarray
        Its outputs, in the graph's shapes and dtypes.

    Raises
    ------
    ValueError
        If the host cannot compute it.
    """
    tensors = [graph.tensors[name] for name in node.inputs if name]
    outputs = [graph.tensors[name] for name in node.outputs]
    given = [values[tensor.name] if tensor.data is None else tensor.data for tensor in tensors]
    try:
        results = _rule(node, graph, exact)(node, given, tensors, outputs)
        shaped = [
            np.asarray(result).astype(tensor.dtype, copy=False).reshape(tensor.shape)
            for tensor, result in zip(outputs, results, strict=True)
        ]
    except (LookupError, TypeError, ValueError, FloatingPointError) as error:
        raise ValueError(f"Node {node.name!r} ({node.source or node.op}): {error}") from error
    return {tensor.name: result for tensor, result in zip(outputs, shaped, strict=True)}


def host_reason(node: Node, graph: Graph, exact: str) -> str:
    """Return why the host's result has nobody's bits, or cannot be had; empty if it is exact."""
    try:
        rule = _rule(node, graph, exact)
    except ValueError as error:
        return str(error)
    return APPROXIMATE if rule is _run_float else ""


def can_run(node: Node, graph: Graph, exact: str) -> bool:
    """Tell whether the host can compute a node at all."""
    return host_reason(node, graph, exact) in ("", APPROXIMATE)


def quantize(x: np.ndarray, q: Quantization, dtype: str, exact: str) -> np.ndarray:
    """Turn float32 numbers into integers as QUANTIZE of TFLite or QuantizeLinear of ONNX does.

    LiteRT's reference divides and rounds half away from zero; its other kernels multiply by the
    reciprocal and round half to even; ONNX Runtime divides and rounds half to even. What is not a
    number becomes the least integer.
    """
    x, (scale, zero_point) = x.astype(np.float32), q.along(x.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        if exact in ("litert-opt", "litert-xnnpack"):
            scaled = np.rint(x * (np.float32(1) / scale))
        elif exact == "ort":
            scaled = np.rint(x / scale)
        else:
            ratio = (x / scale).astype(np.float64)
            scaled = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    limits = np.iinfo(dtype)
    scaled = np.where(np.isnan(scaled), -np.inf, scaled + zero_point.astype(np.float64))
    return np.clip(scaled, limits.min, limits.max).astype(dtype)


def dequantize(x: np.ndarray, q: Quantization, exact: str) -> np.ndarray:
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


_Run = Callable[[Node, list[np.ndarray], list[Tensor], list[Tensor]], list[np.ndarray]]


def _rule(node: Node, graph: Graph, exact: str) -> _Run:
    """Choose how to compute a node; ValueError if there is no way."""
    moves = DATA_MOVEMENT[graph.format]
    tensors = [graph.tensors[name] for name in node.inputs if name]
    outputs = [graph.tensors[name] for name in node.outputs]
    if node.op in moves and _keeps_meaning(node, tensors, outputs):
        return lambda node, given, _, outputs: moves[node.op](node, given, outputs)
    if node.op == "quantize":
        return lambda node, given, _, outputs: [
            quantize(given[0], _meaning(outputs[0]), outputs[0].dtype, exact)
        ]
    if node.op == "dequantize":
        return lambda node, given, tensors, _: [dequantize(given[0], _meaning(tensors[0]), exact)]
    if node.op == "softmax" and exact in _SOFTMAX and tensors[0].dtype in ("int8", "uint8"):
        return lambda node, given, tensors, outputs: [
            _softmax(node, given[0], tensors[0], outputs[0], exact)
        ]
    if node.op == "requantize" and (table := _table(tensors[0], outputs[0], exact)) is not None:
        low = np.iinfo(tensors[0].dtype).min
        return lambda node, given, tensors, outputs: [table[given[0].astype(np.int64) - low]]
    if node.op == "max_pool" and _keeps_meaning(node, tensors, outputs):
        return _max_pool
    if node.op in FLOAT_RULES:
        return _run_float
    reason = node.attributes.get("reason", "the host has no such operator either")
    raise ValueError(str(reason))


def _keeps_meaning(node: Node, tensors: list[Tensor], outputs: list[Tensor]) -> bool:
    """Tell whether moving the integers is all there is to do."""
    if node.op in ("argmax", "cast", "shape"):
        return True
    if node.attributes.get("activation", "none") != "none":
        return False
    parts = tensors if node.op in ("concat", "pack") else _data(node, tensors)
    return all(_same_meaning(part, output) for part in parts for output in outputs)


def _data(node: Node, tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensor whose elements are moved; other inputs say where."""
    return tensors[1:2] if node.op == "split" and len(tensors) == 2 else tensors[:1]


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype:
        return False
    if a.quantization is None or b.quantization is None:
        return a.quantization is b.quantization
    return np.array_equal(a.quantization.scale, b.quantization.scale) and np.array_equal(
        a.quantization.zero_point, b.quantization.zero_point
    )


def _table(x: Tensor, y: Tensor, exact: str) -> np.ndarray | None:
    """Return the integers that a change of scale makes of all integers, if there is a table."""
    try:
        before, after = quantized(x), quantized(y)
        size = math.prod(x.shape)
        image = function_table("requantize", before, after, {}, Exactness(exact), size)
    except UnsupportedError:
        return None
    return (image.astype(np.int64) - INT8[0] + after.low).astype(y.dtype)


def _softmax(node: Node, x: np.ndarray, tensor: Tensor, output: Tensor, exact: str) -> np.ndarray:
    limits, meaning = np.iinfo(output.dtype), _meaning(output)
    if float(meaning.scale[0]) != 1 / 256 or int(meaning.zero_point[0]) != limits.min:
        raise ValueError(
            f"output {output.name!r} must have scale 1/256 and zero point {limits.min}, not "
            f"{meaning.scale[0]} and {meaning.zero_point[0]}"
        )
    axis = node.attributes.get("axis", -1)
    scale, beta = float(_meaning(tensor).scale[0]), float(node.attributes.get("beta", 1.0))
    shares = _SOFTMAX[exact](
        np.moveaxis(x, axis, -1), scale, beta, range(limits.min, limits.max + 1)
    )
    return np.moveaxis(shares, -1, axis)


def _max_pool(
    node: Node, given: list[np.ndarray], tensors: list[Tensor], outputs: list[Tensor]
) -> list[np.ndarray]:
    """Compare integers, which needs no scale."""
    return [FLOAT_RULES["max_pool"](node, [given[0].astype(np.float64)])]


def _run_float(
    node: Node, given: list[np.ndarray], tensors: list[Tensor], outputs: list[Tensor]
) -> list[np.ndarray]:
    reals = [
        value.astype(np.float64) if tensor.quantization is None else tensor.quantization.real(value)
        for value, tensor in zip(given, tensors, strict=True)
    ]
    if node.op in _WEIGHTED and len(tensors) > 2 and tensors[2].dtype == "int32":
        # Its scale follows from those of input and weights; files need not repeat it.
        scale = np.float64(_meaning(tensors[0]).scale) * _meaning(tensors[1]).scale
        reals[2] = given[2] * scale
    with np.errstate(all="ignore"):
        result = activate(node, FLOAT_RULES[node.op](node, reals))
    (output,) = outputs
    if np.dtype(output.dtype).kind in "iu" and output.quantization is None:
        return [result.astype(np.int64).astype(output.dtype)]  # integers of their own, wrapping
    if output.dtype in _INTEGERS:
        return [quantize(result, _meaning(output), output.dtype, "ort")]
    return [result]


def _meaning(tensor: Tensor) -> Quantization:
    if tensor.quantization is None:
        raise ValueError(f"tensor {tensor.name!r} has no scale")
    return tensor.quantization
