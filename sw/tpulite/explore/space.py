"""The machines of a study: fields of a configuration that vary, and the values they take."""

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tpulite.arch.config import Config
from tpulite.configs import read_field

__all__ = ["Axis", "Space", "read_axes"]

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_LANES = ("requant_lanes", "vector_lanes")


@dataclass(frozen=True)
class Axis:
    """A field of :class:`tpulite.arch.config.Config`, and the values it takes, all different."""

    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Space:
    """All combinations of values, on top of a machine.

    Parameters
    ----------
    base : Config
        The machine whose other fields all points have. Lanes that it has for every column are as
        many as each point has columns.
    axes : tuple of Axis
        What varies.

    Examples
    --------
    >>> space = Space(Config(), read_axes(["array_size=8,16", "ub_rows=1024..4096"]))
    >>> len(space), space.values(0), space.values(5)
    (6, {'array_size': 8, 'ub_rows': 1024}, {'array_size': 16, 'ub_rows': 4096})
    """

    base: Config
    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def values(self, index: int) -> dict[str, Any]:
        """Return the values of a point: the last axis varies fastest."""
        values = {}
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            values[axis.field] = axis.values[place]
        return {axis.field: values[axis.field] for axis in self.axes}

    def grid(self) -> Iterator[dict[str, Any]]:
        """Yield the values of every point."""
        return map(self.values, range(len(self)))

    def sample(self, count: int, seed: int) -> Iterator[dict[str, Any]]:
        """Yield the values of some points, each at most once, in the order of the grid."""
        chosen = random.Random(seed).sample(range(len(self)), min(count, len(self)))
        return map(self.values, sorted(chosen))

    def config(self, values: dict[str, Any]) -> Config:
        """Return the machine of a point.

        Raises
        ------
        ValueError
            If there is no such machine.
        """
        same: dict[str, Any] = {x.name: getattr(self.base, x.name) for x in fields(Config)}
        same |= {name: None for name in _LANES if same[name] == self.base.array_size}
        if replace(self.base, softmax=None) == self.base:
            same["softmax"] = None  # as the array has it
        return Config(**same | values)


def read_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Read axes from ``FIELD=VALUE,VALUE`` or ``FIELD=LOW..HIGH``, which doubles from low to high.

    Raises
    ------
    ValueError
        If a field is unknown or given twice, or its values are none, impossible to read, or equal.
    """
    axes: list[Axis] = []
    for text in texts:
        name, equals, rest = text.partition("=")
        known = [field.name for field in fields(Config)]
        if not equals or name not in known:
            raise ValueError(f"{text!r} must be FIELD=VALUES; fields are {', '.join(known)}")
        if name in [axis.field for axis in axes]:
            raise ValueError(f"{name} is varied twice")
        values = tuple(value for part in rest.split(",") for value in _read(name, part))
        if len(set(values)) < len(values):
            raise ValueError(f"{text!r} has a value twice")
        axes.append(Axis(name, values))
    return tuple(axes)


def _read(name: str, text: str) -> Iterator[Any]:
    match = _RANGE.fullmatch(text)
    if match is None:
        if not text:
            raise ValueError(f"{name} needs a value between commas, or LOW..HIGH")
        yield read_field(name, text)
        return
    low, high = map(int, match.groups())
    if not 0 < low <= high:
        raise ValueError(f"{name}={text} is an empty range")
    while low <= high:
        yield read_field(name, str(low))
        low *= 2
