"""The machines of a study: fields of a configuration that vary, and the values they take."""

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.configs import named_chip, read_field
from tpulite.memories import named_memory
from tpulite.near import no_such

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MEMORY = {
    "memory": "",
    "dram_latency": "read_latency",
    "dram_response": "write_response",
    "dram_beat": "beat_cycles",
    "dram_burst": "burst_cycles",
}
"""What may vary of the DRAM: which one, by its name, and fields of it."""

_CYCLES = {name: range(2, 10_001) for name in ("dram_latency", "dram_response")}
_CYCLES |= {name: range(10_001) for name in ("dram_beat", "dram_burst")}
"""Cycles that a DRAM may take: the simulated one needs two."""

_LANES = ("requant_lanes", "vector_lanes")

_NAMED = "config"
"""What names a machine, and how it is written, in place of those of all points."""

_BUILD = ("multipliers", "memories")
"""What may vary of how a machine is written: only its size depends on it."""

_BY_SIZE = ("softmax", "delay_lines", "transposed_tiles")
"""What machines have by default if their arrays are large enough."""


@dataclass(frozen=True)
class Axis:
    """A field of a machine or its memory, and the values it takes, all different."""

    #: Of :class:`tpulite.arch.config.Config`, or ``multipliers`` or ``memories`` of
    #: :class:`tpulite.arch.build.Build`, or ``config``, a named machine, or ``memory``, the name of
    #: one, or ``dram_latency``, ``dram_response``, ``dram_beat`` or ``dram_burst``: those of
    #: :class:`tpulite.arch.memory.MemoryTiming`.
    field: str
    values: tuple[Any, ...]  #: Its values.


@dataclass(frozen=True)
class Space:
    """All combinations of values, on top of a machine.

    Examples
    --------
    >>> space = Space(Config(), read_axes(["array_size=8,16", "ub_rows=1024..4096"]))
    >>> len(space), space.values(0), space.values(5)
    (6, {'array_size': 8, 'ub_rows': 1024}, {'array_size': 16, 'ub_rows': 4096})
    """

    #: The machine whose other fields all points have. Lanes that it has for every column are as
    #: many as each point has columns.
    base: Config
    axes: tuple[Axis, ...]  #: What varies.
    written: Build = field(default_factory=Build)  #: How machines are written, but for what varies.
    memory: MemoryTiming = REFERENCE_MEMORY  #: The DRAM, but for what varies.

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
        """Return the machine of a point; ValueError if there is no such machine."""
        base = named_chip(values[_NAMED])[0] if _NAMED in values else self.base
        same: dict[str, Any] = {x.name: getattr(base, x.name) for x in fields(Config)}
        same |= {name: None for name in _LANES if same[name] == base.array_size}
        for name in _BY_SIZE:
            if replace(base, **{name: None}) == base:
                same[name] = None  # as the array has it
        beside = (_NAMED, *_MEMORY, *_BUILD)
        return Config(**same | {name: x for name, x in values.items() if name not in beside})

    def build(self, values: dict[str, Any]) -> Build:
        """Return how the machine of a point is written; ValueError if that is impossible."""
        written = named_chip(values[_NAMED])[1] if _NAMED in values else self.written
        return replace(written, **{name: values[name] for name in _BUILD if name in values})

    def memory_of(self, values: dict[str, Any]) -> MemoryTiming:
        """Return the memory of a point: that of all, but for what varies."""
        named = named_memory(values["memory"]) if "memory" in values else self.memory
        varied = {_MEMORY[x]: value for x, value in values.items() if _MEMORY.get(x)}
        return replace(named, **varied)


def read_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Read axes from ``FIELD=VALUE,VALUE`` or ``FIELD=LOW..HIGH``, which doubles from low to high.

    ValueError if a field is unknown or given twice, or its values are none, impossible to read, or
    equal.
    """
    axes: list[Axis] = []
    for text in texts:
        name, equals, rest = text.partition("=")
        known = [*(field.name for field in fields(Config)), *_BUILD, *_MEMORY, _NAMED]
        if not equals:
            raise ValueError(f"{text!r} must be FIELD=VALUES; fields are {', '.join(known)}")
        if name not in known:
            raise ValueError(no_such("field of a configuration", name, known))
        if name in [axis.field for axis in axes]:
            raise ValueError(f"{name} is given twice")
        values = tuple(value for part in rest.split(",") for value in _read(name, part))
        if len(set(values)) < len(values):
            raise ValueError(f"{text!r}: a value is given twice")
        axes.append(Axis(name, values))
    return tuple(axes)


def _read(name: str, text: str) -> Iterator[Any]:
    match = _RANGE.fullmatch(text)
    if match is None:
        if not text:
            raise ValueError(f"{name} needs values between commas, or LOW..HIGH")
        yield _checked(name, text if name in ("memory", _NAMED) else read_field(name, text))
        return
    low, high = map(int, match.groups())
    if not 0 < low <= high:
        raise ValueError(f"{name}={text} is an empty range")
    while low <= high:
        yield _checked(name, read_field(name, str(low)))
        low *= 2


def _checked(name: str, value: Any) -> Any:
    """Return a value; ValueError if it is of a memory that cannot be. Of machines Config knows."""
    if name == "memory":
        named_memory(value)
    elif name == _NAMED:
        named_chip(value)
    elif name in _CYCLES and value not in (cycles := _CYCLES[name]):
        ends = f"{cycles.start:,} to {cycles.stop - 1:,}"
        raise ValueError(f"{name} must be {ends} cycles, not {value}")
    return value
