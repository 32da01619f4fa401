"""Tensors of a graph as the machine sees them: int8 images with one scale."""

import math
from dataclasses import dataclass

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.graph.graph import Tensor

INT8_BOUNDS = (INT8[0], INT8[-1])
"""A clamp that clamps nothing."""

_LONG = 2047
"""A row of more columns is held as a column: layers are cut into rows, not into columns."""

UNSIGNED = 128
"""Difference between a uint8 tensor and the int8 image that holds it."""


class UnsupportedError(ValueError):
    """The machine cannot compute a node exactly; the message says why, without naming the node."""


@dataclass(frozen=True)
class Quantized:
    """Quantization of an 8-bit tensor."""

    scale: np.float32  #: Float32. Scale.
    zero_point: int  #: Zero point of the tensor as its file has it.
    unsigned: bool  #: Whether the tensor is uint8.

    @property
    def low(self) -> int:
        """Smallest integer of the tensor."""
        return 0 if self.unsigned else INT8[0]

    @property
    def high(self) -> int:
        """Largest integer of the tensor."""
        return self.low + len(INT8) - 1

    @property
    def zero(self) -> int:
        """Zero point of the int8 image that holds the tensor."""
        return self.zero_point - self.low + INT8[0]

    def integers(self) -> np.ndarray:
        """Return all integers of the tensor, int64 [256], smallest first."""
        return np.arange(self.low, self.high + 1, dtype=np.int64)

    def image(self, values: np.ndarray) -> np.ndarray:
        """Clamp integers of the tensor and return what its image holds, int8."""
        return (np.clip(values, self.low, self.high) - self.low + INT8[0]).astype(np.int8)


def quantized(tensor: Tensor) -> Quantized:
    """Return the quantization of an activation.

    Raises
    ------
    UnsupportedError
        If it is not an 8-bit tensor with one scale.
    """
    if tensor.dtype not in ("int8", "uint8"):
        raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or uint8")
    q = tensor.quantization
    if q is None:
        raise UnsupportedError(f"tensor {tensor.name!r} has no quantization")
    if len(q.scale) != 1 or len(q.zero_point) != 1:
        raise UnsupportedError(f"tensor {tensor.name!r} has per-channel scales")
    result = Quantized(np.float32(q.scale[0]), int(q.zero_point[0]), tensor.dtype == "uint8")
    if not 0 < result.scale < math.inf:
        raise UnsupportedError(f"tensor {tensor.name!r} has the scale {result.scale}")
    if not result.low <= result.zero_point <= result.high:
        raise UnsupportedError(f"tensor {tensor.name!r} has the zero point {result.zero_point}")
    return result


def centered(tensor: Tensor) -> np.ndarray:
    """Return the value of an 8-bit constant as int8: uint8 loses 128."""
    if tensor.data is None:
        raise UnsupportedError(f"tensor {tensor.name!r} is not constant")
    if tensor.dtype == "uint8":
        return (tensor.data.astype(np.int16) - UNSIGNED).astype(np.int8)
    if tensor.dtype == "int8":
        return tensor.data
    raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or uint8")


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the shape [height, width, channels] of the activation that holds a tensor.

    Elements keep their order. All axes before the last two are rows, one below the other: those of
    a batch of feature maps, too. A matrix [rows, channels] has one column, a vector is one pixel,
    and a long row [1, columns, channels] is a column, as only rows can be many.

    Raises
    ------
    UnsupportedError
        If the tensor has no elements.

    Examples
    --------
    >>> image_shape((1, 8, 6, 3)), image_shape((5, 10)), image_shape((2, 8, 6, 3))
    ((8, 6, 3), (5, 1, 10), (16, 6, 3))
    >>> image_shape((1, 4800, 4))
    (4800, 1, 4)
    """
    if any(extent < 1 for extent in shape):
        raise UnsupportedError(f"a tensor of shape {list(shape)} is empty")
    if len(shape) < 2:
        return 1, 1, math.prod(shape)
    if len(shape) == 2 or _is_turned(shape):
        return shape[-2], 1, shape[-1]
    return math.prod(shape[:-2]), shape[-2], shape[-1]


def _is_turned(shape: tuple[int, ...]) -> bool:
    """Tell whether the columns of a row are rows."""
    return len(shape) == 3 and shape[0] == 1 and shape[1] > _LONG


def image_axis(shape: tuple[int, ...], axis: int) -> int:
    """Return along which axis of the activation the positions of an axis of the tensor follow.

    Raises
    ------
    UnsupportedError
        If they follow each other several times, once for each position of axes in front.
    """
    rank = len(shape)
    axis %= rank
    if axis == rank - 1:
        return 2
    if axis == rank - 2 and rank > 2 and not _is_turned(shape):
        return 1
    if math.prod(shape[:axis]) > 1:
        raise UnsupportedError(f"axis {axis} of shape {list(shape)} is inside a batch")
    return 0
