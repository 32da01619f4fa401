"""Integer layers that only move bytes."""

import math
from dataclasses import dataclass

from tpulite.graph.layer_base import Activation, Layer, check_int8, check_padding, check_pair

Indices = tuple[int, ...]
"""Positions of an axis."""


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

    @property
    def channels_apart(self) -> bool:
        """Joined channels lie in other blocks than before."""
        return self.axis != 2

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice."""
        return axis != self.axis


@dataclass(frozen=True, kw_only=True)
class Pick(Layer):
    """Make an activation of rows, columns and channels of another one, in any order.

    Output pixel (y, x) is input pixel ``(rows[y], columns[x])``; if ``transposed``,
    ``(rows[x], columns[y])``. Its channels are those in ``channels``.
    """

    #: Positions in the input; some may be missing, or be there several times.
    rows: Indices
    columns: Indices
    channels: Indices
    transposed: bool = False  #: Whether height and width change places.
    view: bool = False  #: Whether readers read a part of the input instead.

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
                raise ValueError(f"{self.title} cannot select {what} {indices} of {extent}")
        height, width = (len(axis) for axis in axes[:2])
        if self.transposed:
            height, width = width, height
        return Activation((height, width, len(self.channels)))

    @property
    def channels_apart(self) -> bool:
        """Other channels than the first ones come to lie in other blocks."""
        return self.channels == tuple(range(len(self.channels)))

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice."""
        return False


@dataclass(frozen=True, kw_only=True)
class DepthToSpace(Layer):
    """Make rectangles of pixels of the channels of each pixel.

    The channels of all inputs, one input after the other, are as many equal parts as a rectangle
    has pixels; no part lies in two inputs. Each pixel has the first ``channels`` of a part.
    """

    block: tuple[int, int]  #: Height and width of a rectangle.
    channels: int  #: Channels of the output.
    pixels: Indices = ()  #: For each part its pixel, counted row by row; empty if they are in order
    crop: tuple[int, int] = (0, 0)  #: Rows and columns that the last rectangles have too many.

    operands = 0
    channels_apart = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pair(self.title, "block", self.block)
        count = math.prod(self.block)
        if self.pixels and sorted(self.pixels) != list(range(count)):
            raise ValueError(f"{self.title} cannot give {count} parts the pixels {self.pixels}")
        if any(not 0 <= lost < size for lost, size in zip(self.crop, self.block, strict=True)):
            raise ValueError(f"{self.title} cannot crop {self.crop} of rectangles of {self.block}")

    @property
    def order(self) -> Indices:
        """The pixel of each part."""
        return self.pixels or tuple(range(math.prod(self.block)))

    def _infer(self, *activations: Activation) -> Activation:
        height, width, _ = activations[0].shape
        depths = [each.shape[2] for each in activations]
        apart, rest = divmod(sum(depths), math.prod(self.block))
        if any(each.shape[:2] != (height, width) for each in activations):
            raise ValueError(f"{self.title} cannot mix {[each.shape for each in activations]}")
        if rest or not 1 <= self.channels <= apart or any(depth % apart for depth in depths):
            raise ValueError(
                f"{self.title} cannot make rectangles of {self.block}, {self.channels} channels, "
                f"of {depths} channels"
            )
        height, width = (
            n * size - lost
            for n, size, lost in zip((height, width), self.block, self.crop, strict=True)
        )
        return Activation((height, width, self.channels))

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice."""
        return axis == 0


@dataclass(frozen=True, kw_only=True)
class Reshape(Layer):
    """The same elements in row-major order [height, width, channels], in another shape."""

    reads_runs = True
    channels_apart = False

    def check(self, activations: tuple[Activation, ...], output: Activation) -> None:
        """Check that the number of elements and the dtype stay as they are."""
        (x,) = activations
        if math.prod(x.shape) != math.prod(output.shape) or x.dtype != output.dtype:
            raise ValueError(f"{self.title} cannot make {output} of {x}")

    def sliceable(self, axis: int = 0) -> bool:
        """Return whether it can run slice by slice."""
        return False


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
