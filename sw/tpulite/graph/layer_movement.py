"""Integer layers that only move bytes."""

import math
from dataclasses import dataclass

from tpulite.graph.layer_base import Activation, Layer
from tpulite.graph.layer_checks import check_int8, check_padding

Indices = tuple[int, ...]
"""Positions of an axis."""

__all__ = ["Concat", "DepthToSpace", "Pad", "Pick", "Reshape"]


@dataclass(frozen=True, kw_only=True)
class Pad(Layer):
    """Add ``value`` around the activation."""

    padding: tuple[int, int, int, int]
    value: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.title, self.padding)
        check_int8(self.title, value=self.value)

    def _infer(self, *activations: Activation) -> Activation:
        height, width, channels = activations[0].shape
        top, left, bottom, right = self.padding
        return Activation((top + height + bottom, left + width + right, channels))


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """Join activations along an axis: 0 height, 1 width, 2 channels."""

    axis: int = 2

    operands = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axis not in (0, 1, 2):
            raise ValueError(f"{self.title}: axis must be 0, 1 or 2, not {self.axis}")

    def _infer(self, *activations: Activation) -> Activation:
        rests = {_without(activation.shape, self.axis) for activation in activations}
        if len(rests) > 1:
            raise ValueError(
                f"{self.title} cannot join {[activation.shape for activation in activations]}"
            )
        shape = list(activations[0].shape)
        shape[self.axis] = sum(activation.shape[self.axis] for activation in activations)
        return Activation((shape[0], shape[1], shape[2]))


@dataclass(frozen=True, kw_only=True)
class Pick(Layer):
    """Make an activation of rows, columns and channels of another one, in any order.

    Output pixel (y, x) is input pixel ``(rows[y], columns[x])``; if ``transposed``,
    ``(rows[x], columns[y])``. Its channels are those in ``channels``.

    Parameters
    ----------
    rows, columns, channels : tuple of int
        Positions in the input; some may be missing, or be there several times.
    transposed : bool
        Whether height and width change places.
    view : bool
        Whether who reads it reads a part of the input instead, so that nothing is to be done.
    """

    rows: Indices
    columns: Indices
    channels: Indices
    transposed: bool = False
    view: bool = False

    def __post_init__(self) -> None:
        """Make Python's integers of others, such as NumPy's, which wrap around."""
        super().__post_init__()
        for name in ("rows", "columns", "channels"):
            object.__setattr__(self, name, tuple(map(int, getattr(self, name))))

    def _infer(self, *activations: Activation) -> Activation:
        axes = self.rows, self.columns, self.channels
        for what, indices, extent in zip(
            ("rows", "columns", "channels"), axes, activations[0].shape, strict=True
        ):
            if not indices or not 0 <= min(indices) <= max(indices) < extent:
                raise ValueError(f"{self.title} cannot pick {what} {indices} of {extent}")
        height, width = (len(axis) for axis in axes[:2])
        if self.transposed:
            height, width = width, height
        return Activation((height, width, len(self.channels)))


@dataclass(frozen=True, kw_only=True)
class DepthToSpace(Layer):
    """Make squares of ``block`` x ``block`` pixels of the channels of each pixel.

    Pixel (i, j) of a square has the first ``channels`` of part ``i * block + j`` of the input's
    channels, which are as many equal parts as a square has pixels.
    """

    block: int
    channels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block < 1:
            raise ValueError(f"{self.title} has squares of {self.block} pixels")

    def _infer(self, *activations: Activation) -> Activation:
        height, width, depth = activations[0].shape
        apart, rest = divmod(depth, self.block**2)
        if rest or not 1 <= self.channels <= apart:
            raise ValueError(
                f"{self.title} cannot make squares of {self.block}, {self.channels} channels, "
                f"of {depth} channels"
            )
        return Activation((height * self.block, width * self.block, self.channels))


@dataclass(frozen=True, kw_only=True)
class Reshape(Layer):
    """The same elements in row-major order [height, width, channels], in another shape."""

    def check(self, activations: tuple[Activation, ...], output: Activation) -> None:
        """Check that the number of elements and the dtype stay as they are."""
        (x,) = activations
        if math.prod(x.shape) != math.prod(output.shape) or x.dtype != output.dtype:
            raise ValueError(f"{self.title} cannot make {output} of {x}")


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
