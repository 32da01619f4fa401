"""Integer layers of the vector path: everything elementwise, and pooling."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tpulite.arch.isa import OPERANDS, VECTOR, Scaling, VectorOp
from tpulite.arch.numerics import INT8
from tpulite.graph.layer_base import (
    Activation,
    Layer,
    Windows,
    check_array,
    check_int8,
    check_padding,
    check_pair,
)
from tpulite.graph.requantization import Requantization, addends

SOFTMAX_CHANNELS = 8 * VECTOR.limit("window_rows")
"""Most channels of a softmax: a window of vectors on any machine, and sums of 31 bits."""

_MULTIPLIERS, _SHIFTS = (
    next(field.range for field in OPERANDS.fields if field.name == name)
    for name in ("a_multiplier", "a_shift")
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Elementwise(Layer):
    """``add``, ``sub``, ``mul`` or ``max`` of two activations.

    It is computed as :class:`tpulite.arch.isa.VectorOp` says. The second input of the first three
    may be [1, 1, C] and is then the same for every position. A maximum is of the bytes themselves:
    its zero points are 0, and its requantization changes nothing.
    """

    op: str
    requantization: Requantization
    zero_points: tuple[int, int]
    multipliers: tuple[int, int] = (0, 0)
    shifts: tuple[int, int] = (0, 0)
    scaling: Scaling = Scaling.TFLITE

    operands = 2
    by_channel = in_place = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.op not in ("add", "sub", "mul", "max"):
            raise ValueError(f"{self.title} must be add, sub, mul or max, not {self.op!r}")
        check_int8(self.title, a_zero_point=self.zero_points[0], b_zero_point=self.zero_points[1])
        for what, pair, allowed in (
            ("multipliers", self.multipliers, _MULTIPLIERS),
            ("shifts", self.shifts, _SHIFTS),
        ):
            if any(value not in allowed for value in pair):
                raise ValueError(
                    f"{self.title}: {what} must be in {allowed[0]}..{allowed[-1]}, not {pair}"
                )
        _check_common(self, self.requantization)

    def _infer(self, *activations: Activation) -> Activation:
        a, b = activations
        spread = () if self.op == "max" else ((1, 1, a.shape[2]),)
        if b.shape not in (a.shape, *spread):
            raise ValueError(f"{self.title} cannot combine {a.shape} with {b.shape}")
        return Activation(a.shape)

    @property
    def vector_op(self) -> VectorOp:
        """What the vector path computes of it."""
        return VectorOp[self.op.upper()]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool(Layer):
    """``max``, ``average`` or ``sum`` over windows; what lies in the padding does not count.

    Average divides by the positions that count and rounds half away from zero. Sum is
    requantized.
    """

    op: str  #: ``max``, ``average`` or ``sum``.
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    #: Of a sum: one for all channels. It clamps, so ``low`` and ``high`` are without effect.
    requantization: Requantization | None = None
    #: Average only: the average is that of x + offset, less offset. 128 gives ties the way of uint8
    #: tensors: up.
    offset: int = 0
    #: Clamp of maximum and average.
    low: int = INT8[0]
    high: int = INT8[-1]

    by_channel = reads_runs = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.op not in ("max", "average", "sum"):
            raise ValueError(f"{self.title} must be max, average or sum, not {self.op!r}")
        check_pair(self.title, "window", self.window)
        check_pair(self.title, "stride", self.stride)
        check_padding(self.title, self.padding)
        check_int8(self.title, low=self.low, high=self.high)
        if (self.op == "sum") != (self.requantization is not None):
            raise ValueError(f"{self.title}: a sum, and nothing else, has a requantization")
        if self.offset not in (0, 128) or (self.offset and self.op != "average"):
            raise ValueError(
                f"{self.title}: offset must be 0, or 128 of an average, not {self.offset}"
            )
        if self.requantization is not None:
            _check_common(self, self.requantization)

    def _infer(self, *activations: Activation) -> Activation:
        (x,) = activations
        height, width = self.windows.outputs(self.title, x.shape)
        for axis, count in ((0, height), (1, width)):
            last = (count - 1) * self.stride[axis] - self.padding[axis]
            if self.padding[axis] >= self.window[axis] or last >= x.shape[axis]:
                raise ValueError(f"{self.title}: a window must not lie in padding {self.padding}")
        return Activation((height, width, x.shape[2]))

    @property
    def windows(self) -> Windows:
        """What slides over its input."""
        return Windows(self.window, self.stride, (1, 1), self.padding)

    @property
    def vector_op(self) -> VectorOp:
        """What the vector path computes of it."""
        return VectorOp.MAX if self.op == "max" else VectorOp.SUM


@dataclass(frozen=True, kw_only=True, eq=False)
class Affine(Layer):
    """requantize(gain * x) by channel; gain int16 [C], requantization of [C]."""

    gain: np.ndarray
    requantization: Requantization

    by_channel = in_place = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_array(self.title, "gain", self.gain, "int16", 1)
        if self.requantization.channels not in (1, len(self.gain)):
            raise ValueError(
                f"{self.title} has {len(self.gain)} gains and requantizes "
                f"{self.requantization.channels} channels"
            )

    def _infer(self, *activations: Activation) -> Activation:
        (x,) = activations
        if x.shape[2] != len(self.gain):
            raise ValueError(f"{self.title} has {len(self.gain)} gains, not {x.shape[2]}")
        return x

    @property
    def vector_op(self) -> VectorOp:
        """What the vector path computes of it."""
        return VectorOp.AFFINE

    def of_channels(self, some: np.ndarray | slice) -> Self:
        """Return the layer that computes some channels."""
        record = self.requantization.of(some)
        return replace(self, gain=self.gain[some], requantization=record)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lut(Layer):
    """table[x + 128], table int8 [256]."""

    table: np.ndarray

    by_channel = in_place = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_array(self.title, "table", self.table, "int8", 1)
        if len(self.table) != 256:
            raise ValueError(f"{self.title}: a table must have 256 entries, not {len(self.table)}")

    def _infer(self, *activations: Activation) -> Activation:
        return activations[0]

    @property
    def vector_op(self) -> VectorOp:
        """What the vector path computes of it."""
        return VectorOp.LUT


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(Layer):
    """Shares of channels in the sum of their exponentials: of 1/256, less 128."""

    #: Ndarray of int32, [256]. Exponentials of the differences from the largest channel, with 31
    #: fractional bits.
    words: np.ndarray

    mixes_channels = True
    channels_apart = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_array(self.title, "words", self.words, "int32", 1)
        if len(self.words) != 256 or self.words.min() < 0:
            raise ValueError(f"{self.title}: words must be 256 that are not negative")

    @property
    def addends(self) -> np.ndarray:
        """Words as they are added."""
        return addends(self.words.astype(np.int64)).astype(np.int32)

    @property
    def requantization(self) -> Requantization:
        """Return what follows the product with the reciprocal of the sum."""
        none = np.zeros(1, np.int64)
        return Requantization(multiplier=none, shift=none, zero_point=INT8[0])

    def _infer(self, *activations: Activation) -> Activation:
        (x,) = activations
        if x.shape[2] > SOFTMAX_CHANNELS:
            raise ValueError(f"{self.title} must be of {SOFTMAX_CHANNELS} channels at most")
        return x


def _check_common(layer: Layer, requantization: Requantization) -> None:
    if requantization.channels != 1:
        raise ValueError(
            f"{layer.title} must requantize all channels alike, not {requantization.channels}"
        )
