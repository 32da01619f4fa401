"""What all integer layers have: names of activations, and the shapes that follow from them."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

import numpy as np

from tpulite.arch.isa import VectorOp
from tpulite.arch.numerics import INT8


@dataclass(frozen=True)
class Activation:
    """Shape [height, width, channels] and dtype of an activation: int8, or int32 for raw sums."""

    shape: tuple[int, int, int]
    dtype: str = "int8"

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"An activation must have three positive extents, not {self.shape}")
        if self.dtype not in ("int8", "int32"):
            raise ValueError(f"An activation must be int8 or int32, not {self.dtype}")


class Made(Enum):
    """In which order an activation is computed: what reads it waits for what comes last."""

    BY_ROWS = "by rows"  #: by the array, some rows of all channel blocks at a time
    BY_BLOCKS = "by blocks"  #: by the array, one channel block after the other
    BEHIND = "behind"  #: by the vector path, of what the array computes
    OTHERWISE = "otherwise"  #: by others, or not at all

    @property
    def by_array(self) -> bool:
        """Whether the array computes it."""
        return self in (Made.BY_ROWS, Made.BY_BLOCKS)


class Windows(NamedTuple):
    """What slides over an activation."""

    #: (y, x).
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  #: (top, left, bottom, right)

    @property
    def single(self) -> bool:
        """Whether each output reads the one pixel that is at its place."""
        return self.kernel == self.stride == (1, 1) and not any(self.padding)

    def outputs(self, owner: str, shape: tuple[int, int, int]) -> tuple[int, int]:
        """Return height and width of what is computed.

        ValueError if a window is larger than the padded activation.
        """
        sizes = []
        for axis in (0, 1):
            padded = shape[axis] + self.padding[axis] + self.padding[axis + 2]
            extent = (self.kernel[axis] - 1) * self.dilation[axis] + 1
            if extent > padded:
                raise ValueError(
                    f"{owner}: window of {extent} is larger than the padded activation of {padded}"
                )
            sizes.append((padded - extent) // self.stride[axis] + 1)
        return sizes[0], sizes[1]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its name (unique), the activations that it reads, and the one that it computes.

    Constructors of layers raise ValueError if a value or an array is not what they say. What the
    compiler asks of every layer is a fact with a default here, which a family replaces.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    operands = 1
    """Images that the layer reads; 0 means one or more."""

    int16 = False
    """Whether it reads and computes int16: columns are pairs of int8."""

    mixes_channels = False
    """Whether each output depends on all channels of the first input."""

    by_channel = False
    """Whether it computes each channel from the same channel of its inputs."""

    on_array = False
    """Whether the systolic array computes it."""

    made = Made.OTHERWISE
    """In which order its output is computed."""

    in_place = False
    """Whether it may overwrite an input: it computes each vector from those at the same place."""

    reads_runs = False
    """Whether it reads rows as one run of pixels, without gaps between them."""

    view = False
    """Whether who reads it reads a part of its input instead, so that nothing is to be done."""

    channels_apart = True
    """Whether blocks of its output's channels can be computed one after the other."""

    @property
    def vector_op(self) -> VectorOp:
        """What the vector path computes of it; a copy if bytes are only moved."""
        return VectorOp.COPY

    @property
    def weights(self) -> np.ndarray | None:
        """Its weights, int8 [kh, kw, ...]; the last axis is that of the output's channels."""
        return None

    @property
    def windows(self) -> Windows | None:
        """What slides over its input; of int16 along the width as :class:`Conv` has it."""
        return None

    @property
    def column_grain(self) -> int:
        """Columns that cannot be parted."""
        return 2 if self.int16 else 1

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice along the height (0) or the width (1)."""
        return True

    def macs(self, *activations: Activation) -> int:
        """Return the multiplications of the array, padding not counted.

        Parameters
        ----------
        activations : Activation
            What it reads, and last what it computes.
        """
        return 0

    def reading(self, order: np.ndarray, count: int) -> Self | None:
        """Return the layer that reads its channels from others; None if it has no weights for that.

        Parameters
        ----------
        order : ndarray of int, [C]
            Where each of its channels is, all of them apart.
        count : int
            Channels that there are; those that are not in ``order`` are not used.
        """
        return None

    @property
    def title(self) -> str:
        """How error messages name the layer."""
        return f"Layer {self.name!r}"

    def __post_init__(self) -> None:
        if not self.inputs or (self.operands and len(self.inputs) != self.operands):
            raise ValueError(
                f"{self.title} must read {self.operands or 'some'} activations, "
                f"not {len(self.inputs)}"
            )

    def _infer(self, *activations: Activation) -> Activation:
        """Return what the layer computes of such activations; raise ValueError if it cannot."""
        raise NotImplementedError

    def of_channels(self, some: np.ndarray | slice) -> Self:
        """Return the layer that computes some channels: a mask, indices, or a slice.

        A layer without parameters of channels is returned as it is.
        """
        return self

    def check(self, activations: tuple[Activation, ...], output: Activation) -> None:
        """Check that the layer computes ``output`` of ``activations``.

        ValueError if it does not.
        """
        for name, activation in zip(self.inputs, activations, strict=True):
            if activation.dtype != "int8":
                raise ValueError(f"{self.title} needs int8, but {name!r} is {activation.dtype}")
        if (found := self._infer(*activations)) != output:
            raise ValueError(f"{self.title} computes {found}, but {self.output!r} is {output}")


def check_array(owner: str, what: str, array: object, dtype: str, rank: int) -> None:
    """Check that an array has a dtype and a number of axes, and is not empty."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
        found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else array
        raise ValueError(f"{owner}: {what} must be {dtype} with {rank} axes, not {found}")
    if not array.size:
        raise ValueError(f"{owner}: {what} must not be empty, not {list(array.shape)}")


def check_int8(owner: str, **values: int) -> None:
    """Check that numbers are in the range of int8."""
    check_integers(owner, len(INT8).bit_length() - 1, **values)


def check_integers(owner: str, bits: int, **values: int) -> None:
    """Check that numbers are in the range of signed integers of so many bits."""
    allowed = range(-(1 << (bits - 1)), 1 << (bits - 1))
    for what, value in values.items():
        if value not in allowed:
            raise ValueError(f"{owner}: {what} must be in {allowed[0]}..{allowed[-1]}, not {value}")


def check_pair(owner: str, what: str, pair: tuple[int, int]) -> None:
    """Check that a pair (y, x) is positive."""
    if len(pair) != 2 or min(pair) < 1:
        raise ValueError(f"{owner}: {what} must be two positive numbers, not {pair}")


def check_padding(owner: str, padding: tuple[int, int, int, int]) -> None:
    """Check that a padding (top, left, bottom, right) is not negative."""
    if len(padding) != 4 or min(padding) < 0:
        raise ValueError(f"{owner}: padding must be four numbers from 0 on, not {padding}")
