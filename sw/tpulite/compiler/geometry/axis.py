"""Geometry of a convolution along one axis, and what one command can read of it."""

from dataclasses import dataclass

from tpulite.arch.isa import CONV

__all__ = [
    "LARGEST_DILATION",
    "LARGEST_EXTENT",
    "LARGEST_KERNEL",
    "LARGEST_PAD",
    "LARGEST_STRIDE",
    "Axis1D",
    "most_outputs",
    "needed_rows",
]

LARGEST_KERNEL = CONV.limit("kernel_rows")
"""Largest kernel of one command, along each axis."""

LARGEST_EXTENT = CONV.limit("height")
"""Most positions that one command reads, along each axis."""

LARGEST_STRIDE = CONV.limit("stride_x")
"""Largest stride of a command; rows of the buffer can be farther from each other."""

LARGEST_DILATION = CONV.limit("dilation_x")
"""Largest distance of taps of a command."""

LARGEST_PAD = CONV.limit("pad_top")
"""Most positions before those that a command reads."""


def most_outputs(positions: int, taps: int, stride: int, dilation: int) -> int:
    """Return the outputs along an axis that read no more than so many positions.

    Examples
    --------
    >>> most_outputs(10, taps=3, stride=2, dilation=2)
    3
    """
    return max(0, (positions - (taps - 1) * dilation - 1) // stride + 1)


@dataclass(frozen=True)
class Axis1D:
    """Geometry of a convolution along one axis.

    Parameters
    ----------
    extent : int
        Input positions.
    stride, dilation, kernel : int
        As usual; of a part of the kernel, if ``start`` says where that begins.
    pad : int
        Padding before the first position.
    start : int
        First tap.
    """

    extent: int
    stride: int
    dilation: int
    kernel: int
    pad: int
    start: int = 0

    def origin(self, output: int) -> int:
        """Return the position that the first tap of an output reads; it may be in the padding."""
        return output * self.stride + self.start * self.dilation - self.pad

    def span(self, outputs: range) -> range:
        """Return the positions that outputs read, clipped to the image."""
        first = self.origin(outputs.start)
        last = self.origin(outputs.stop - 1) + (self.kernel - 1) * self.dilation
        return range(max(first, 0), min(last + 1, self.extent))


def needed_rows(y: Axis1D, outputs: range) -> range:
    """Return the image rows that some output rows read; at least one, so that there is an image."""
    rows = y.span(outputs)
    if rows:
        return rows
    row = min(max(rows.start, 0), y.extent - 1)
    return range(row, row + 1)
