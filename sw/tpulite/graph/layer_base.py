"""What all integer layers have: names of activations, and the shapes that follow from them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

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


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its name (unique), the activations that it reads, and the one that it computes.

    Constructors of layers raise ValueError if a value or an array is not what they say.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    operands = 1
    """Images that the layer reads; 0 means one or more."""

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


def windowed(
    owner: str,
    shape: tuple[int, int, int],
    *,
    window: tuple[int, ...],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int]:
    """Return height and width of what a sliding window computes.

    ValueError if the window is larger than the padded activation.
    """
    sizes = []
    for axis in (0, 1):
        padded = shape[axis] + padding[axis] + padding[axis + 2]
        extent = (window[axis] - 1) * dilation[axis] + 1
        if extent > padded:
            raise ValueError(
                f"{owner}: window of {extent} is larger than the padded activation of {padded}"
            )
        sizes.append((padded - extent) // stride[axis] + 1)
    return sizes[0], sizes[1]
