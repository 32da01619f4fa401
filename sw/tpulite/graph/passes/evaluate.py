"""Values of nodes whose inputs are known, where every library agrees on every bit."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tpulite.graph.graph import Node, Quantization, Tensor

__all__ = ["evaluate"]

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
    node : Node
        The node.
    inputs, outputs : sequence of Tensor
        Its tensors; inputs have data, except for that of ``shape``.
    file_format : str
        ``tflite`` or ``onnx``: they quantize ties differently, and the host's operators of ONNX
        are not known here.

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
    if file_format == "tflite" and node.op in _TFLITE:
        return _TFLITE[node.op](node, values, outputs)
    if node.op in _MOVES:
        return (_MOVES[node.op](node, values),)
    if node.op == "dequantize":
        return (_dequantize(values[0], inputs[0].quantization, outputs[0].dtype),)
    if node.op == "quantize":
        return _quantize(values[0], outputs[0], file_format)
    if node.op in _ARITHMETIC and all(_plain(tensor) for tensor in (*inputs, *outputs)):
        _expect_shape(np.broadcast_shapes(*(value.shape for value in values)), outputs[0])
        with np.errstate(all="ignore"):  # the network says what to compute, and infinities count
            result = _ARITHMETIC[node.op](*values)
            return (_activate(result, node.attributes.get("activation", "none")),)
    return None


def _expect_shape(shape: tuple[int, ...], tensor: Tensor) -> None:
    """Refuse a result before it takes memory."""
    if shape != tensor.shape:
        raise ValueError(f"its output must be {list(shape)}, not {list(tensor.shape)}")


def _plain(tensor: Tensor) -> bool:
    """Tell whether the elements of a tensor are numbers, and not steps of a scale."""
    return tensor.dtype not in ("int8", "uint8", "int16") or tensor.quantization is None


def _activate(value: np.ndarray, activation: str) -> np.ndarray:
    if activation == "none":
        return value
    low, high = _BOUNDS[activation]
    return np.clip(value, low, high).astype(value.dtype)


def _by_channel(quantization: Quantization, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scales and zero points that broadcast with a tensor."""
    if quantization.axis is None:
        return quantization.scale[0], quantization.zero_point[0]
    shape = [-1 if i == quantization.axis else 1 for i in range(rank)]
    return quantization.scale.reshape(shape), quantization.zero_point.reshape(shape)


def _dequantize(x: np.ndarray, quantization: Quantization | None, dtype: str) -> np.ndarray:
    if quantization is None:  # float16 weights
        return x.astype(dtype)
    scale, zero_point = _by_channel(quantization, x.ndim)
    # An integer of 9 bits times a float32 is exact in float64: it is rounded once.
    return ((x.astype(np.int64) - zero_point) * scale.astype(np.float64)).astype(dtype)


def _quantize(x: np.ndarray, y: Tensor, file_format: str) -> tuple[np.ndarray] | None:
    if y.quantization is None or not np.isfinite(x).all():
        return None
    scale, zero_point = _by_channel(y.quantization, x.ndim)
    quotient = (x.astype(np.float32) / scale).astype(np.float64)
    if file_format == "tflite":  # std::round: ties go away from zero
        rounded = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient)
    else:
        rounded = np.rint(quotient)
    limits = np.iinfo(y.dtype)
    return (np.clip(rounded + zero_point, limits.min, limits.max).astype(y.dtype),)


def _concat(node: Node, values: Values) -> np.ndarray:
    return np.concatenate(values, axis=node["axis"])


def _reshape(node: Node, values: Values) -> np.ndarray:
    return values[0].reshape(node["shape"])


def _transpose(node: Node, values: Values) -> np.ndarray:
    return np.ascontiguousarray(values[0].transpose(node["perm"]))


def _cast(node: Node, values: Values, outputs: Sequence[Tensor]) -> tuple[np.ndarray]:
    with np.errstate(invalid="ignore"):
        return (values[0].astype(outputs[0].dtype),)


def _gather(node: Node, values: Values, outputs: Sequence[Tensor]) -> tuple[np.ndarray] | None:
    x, indices = values
    axis = node["axis"] % x.ndim
    if node["batch_dims"]:
        return None
    _expect_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), outputs[0])
    return (np.take(x, indices, axis=axis),)


def _pack(node: Node, values: Values, outputs: Sequence[Tensor]) -> tuple[np.ndarray]:
    return (np.stack(values, axis=node["axis"]),)


def _slice(node: Node, values: Values, outputs: Sequence[Tensor]) -> tuple[np.ndarray]:
    x, begin, size = values
    ends = [n if s < 0 else b + s for n, b, s in zip(x.shape, begin, size, strict=True)]
    return (x[tuple(slice(int(b), int(e)) for b, e in zip(begin, ends, strict=True))],)


def _split(node: Node, values: Values, outputs: Sequence[Tensor]) -> tuple[np.ndarray, ...]:
    axis, x = values
    return tuple(np.split(x, len(outputs), axis=int(axis.reshape(()))))


def _strided_slice(
    node: Node, values: Values, outputs: Sequence[Tensor]
) -> tuple[np.ndarray] | None:
    """Slice as Python does; bit i of a mask is about axis i."""
    if node["ellipsis_mask"] or node["new_axis_mask"] or node["offset"]:
        return None
    x, begin, end, strides = values
    index: list[int | slice] = []
    for i, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
        if node["shrink_axis_mask"] >> i & 1:
            index.append(int(start))
        else:
            first = None if node["begin_mask"] >> i & 1 else int(start)
            last = None if node["end_mask"] >> i & 1 else int(stop)
            index.append(slice(first, last, int(step)))
    return (np.asarray(x[tuple(index)]),)


# Operators that mean the same in all formats and only move elements.
_MOVES: Mapping[str, Callable[[Node, Values], np.ndarray]] = {
    "concat": _concat,
    "reshape": _reshape,
    "transpose": _transpose,
}

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

# Operators of the host, with inputs and attributes as TFLite has them.
_TFLITE: Mapping[str, Callable[[Node, Values, Sequence[Tensor]], tuple | None]] = {
    "cast": _cast,
    "gather": _gather,
    "pack": _pack,
    "slice": _slice,
    "split": _split,
    "strided_slice": _strided_slice,
}
