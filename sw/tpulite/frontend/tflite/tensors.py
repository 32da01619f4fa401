"""Tensors of TFLite files: every extent, constant and scale is checked."""

import math
from dataclasses import replace

import numpy as np

from tpulite.frontend.tflite.parse import FileTensor
from tpulite.graph.graph import Quantization, Tensor

_MAX_ELEMENTS = (1 << 31) - 1

# Types that numpy has, too, by the same name; tensors of other types are objects without a value.
_NUMPY = frozenset(
    {
        *("float16", "float32", "float64", "complex64", "complex128", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)
_ACTIVATIONS = ("int8", "uint8", "int16")


def read_tensor(file: FileTensor, name: str, *, given: bool = True) -> Tensor:
    """Check a tensor of a file and give it a name.

    Constants are views of the file; a variable that an interpreter keeps is none. A quantization
    that nobody needs (int32 has those of biases, which follow from input and weights) is left out
    if it is not sound.

    Parameters
    ----------
    file : FileTensor
        The tensor.
    name : str
        Its name in the graph, and in messages.
    given : bool
        Whether it is an input of the network. Others may have a shape that only the run knows;
        they are objects without a shape, and so are sparse constants, which libraries alone read.

    Raises
    ------
    ValueError
        If an extent of an input is dynamic (a batch is taken as 1), one is absurd, a constant has
        not as many bytes as its shape, or a scale or zero point is missing or out of range.
    """
    try:
        if not given and any(n < 0 for n in (*file.signature[1:], *file.shape[1:])):
            return Tensor(name, (), "object")
        return _read(file, name)
    except ValueError as error:
        raise ValueError(f"tensor {name!r}: {error}") from error


def _read(file: FileTensor, name: str) -> Tensor:
    shape = _shape(file)
    dtype = file.type.lower()
    if dtype == "int4" and file.data is not None and not file.sparse:
        file, dtype = replace(file, data=_nibbles(file.data, math.prod(shape))), "int8"
    if dtype not in _NUMPY or (file.sparse and file.data is not None):
        data = None if file.data is None else np.broadcast_to(np.array(None, object), shape)
        return Tensor(name, shape, "object", None, data)
    data = _data(file, shape, np.dtype(dtype))
    quantization = None
    if dtype in _ACTIVATIONS:
        quantization = _quantization(file, shape, np.iinfo(dtype))
    elif dtype == "int32":
        try:
            found = _quantization(file, shape, np.iinfo(dtype))
            quantization = found if found is not None and found.sound else None
        except ValueError:
            quantization = None
    return Tensor(name, shape, dtype, quantization, data)


def _shape(file: FileTensor) -> tuple[int, ...]:
    if file.signature and len(file.signature) != len(file.shape):
        raise ValueError(
            f"shape {list(file.shape)} and signature {list(file.signature)} have different ranks"
        )
    if any(extent < 0 for extent in file.signature[1:]) or any(n < 0 for n in file.shape[1:]):
        dynamic = file.signature or file.shape
        raise ValueError(f"shape {list(dynamic)} is dynamic; only the batch may be")
    shape = tuple(1 if i == 0 and n == -1 else n for i, n in enumerate(file.shape))
    if any(extent < 0 for extent in shape):
        raise ValueError(f"extents must not be negative: {list(shape)}")
    if math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"shape {list(shape)} has more than {_MAX_ELEMENTS:,} elements")
    return shape


def _data(file: FileTensor, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    if file.variable or file.data is None:
        return None
    expected = math.prod(shape) * dtype.itemsize
    if file.data.size != expected:
        raise ValueError(
            f"shape {list(shape)} of {dtype.name} needs {expected} bytes, not {file.data.size}"
        )
    return file.data.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def _nibbles(data: np.ndarray, count: int) -> np.ndarray:
    """Return integers of 4 bits as bytes; of two in a byte the first is the low half."""
    halves = np.stack([data << 4, data], axis=-1).reshape(-1).view(np.int8) >> 4
    whole = len(data) == -(-count // 2)
    return (halves[:count] if whole else halves).view(np.uint8)


def _quantization(
    file: FileTensor, shape: tuple[int, ...], integers: np.iinfo
) -> Quantization | None:
    count = file.scale.size
    if not count:
        return None
    if file.zero_point.size != count:
        raise ValueError(f"it has {count} scales but {file.zero_point.size} zero points")
    axis = None
    if count > 1:
        axis = file.axis
        if not 0 <= axis < len(shape):
            raise ValueError(f"its scales belong to axis {axis} of shape {list(shape)}")
        if shape[axis] != count:
            raise ValueError(f"it has {count} scales for {shape[axis]} channels")
    scale = file.scale.astype(np.float32)
    zero_point = file.zero_point.astype(np.int64)
    wrong = (zero_point < integers.min) | (zero_point > integers.max)
    if wrong.any():
        raise ValueError(
            f"zero points must be from {integers.min} to {integers.max}, not {zero_point[wrong][0]}"
        )
    return Quantization(scale, zero_point, axis)
