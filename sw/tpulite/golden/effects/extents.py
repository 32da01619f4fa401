"""What a command touches, as grids: the fast form of :mod:`tpulite.arch.effects`.

Commands that differ in their places alone are looked at once. What they touch is found in closed
form, with all places at zero; a long time is spent on none but unusual ones.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.effects import (
    BINARY,
    early_weights,
    parameter_rows,
    record_rows,
    tile_count,
    tile_rows,
)
from tpulite.arch.isa import COMMANDS, RAW_ROWS, Command, Drain, Opcode, VectorOp
from tpulite.arch.memory import WindowBinding
from tpulite.golden.effects.convolution import conv_ends, read_rows
from tpulite.golden.effects.footprint import operand_rows, window_rows
from tpulite.golden.effects.grids import Grid, Place, cover


class Extents(NamedTuple):
    """All that a command touches that does not fault."""

    #: Rows of the unified buffer, as in :class:`tpulite.arch.effects.Effects`, but each once, or
    #: twice where operands share rows, and in any order.
    early_reads: tuple[Place, ...] = ()
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    #: Bytes of DRAM, and the beats that hold them.
    lines: tuple[Place, ...] = ()
    beats: tuple[Place, ...] = ()
    accumulators: range = range(0)  #: Accumulator rows of a CONV.


_Rows = tuple[tuple[str, int, Grid], ...]
"""Grids of rows: the field with the row that they are counted from, the first row, the grid."""


class _Pattern(NamedTuple):
    """What commands that differ in their places alone have in common.

    ``ends`` are fields with places, the last row that belongs to each, and its limit: the command
    faults where that is reached. ``lines`` and ``beats`` are counted from the offset.
    """

    ends: tuple[tuple[str, int, int], ...]
    early_reads: _Rows = ()
    reads: _Rows = ()
    writes: _Rows = ()
    lines: tuple[Place, ...] = ()
    beats: tuple[Place, ...] = ()
    accumulators: int = 0


_TOKENS = ("wait", "signal")
_PLACES = {
    Opcode.LOAD: ("row", "offset"),
    Opcode.STORE: ("row", "offset"),
    Opcode.CONV: ("act_row", "weight_row", "record_row", "acc_row", "out_row"),
    Opcode.VECTOR: ("a_row", "b_row", "out_row", "param_row"),
}
_VALUES = (
    "flip",
    "window",
    "prefetch",
    "pad",
    "weight_zero_point",
    "accumulate",
    "low",
    "high",
    "tail",
)
"""Fields that do not change what is touched, places aside."""


def _get_geometry(opcode: Opcode) -> Callable[[dict[str, int]], tuple[int, ...]]:
    """Return what gets the other fields of commands."""
    others = (*_TOKENS, *_VALUES, *_PLACES[opcode])
    return itemgetter(*(f.name for f in COMMANDS[opcode].fields[1:] if f.name not in others))


_GET_GEOMETRY = {opcode: _get_geometry(opcode) for opcode in _PLACES}


def geometry(command: Command) -> tuple[Opcode, tuple[int, ...]]:
    """Return what is equal of commands that touch the same in the same order, places aside."""
    return command.opcode, _GET_GEOMETRY[command.opcode](command.fields)


_MOST_PATTERNS = 1 << 14
_NOTHING = _Pattern(())


class Toucher:
    """Says what commands touch that do not fault, wherever it is."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._patterns = _patterns(config)

    def touched(self, command: Command, pattern: "_Pattern | None" = None) -> Extents:
        """Return what a command touches; bytes and beats are those of its DRAM window.

        Parameters
        ----------
        pattern : _Pattern, optional
            That of the command, if it is known.
        """
        fields, pattern = command.fields, pattern or self.pattern(command)
        lines, beats = pattern.lines, pattern.beats
        if lines:
            offset = fields["offset"]
            lines = tuple([(start + offset, grid) for start, grid in lines])
            offset //= BEAT_BYTES
            beats = tuple([(start + offset, grid) for start, grid in beats])
        accumulators = range(0)
        if pattern.accumulators:
            first = fields["acc_row"]
            accumulators = range(first, first + pattern.accumulators)
        return Extents(
            _moved(pattern.early_reads, fields),
            _moved(pattern.reads, fields),
            _moved(pattern.writes, fields),
            lines,
            beats,
            accumulators,
        )

    def pattern(self, command: Command) -> _Pattern:
        """Return what is common to commands that differ from one in their places alone."""
        if command.opcode is Opcode.END:
            return _NOTHING
        key = geometry(command)
        try:
            return self._patterns[key]
        except KeyError:
            return self._patterns.setdefault(key, self._make(command))

    def _make(self, command: Command) -> _Pattern:
        if len(self._patterns) >= _MOST_PATTERNS:
            self._patterns.clear()
        places = dict.fromkeys(_PLACES[command.opcode], 0)
        bare = Command(command.opcode, command.fields | places)
        return _MAKE[command.opcode](bare, self.config)


