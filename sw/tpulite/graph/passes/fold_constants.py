"""Folding of constants: what can be known before the network runs."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT, expect_shape
from tpulite.graph.folded_bytes import FoldedBytes
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.graph.passes.rewrite import rebuild, same_meaning


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose result follows from constants, or from shapes, by constants.

    ValueError if a node computes another shape than its tensor has, or cannot be computed at all,
    or if constants become too large; the message names the node.
    """
    tensors = dict(graph.tensors)
    stored = sum(x.data.nbytes for x in tensors.values() if x.data is not None)
    folded, kept = FoldedBytes(stored), []
    for node in graph.nodes:
        values = _fold(node, tensors, graph.format, folded)
        if values is None:
            kept.append(node)
        else:
            tensors.update(values)
    return rebuild(graph, kept, tensors)


def _fold(
    node: Node, tensors: dict[str, Tensor], file_format: str, folded: FoldedBytes
) -> dict[str, Tensor] | None:
    if not node.inputs or "" in node.inputs:
        return None
    inputs = [tensors[name] for name in node.inputs]
    outputs = [tensors[name] for name in node.outputs]
    if node.op != "shape" and any(tensor.data is None for tensor in inputs):
        return None
    if node.op == "concat" and not all(same_meaning(x, outputs[0]) for x in inputs):
        return None
    sizes = (math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in outputs)
    folded.take(f"node {node.name!r} ({node.source or node.op})", sum(sizes))
    try:
        values = evaluate(node, inputs, outputs, file_format)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"node {node.name!r} ({node.source or node.op}): {error}") from error
    if values is None:
        return None
    result = {}
    for tensor, value in zip(outputs, values, strict=True):
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            raise ValueError(
                f"node {node.name!r} ({node.source or node.op}): its output must be {value.dtype} "
                f"{list(value.shape)}, not {tensor.dtype} {list(tensor.shape)}"
            )
        value.setflags(write=False)
        result[tensor.name] = replace(tensor, data=value)
    return result


Values = Sequence[np.ndarray]

_BOUNDS = {"relu": (0, None), "relu6": (0, 6), "relu_n1_1": (-1, 1)}


def evaluate(
    node: Node, inputs: Sequence[Tensor], outputs: Sequence[Tensor], file_format: str
) -> tuple[np.ndarray, ...] | None:
    """Compute a node.

    Arithmetic with quantized integers is left alone, because libraries differ in its bits, and so
    are functions whose last bit depends on the library.

    Parameters
    ----------
    inputs, outputs : sequence of Tensor
        Its tensors; inputs have data, except for that of ``shape``.
    file_format : str
        ``tflite`` or ``onnx``: they quantize ties differently.

    Returns
    -------
    tuple of ndarray or None
        A value for each output, or None if the node cannot be computed here.
    """
    if node.op == "shape":
        return (np.array(inputs[0].shape, outputs[0].dtype),)
    values = [tensor.data for tensor in inputs if tensor.data is not None]
    if len(values) != len(inputs):
        return None
    if node.op in _MOVED[file_format]:
        return _move(node, values, outputs, file_format)
    if node.op == "dequantize":
        return (_dequantize(values[0], inputs[0].quantization, outputs[0].dtype),)
    if node.op == "quantize":
        return _quantize(values[0], outputs[0], file_format)
    if node.op in _ARITHMETIC and all(_plain(tensor) for tensor in (*inputs, *outputs)):
        expect_shape(np.broadcast_shapes(*(value.shape for value in values)), outputs[0])
        with np.errstate(all="ignore"):  # the network says what to compute, and infinities count
            result = _ARITHMETIC[node.op](*values)
            return (_activate(result, node.attributes.get("activation", "none")),)
    return None


def _move(
    node: Node, values: Values, outputs: Sequence[Tensor], file_format: str
) -> tuple[np.ndarray, ...] | None:
    if node.op == "gather":
        if node.attributes.get("batch_dims", 0):
            return None
        x, indices = values
        axis = node["axis"] % x.ndim
        expect_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), outputs[0])
    with np.errstate(invalid="ignore"):
        moved = DATA_MOVEMENT[file_format][node.op](node, list(values), list(outputs))
    return tuple(np.asarray(value, order="C") for value in moved)


def _plain(tensor: Tensor) -> bool:
    """Tell whether the elements of a tensor are numbers, and not steps of a scale."""
    return tensor.dtype not in ("int8", "uint8", "int16") or tensor.quantization is None


def _activate(value: np.ndarray, activation: str) -> np.ndarray:
    if activation == "none":
        return value
    low, high = _BOUNDS[activation]
    return np.clip(value, low, high).astype(value.dtype)


def _dequantize(x: np.ndarray, quantization: Quantization | None, dtype: str) -> np.ndarray:
    if quantization is None:  # float16 weights
        return x.astype(dtype)
    return quantization.real(x).astype(dtype)  # exact products are rounded once


def _quantize(x: np.ndarray, y: Tensor, file_format: str) -> tuple[np.ndarray] | None:
    if y.quantization is None or not y.quantization.sound or not np.isfinite(x).all():
        return None
    scale, zero_point = y.quantization.along(x.ndim)
    quotient = (x.astype(np.float32) / scale).astype(np.float64)
    if file_format == "tflite":  # std::round: ties go away from zero
        rounded = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient)
    else:
        rounded = np.rint(quotient)
    limits = np.iinfo(y.dtype)
    return (np.clip(rounded + zero_point, limits.min, limits.max).astype(y.dtype),)


_ARITHMETIC: Mapping[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    **{name: lambda x, name=name: _activate(x, name) for name in _BOUNDS},
}

_KERNELS = {"argmax", "batch_to_space", "resize_bilinear", "resize_nearest", "space_to_batch"}
"""Operators of TFLite that the library computes, even of constants."""

_MOVED: Mapping[str, Collection[str]] = {
    "tflite": DATA_MOVEMENT["tflite"].keys() - _KERNELS,
    "onnx": ("concat", "reshape", "transpose"),
}
"""Operators that only move elements; a reader of ONNX files has computed the others."""
