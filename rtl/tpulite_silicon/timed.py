"""Libraries of standard cells as a timing analysis sees them: tables of delays, slews and setups.

The model is the nonlinear delay model of Liberty: delay and output slew of an arc follow from the
slew at its input and the load at its output, between the points of a table by interpolation, beyond
them by extrapolation. Wires are free.
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace

__all__ = [
    "FALL",
    "RISE",
    "SRAM_ACCESS",
    "STAGE",
    "Arc",
    "Library",
    "LibraryError",
    "Table",
    "TimedCell",
]

RISE, FALL = 0, 1

SRAM_ACCESS = 10.0
"""FO4 from the clock to the read data of a memory macro of a few kilobytes."""

STAGE = 16 / 1.5
"""Load of a buffer in a tree, in units of its own input."""


class LibraryError(ValueError):
    """A library that no chip can be made of."""


@dataclass(frozen=True, slots=True)
class Table:
    """Values at slews (rows) and loads (columns).

    Examples
    --------
    >>> Table((0, 1), (0, 2), ((0, 2), (10, 12))).at(0.5, 3)
    8.0
    """

    slews: tuple[float, ...]
    loads: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    def at(self, slew: float, load: float) -> float:
        """Return the value at a point."""
        row, down = _place(self.slews, slew)
        column, right = _place(self.loads, load)
        near = _between(self.values[row], column, right)
        return (
            near + down * (_between(self.values[row + 1], column, right) - near) if down else near
        )

    def shifted(self, by: float) -> "Table":
        """Return the table with something added to all values."""
        return replace(self, values=tuple(tuple(v + by for v in row) for row in self.values))


@dataclass(frozen=True, slots=True)
class Arc:
    """From an edge at an input to an edge at an output."""

    before: int
    after: int
    delay: Table
    slew: Table


@dataclass(frozen=True)
class TimedCell:
    """A gate, a register, or what stands for a memory macro or a port."""

    name: str
    area: float
    loads: dict[str, float]  #: Capacitance of each input.
    #: Arcs to each output by the input that they come from; those of a register come from its
    #: clock.
    outputs: dict[str, dict[str, tuple[Arc, ...]]]
    #: Of each input that has one: edge, and the setup time at its slew and the clock's.
    setups: dict[str, list[tuple[int, Table]]] = field(default_factory=dict)
    clock: str = ""  #: Input that is the clock's, none in a gate.

    def launches(self, output: str) -> list[Arc]:
        """Return the arcs from the clock to an output of a register."""
        return [arc for arcs in self.outputs[output].values() for arc in arcs]

    def setup(self, pin: str, edge: int, slew: float, clock_slew: float) -> float:
        """Return the setup time of an edge at an input; 0 where the library has none."""
        found = [t.at(slew, clock_slew) for e, t in self.setups.get(pin, ()) if e == edge]
        return max(found, default=0.0)


@dataclass(frozen=True)
class Library:
    """Cells, and in what reports say their delays and areas."""

    name: str
    text: str  #: In Liberty, for synthesis.
    gates: dict[str, TimedCell]
    registers: dict[str, TimedCell]
    #: Whose only input and only output is ``""``.
    macro: TimedCell
    port: TimedCell
    buffers: dict[int, Arc]  #: Of the buffer that trees are made of, by edge.
    buffer_load: float  #: Capacitance of that buffer's input.
    fo4: float = 1.0  #: Delay of an inverter that drives four like it.
    clock_slew: float = 0.0
    #: Keys of reports: ``fo4`` and ``gates``, or ``ns`` and ``um2``.
    unit: str = "fo4"
    area_unit: str = "gates"
    scale: float = 1.0  #: How many of that unit is one of the library's.
    digits: int = 1  #: Decimals of a reported delay.
    #: Cells that are no gates of one output, which synthesis must not take for one.
    unused: tuple[str, ...] = ()
    corner: str = ""  #: Conditions that the tables are for.

    def through(self, arc: Arc, slew: float, load: float) -> tuple[float, float]:
        """Return delay and slew of an arc, with a tree of buffers behind it if that is faster."""
        delay, after = arc.delay.at(slew, load), arc.slew.at(slew, load)
        stage = STAGE * self.buffer_load
        if load <= stage / 2:
            return delay, after
        buffer = self.buffers[arc.after]
        first, between = self.through(arc, slew, load / STAGE)
        tree = first + buffer.delay.at(between, stage)
        return (tree, buffer.slew.at(between, stage)) if tree < delay else (delay, after)


def _place(points: tuple[float, ...], value: float) -> tuple[int, float]:
    """Return the interval of an axis in which a value is, or that is nearest, and where in it."""
    if len(points) == 1:
        return 0, 0.0
    index = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return index, (value - points[index]) / (points[index + 1] - points[index])


def _between(row: tuple[float, ...], column: int, right: float) -> float:
    return row[column] + right * (row[column + 1] - row[column]) if right else row[column]
