"""Ragged arrays: what belongs to many layers, one after the other, is worked on at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.compiler.geometry.axis import Axis1D, Number, ceil_div

Indices = NDArray[np.int64]

FAR = 1 << 32
"""More of anything than a layer has: keys that begin with its number times this keep order."""


class Segments(NamedTuple):
    """Elements of segments, one segment after the other."""

    counts: Indices  #: Elements of each segment.
    starts: Indices  #: The first element of each segment, and the number of all.
    owner: Indices  #: The segment of each element.
    number: Indices  #: The number of each element in its segment.

    @classmethod
    def of(cls, counts: Indices) -> "Segments":
        """Return segments of so many elements."""
        starts = np.zeros(len(counts) + 1, np.int64)
        counts.cumsum(out=starts[1:])
        owner = np.arange(len(counts)).repeat(counts)
        return cls(counts, starts, owner, np.arange(len(owner)) - starts[owner])

    @classmethod
    def owned(cls, owner: Indices, count: int) -> "Segments":
        """Return ``count`` segments of elements whose owners, in order, are known."""
        starts = owner.searchsorted(np.arange(count + 1))
        counts = starts[1:] - starts[:-1]
        return cls(counts, starts, owner, np.arange(len(owner)) - starts[owner])

    def back(self, values: Indices, distance: Number) -> Indices:
        """Return for each element the value of the one that is so far before it, or -1."""
        there = self.number >= distance
        return np.where(there, values[np.arange(len(values)) - distance * there], -1)

    def at(self, segment: int) -> slice:
        """Return where the elements of a segment are."""
        return slice(int(self.starts[segment]), int(self.starts[segment + 1]))


class Table:
    """Numbers of layers: a column for each name.

    Parameters
    ----------
    rows : sequence of mapping of str to int
        The numbers of each layer; all have the same names.
    """

    def __init__(self, rows: Sequence[Mapping[str, int]]) -> None:
        values = np.array([tuple(row.values()) for row in rows], np.int64)
        self._columns = dict(zip(rows[0], values.T, strict=True))
        alike = (values == values[0]).all(axis=0).tolist()
        self._alike = {
            name: value
            for name, value, same in zip(rows[0], values[0].tolist(), alike, strict=True)
            if same
        }

    def __getitem__(self, name: str) -> Indices:
        """Return a column."""
        return self._columns[name]

    def spread(self, owner: Indices) -> "Spread":
        """Return the numbers for elements of layers."""
        return Spread(self._columns, self._alike, owner)


@dataclass(frozen=True)
class Spread:
    """Numbers of the elements of layers; one number, where all layers have the same."""

    columns: Mapping[str, Indices]  #: Those of each layer.
    alike: Mapping[str, int]  #: Those that all have.
    owner: Indices  #: The layer of each element.

    def __getitem__(self, name: str) -> Number:
        number = self.alike.get(name)
        return self.columns[name][self.owner] if number is None else number

    def value(self, name: str, parts: Sequence[str]) -> list[Number]:
        """Return the parts of a dataclass, of which :func:`numbers` gave those of each layer."""
        return [self[f"{name}_{part}"] for part in parts]

    def axis(self, name: str) -> Axis1D:
        """Return the geometry of windows, of which numbers may be arrays."""
        return Axis1D(*self.value(name, Axis1D.__match_args__))


def numbers(name: str, value: object) -> dict[str, int]:
    """Return the numbers of a dataclass, for a table."""
    return {f"{name}_{part}": number for part, number in vars(value).items()}


def cut_parts(
    members: Segments, extent: Number, parts: Number, unit: Number
) -> tuple[Indices, Indices]:
    """Return where parts begin and end, each segment's extent cut as by :func:`cuts`.

    Parameters
    ----------
    members : Segments
        The parts of each extent, or of several equal ones in a row.
    extent, parts, unit : int or array of int
        Of each part.
    """
    number, units = members.number % parts, ceil_div(extent, unit)
    stop = np.minimum((number + 1) * units // parts * unit, extent)
    return number * units // parts * unit, stop


def runs(key: Indices) -> tuple[Indices, Indices, Indices]:
    """Return the run of equal keys of each element, and the first and last element of each run."""
    edges = np.empty(len(key) + 1, bool)
    edges[0] = edges[-1] = True
    np.not_equal(key[1:], key[:-1], out=edges[1:-1])
    bounds = edges.nonzero()[0]
    return edges[:-1].cumsum() - 1, bounds[:-1], bounds[1:] - 1
