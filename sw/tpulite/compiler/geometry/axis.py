"""Arithmetic of closed forms, and in it the geometry of windows along one axis.

The same formula is for one shape (int) and for millions (arrays). Other numbers may go through it
as well, if NumPy's functions know what to do with them: so formulas are written as C.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import CONV
from tpulite.graph.layers import Windows

Number = Any
"""An int, or an array of int64 with an element for each shape. Likewise truth values."""


def ceil_div(a: Number, b: Number) -> Number:
    """Return the quotient, rounded up."""
    return -(-a // b)


def least(a: Number, b: Number) -> Number:
    """Return the smaller number."""
    if type(a) is int and type(b) is int:
        return a if a < b else b
    return min(a, b) if _plain(a, b) else np.minimum(a, b)


def most(a: Number, b: Number) -> Number:
    """Return the larger number."""
    if type(a) is int and type(b) is int:
        return a if a > b else b
    return max(a, b) if _plain(a, b) else np.maximum(a, b)


def pick(condition: Number, yes: Number, no: Number) -> Number:
    """Return ``yes`` where the condition holds, else ``no``."""
    if _plain(condition):
        return yes if condition else no
    return np.where(condition, yes, no)


def both(*conditions: Number) -> Number:
    """Return whether all conditions hold."""
    result: Number = True
    for condition in conditions:
        result = condition if result is True else result & condition
    return result


def negate(condition: Number) -> Number:
    """Return whether the condition does not hold."""
    return not condition if _plain(condition) else ~condition


def root(value: Number) -> Number:
    """Return the square root of a natural number, rounded down (nearly, if beyond 2**52)."""
    return int(value**0.5) if isinstance(value, int) else np.sqrt(value).astype(np.int64)


def grain(size: Number) -> Number:
    """Return after how many pieces of ``size`` bytes one begins at a beat again.

    Examples
    --------
    >>> [grain(size) for size in (4, 8, 12, 16, 32)]
    [4, 2, 4, 1, 1]
    """
    if isinstance(size, int):
        return BEAT_BYTES // min(size & -size, BEAT_BYTES)
    return BEAT_BYTES // np.minimum(size & -size, BEAT_BYTES)


def cuts(extent: int, parts: int, unit: int) -> np.ndarray:
    """Return the bounds of ``parts`` nearly equal pieces of an extent, at multiples of ``unit``.

    No piece is empty if there are at least as many units as parts, and none is longer than the
    mean, rounded up to a unit.

    Examples
    --------
    >>> cuts(10, 3, 2).tolist()
    [0, 2, 6, 10]
    """
    bounds = np.arange(parts + 1) * -(-extent // unit) // parts * unit
    bounds[-1] = extent
    return bounds


def _plain(*values: Number) -> bool:
    return all(isinstance(value, int | np.generic) for value in values)


Numbers = NDArray[np.int64]

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
    """Geometry of windows along one axis.

    Numbers may be arrays: of many layers, or of many shapes.
    """

    #: As usual; of a part of the kernel, if ``start`` says where that begins.
    kernel: int
    stride: int = 1
    dilation: int = 1
    #: Padding.
    before: int = 0
    after: int = 0
    #: Positions of the tensor; 0 where it has any size, which methods get as an argument then.
    size: int = 0
    start: int = 0  #: First tap.

    @property
    def reach(self) -> int:
        """Positions that a window covers."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def clipped(self) -> int:
        """Most outputs whose windows reach into the padding."""
        return ceil_div(self.before, self.stride) + ceil_div(self.after, self.stride)

    def at(self, size: int) -> "Axis1D":
        """Return the geometry of a tensor of ``size`` positions."""
        return replace(self, size=size)

    def part(self, start: Number, kernel: Number, size: Number | None = None) -> "Axis1D":
        """Return the geometry of some taps, those of a tensor of ``size`` positions if given."""
        whole: Number = self.size if size is None else size
        return Axis1D(kernel, self.stride, self.dilation, self.before, self.after, whole, start)

    def outputs(self, size: Number) -> Number:
        """Return the outputs of ``size`` inputs."""
        return (size + self.before + self.after - self.reach) // self.stride + 1

    def origin(self, output: Number) -> Number:
        """Return the position that the first tap of an output reads; it may be in the padding."""
        return output * self.stride + self.start * self.dilation - self.before

    def span(self, outputs: range) -> range:
        """Return the positions that outputs read, clipped to the tensor."""
        stop = self.origin(outputs.stop - 1) + self.reach
        return range(max(self.origin(outputs.start), 0), min(stop, self.size))

    def needed(self, outputs: range) -> range:
        """Return the same; at least one position, so that there is a tensor."""
        return range(*self.reads_of(outputs.start, outputs.stop - 1, self.size))

    def reads_of(self, first: Number, last: Number, size: Number) -> tuple[Number, Number]:
        """Return the first position that outputs read, and where they end; at least one.

        Parameters
        ----------
        first, last : int or array of int
            The first and the last output.
        size : int or array of int
            Positions of the tensor.
        """
        begin = least(most(self.origin(first), 0), size - 1)
        return begin, least(most(self.origin(last) + self.reach, 1), size)

    def seen(self, first: Number, count: Number) -> tuple[Number, Number, Number]:
        """Describe what a command reads that computes outputs.

        Parameters
        ----------
        first, count : int or array of int
            The first output, and how many.

        Returns
        -------
        pad, seen, position : int or array of int
            Padding before, positions from there on, and the first one of them. Of padding alone it
            is a tensor of one position, beyond all that is read.
        """
        origin, reach = self.origin(first), (count - 1) * self.stride + self.reach
        begin = most(origin, 0)
        seen = least(origin + reach, self.size) - begin
        nothing = seen <= 0
        return pick(nothing, reach, begin - origin), most(seen, 1), pick(nothing, 0, begin)

    def clip(self, outputs: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """Return the first position of each window inside the image, and where it ends there."""
        first = self.origin(outputs)
        return np.maximum(first, 0), np.minimum(first + self.reach, size)

    def whole(self, size: Number) -> tuple[Number, Number]:
        """Return the first output with a window that is not clipped, and where those end."""
        count = self.outputs(size)
        first = least(ceil_div(self.before, self.stride), count)
        stop = (size + self.before - self.reach) // self.stride + 1
        return first, least(most(stop, first), count)

    def runs(self, size: int) -> Numbers:
        """Return where runs of outputs with windows of one size begin: clipped ones are alone."""
        first, stop = self.whole(size)
        middle = [first] if stop > first else []
        clipped = np.arange(stop, self.outputs(size))
        return np.concatenate([np.arange(first), middle, clipped]).astype(np.int64)

    def covered(self, size: Number) -> Number:
        """Return the positions of all windows together, clipped."""
        count = self.outputs(size)
        over = most((count - 1) * self.stride - self.before + self.reach - size, 0)
        missing = self._series(self.before, count) + self._series(over, count)
        return count * self.reach - missing

    def _series(self, largest: Number, count: Number) -> Number:
        """Return the sum of ``largest``, less ``stride`` each time, while positive."""
        terms = least(ceil_div(largest, self.stride), count)
        return terms * largest - self.stride * (terms * (terms - 1) // 2)

    def reads(
        self, begin: Numbers, stop: Numbers, size: Number, unit: Number
    ) -> tuple[Numbers, Numbers]:
        """Return the positions that ranges of outputs read: first ones, and where they end.

        Parameters
        ----------
        begin, stop : array of int
            Where the ranges begin and end, in numbers of outputs that run through a batch of
            images.
        size : int or array of int
            Positions of an image.
        unit : int or array of int
            The first positions are multiples of it.
        """
        count = self.outputs(size)
        (image, first), (image_of_last, last) = np.divmod(begin, count), np.divmod(stop - 1, count)
        first, stop = self.reads_of(first, last, size)
        return (image * size + first) // unit * unit, image_of_last * size + stop


def axes_of(windows: Windows) -> tuple[Axis1D, Axis1D]:
    """Return the geometries along height and width."""
    (kh, kw), (sy, sx), (dy, dx), (top, left, bottom, right) = windows
    return Axis1D(kh, sy, dy, top, bottom), Axis1D(kw, sx, dx, left, right)
