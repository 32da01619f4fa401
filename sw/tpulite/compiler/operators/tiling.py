"""How a layer is cut into tiles at one shape, and which rows of the buffer they take in turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tpulite.compiler.geometry.closed_forms import cuts


@dataclass(frozen=True)
class Cut:
    """An axis of a layer's output, cut into parts.

    Examples
    --------
    >>> cut = Cut("rows", (0, 3, 6, 8))
    >>> len(cut), cut.first, cut.last, cut.largest
    (3, 3, 2, 3)
    """

    #: ``rows`` (of all images of a batch, one after the other), ``columns``, ``pixels`` (rows and
    #: columns in one) or ``channels``.
    axis: str
    bounds: tuple[int, ...]  #: Where each part begins, and where the last one ends.

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def first(self) -> int:
        """Size of the first part."""
        return self.bounds[1] - self.bounds[0]

    @property
    def last(self) -> int:
        """Size of the last part: the tail."""
        return self.bounds[-1] - self.bounds[-2]

    @property
    def largest(self) -> int:
        """Size of the largest part."""
        return int(np.diff(self.bounds).max())


@dataclass(frozen=True)
class Buffers:
    """Ranges of rows of the unified buffer that tiles take in turn (ping-pong)."""

    #: ``tile`` (input, computed in place, then output), ``input``, ``output`` or ``weights``.
    holds: str
    count: int  #: How many; tile i lies in buffer i mod ``count``.
    #: First row of the first buffer, and rows of each; they follow one another.
    row: int
    rows: int

    @property
    def begins(self) -> tuple[int, ...]:
        """The first row of each buffer."""
        return tuple(self.row + self.rows * i for i in range(self.count))


@dataclass(frozen=True)
class Tiling:
    """All tiles of a layer at one shape."""

    #: The axes of the output. Each combination of parts is a tile, so that every element is in
    #: exactly one of them.
    cuts: tuple[Cut, ...]
    #: Where tiles lie; without those of tensors that stay in the buffer.
    buffers: tuple[Buffers, ...]

    @classmethod
    def of(cls, cuts: Sequence[Cut], buffers: Sequence[Buffers]) -> "Tiling":
        """Return a tiling; buffers of no rows are left out."""
        return cls(tuple(cuts), tuple(each for each in buffers if each.rows and each.count))

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return prod(map(len, self.cuts))

    def behind(self, row: int) -> "Tiling":
        """Return the same of a layer whose rows begin at a row of the buffer."""
        moved = tuple(replace(each, row=each.row + row) for each in self.buffers)
        return replace(self, buffers=moved)


def block_cut(channels: int, blocks: Sequence[int] | np.ndarray, size: int) -> Cut:
    """Return channels cut where blocks of ``size`` begin; the last part ends with the channels."""
    bounds = (min(int(block) * size, channels) for block in blocks)
    return Cut("channels", tuple(bounds))


def even_cut(axis: str, extent: int, parts: int, unit: int) -> Cut:
    """Return an axis cut into nearly equal parts: see :func:`cuts`."""
    return Cut(axis, tuple(cuts(extent, parts, unit).tolist()))
