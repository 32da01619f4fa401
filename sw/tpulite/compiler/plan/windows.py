"""Sliding windows along an axis: outputs, clipped windows, and what a range of outputs reads."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.plan.closed_forms import Number, ceil_div, least, most
from tpulite.compiler.plan.segments import Spread

__all__ = ["Axis", "axes_of", "join_bounds"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """Geometry of a window along one axis.

    Parameters
    ----------
    kernel, stride, dilation : int
        As usual.
    before, after : int
        Padding.
    """

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @classmethod
    def of(cls, layers: Spread, name: str) -> "Axis":
        """Return the geometry of elements of many layers: numbers may be arrays."""
        return cls(*layers.value(name, cls.__match_args__))

    @property
    def extent(self) -> int:
        """Positions that a window covers."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def clipped(self) -> int:
        """Most outputs whose windows reach into the padding."""
        return ceil_div(self.before, self.stride) + ceil_div(self.after, self.stride)

    def at(self, size: int) -> Axis1D:
        """Return the geometry of an activation of ``size`` positions."""
        return Axis1D(size, self.stride, self.dilation, self.kernel, self.before)

    def outputs(self, size: Number) -> Number:
        """Return the outputs of ``size`` inputs."""
        return (size + self.before + self.after - self.extent) // self.stride + 1

    def clip(self, outputs: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """Return the first position of each window inside the image, and where it ends there."""
        first = outputs * self.stride - self.before
        return np.maximum(first, 0), np.minimum(first + self.extent, size)

    def whole(self, size: Number) -> tuple[Number, Number]:
        """Return the first output with a window that is not clipped, and where those end."""
        count = self.outputs(size)
        first = least(ceil_div(self.before, self.stride), count)
        stop = (size + self.before - self.extent) // self.stride + 1
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
        over = most((count - 1) * self.stride - self.before + self.extent - size, 0)
        missing = self._series(self.before, count) + self._series(over, count)
        return count * self.extent - missing

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
        image, output = np.divmod(begin, count)
        first = np.minimum(np.maximum(output * self.stride - self.before, 0), size - 1)
        first = (image * size + first) // unit * unit
        image, output = np.divmod(stop - 1, count)
        stop = np.minimum(np.maximum(output * self.stride - self.before + self.extent, 1), size)
        return first, image * size + stop


def axes_of(
    kernel: tuple[int, ...],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> tuple[Axis, Axis]:
    """Return the geometries along height and width; padding is (top, left, bottom, right)."""
    top, left, bottom, right = padding
    return (
        Axis(kernel[0], stride[0], dilation[0], top, bottom),
        Axis(kernel[1], stride[1], dilation[1], left, right),
    )


def join_bounds(*bounds: Numbers) -> Numbers:
    """Return all bounds in order, each once."""
    return np.unique(np.concatenate(bounds))
