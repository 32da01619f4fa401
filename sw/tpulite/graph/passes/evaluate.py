"""Values of nodes whose inputs are known, where every library agrees on every bit."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tpulite.graph.data_movement import DATA_MOVEMENT, expect_shape
from tpulite.graph.graph import Node, Quantization, Tensor

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

_MOVED: Mapping[str, tuple[str, ...]] = {
    "tflite": (
        *("cast", "concat", "gather", "pack", "reshape", "slice", "split", "strided_slice"),
        *("depth_to_space", "mirror_pad", "reverse", "space_to_depth", "split_v", "tile"),
        *("broadcast_to", "transpose", "unpack"),
    ),
    "onnx": ("concat", "reshape", "transpose"),
}
"""Operators that only move elements; a reader of ONNX files has computed the others."""