class ExtentFinder:
    """Finds what the commands of one program touch, and whether they fault.

    Parameters
    ----------
    windows : sequence of WindowBinding
        The DRAM windows, which begin at beats.
    """

    def __init__(self, config: Config, windows: Sequence[WindowBinding]) -> None:
        self.windows = windows
        self._toucher = Toucher(config)

    def find(self, command: Command) -> Extents | None:
        """Return what a command touches, in DRAM by address; None if it faults.

        Parameters
        ----------
        command : Command
            A command whose fields are legal.
        """
        fields, pattern = command.fields, self._toucher.pattern(command)
        for name, end, limit in pattern.ends:
            if fields[name] + end >= limit:
                return None
        extents = self._toucher.touched(command, pattern)
        if not extents.lines:
            return extents
        window = self.windows[fields["window"]]
        permitted = window.write if command.opcode == Opcode.STORE else window.read
        end = max(start + grid.extent for start, grid in extents.beats)
        if not permitted or end * BEAT_BYTES > window.size:
            return None
        lines = tuple([(start + window.base, grid) for start, grid in extents.lines])
        base = window.base // BEAT_BYTES
        beats = tuple([(start + base, grid) for start, grid in extents.beats])
        return Extents(*extents[:3], lines, beats)


@lru_cache(8)
def _patterns(config: Config) -> dict[tuple[int, tuple[int, ...]], _Pattern]:
    """Return the patterns that are known of a machine."""
    return {}


def _moved(rows: _Rows, fields: dict[str, int]) -> tuple[Place, ...]:
    return tuple([(fields[name] + start, grid) for name, start, grid in rows])


def _grids(name: str, rows: NDArray[np.int64]) -> _Rows:
    return tuple((name, start, grid) for start, grid in cover(rows))


def _run(name: str, rows: int) -> _Rows:
    """Return consecutive rows from a place on."""
    return ((name, 0, Grid.of(rows)),) if rows else ()


def _levels(size: int, count: int, pitch: int) -> tuple[Place, ...]:
    """Return lines of some size, a pitch apart, each place once."""
    if count > 1 and pitch > size:
        return ((0, Grid.of(size, (count, pitch))),)
    return ((0, Grid.of(size + (count - 1) * pitch)),)


def _transfer_pattern(command: Command, config: Config) -> _Pattern:
    rows, lines, pitch = command["rows"], command["lines"], command["pitch"]
    ends = (("row", (lines - 1) * pitch + rows - 1, config.ub_rows),)
    if ends[0][1] >= config.ub_rows:
        return _Pattern(ends)
    size, stride = rows * config.row_bytes, command["stride"]
    touched = tuple(("row", start, grid) for start, grid in _levels(rows, lines, pitch))
    return _Pattern(
        ends=ends,
        reads=touched if command.opcode == Opcode.STORE else (),
        writes=touched if command.opcode == Opcode.LOAD else (),
        lines=_levels(size, lines, stride),
        beats=_levels(-(-size // BEAT_BYTES), lines, stride // BEAT_BYTES),
    )


def _conv_pattern(command: Command, config: Config) -> _Pattern:
    ends = conv_ends(command, config)
    if any(end >= limit for _, end, limit in ends):
        return _Pattern(ends)
    drain = command["drain"]
    records = record_rows(command["record_form"], config) if drain == Drain.REQUANTIZE else 0
    writes: _Rows = ()
    if drain != Drain.KEEP:
        written = operand_rows(command, "out")
        if drain == Drain.RAW:
            written = (written[:, None] + np.arange(RAW_ROWS)).ravel()
        writes = _grids("out_row", written)
    early = early_weights(command, config)
    weights = tile_count(command) * tile_rows(command["int4"], config)
    return _Pattern(
        ends,
        _run("weight_row", early) + _run("record_row", records),
        _grids("act_row", read_rows(command, config)) + _run("weight_row", weights - early),
        writes,
        accumulators=command["rows"] * command["columns"],
    )


def _vector_pattern(command: Command, config: Config) -> _Pattern:
    operation = VectorOp(command["operation"])
    window, parameters = window_rows(command), parameter_rows(operation, config)
    names = ("a", "b", "out") if operation in BINARY else ("a", "out")
    rows = {f"{name}_row": operand_rows(command, name) for name in names}
    last = {name: int(each.max()) for name, each in rows.items()}
    last["a_row"] += int(window.max())
    if parameters:
        last["param_row"] = parameters - 1
    ends = tuple((name, end, config.ub_rows) for name, end in last.items())
    if max(last.values()) >= config.ub_rows:
        return _Pattern(ends)
    rows["a_row"] = (rows["a_row"][:, None] + window).ravel()
    grids = {name: _grids(name, each) for name, each in rows.items()}
    reads = grids["a_row"] + grids.get("b_row", ())
    return _Pattern(ends, _run("param_row", parameters), reads, grids["out_row"])


_MAKE: dict[Opcode, Callable[[Command, Config], _Pattern]] = {
    Opcode.LOAD: _transfer_pattern,
    Opcode.STORE: _transfer_pattern,
    Opcode.CONV: _conv_pattern,
    Opcode.VECTOR: _vector_pattern,
}
