"""What a command touches, quickly: commands that differ in their places alone are looked at once.

The footprint of a command that stands for them, with all places at zero, says what they touch.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import COMMANDS, Command, Opcode, VectorOp
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import Fault
from tpulite.golden.convolution import conv_ends, conv_footprint
from tpulite.golden.grids import Grid, Place, cover
from tpulite.golden.transfers import transfer_footprint
from tpulite.golden.vectors import BINARY, operand_rows, parameter_rows, window_rows

__all__ = ["ExtentFinder", "Extents"]


class Extents(NamedTuple):
    """All that a command touches that does not fault.

    Parameters
    ----------
    early_reads, reads, writes : tuple of (int, Grid)
        Rows of the unified buffer, as in a footprint, but each once and in any order.
    lines, beats : (int, Grid), optional
        Bytes of DRAM, and the beats that hold them; none of these holds bytes of two lines.
    accumulators : range
        Accumulator rows of a CONV.
    """

    early_reads: tuple[Place, ...] = ()
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    lines: Place | None = None
    beats: Place | None = None
    accumulators: range = range(0)


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
    lines: Grid | None = None
    beats: Grid | None = None
    accumulators: int = 0


_TOKENS = ("wait", "signal")
_PLACES = {
    Opcode.LOAD: ("row", "offset"),
    Opcode.STORE: ("row", "offset"),
    Opcode.CONV: ("act_row", "weight_row", "record_row", "acc_row", "out_row"),
    Opcode.VECTOR: ("a_row", "b_row", "out_row", "param_row"),
}
_VALUES = ("flip", "window", "prefetch", "pad", "weight_zero_point", "accumulate", "low", "high")
"""Fields that do not change what is touched, places aside."""

_GET_GEOMETRY = {
    opcode: itemgetter(
        *(
            field.name
            for field in COMMANDS[opcode].fields[1:]
            if field.name not in (*_TOKENS, *_VALUES, *places)
        )
    )
    for opcode, places in _PLACES.items()
}
_EVERYWHERE = WindowBinding(base=0, size=1 << 60, read=True, write=True)


class ExtentFinder:
    """Finds the extents of the commands of one program.

    Parameters
    ----------
    config : Config
        The machine.
    windows : sequence of WindowBinding
        The DRAM windows, which begin at beats.
    """

    def __init__(self, config: Config, windows: Sequence[WindowBinding]) -> None:
        self.config = config
        self.windows = windows
        self._patterns: dict[tuple[Opcode, tuple[int, ...]], _Pattern | None] = {}

    def find(self, command: Command) -> Extents | None:
        """Return what a command touches; None if it faults, or is too uncommon to be told so.

        Parameters
        ----------
        command : Command
            A command whose fields are legal.
        """
        opcode, fields = command.opcode, command.fields
        if opcode == Opcode.END:
            return Extents()
        pattern = self._pattern(command)
        if pattern is None or any(fields[name] + end >= limit for name, end, limit in pattern.ends):
            return None
        lines = beats = None
        if pattern.lines is not None and pattern.beats is not None:
            window, offset = self.windows[fields["window"]], fields["offset"]
            permitted = window.write if opcode == Opcode.STORE else window.read
            if not permitted or offset + pattern.beats.extent * BEAT_BYTES > window.size:
                return None
            start = window.base + offset
            lines, beats = (start, pattern.lines), (start // BEAT_BYTES, pattern.beats)
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

    def _pattern(self, command: Command) -> _Pattern | None:
        opcode, fields = command.opcode, command.fields
        key = opcode, _GET_GEOMETRY[opcode](fields)
        try:
            return self._patterns[key]
        except KeyError:
            places = dict.fromkeys(_PLACES[opcode], 0)
            made = _MAKE[opcode](Command(opcode, fields | places), self.config)
            return self._patterns.setdefault(key, made)


def _moved(rows: _Rows, fields: dict[str, int]) -> tuple[Place, ...]:
    return tuple((fields[name] + start, grid) for name, start, grid in rows)


def _grids(name: str, rows: NDArray[np.int64]) -> _Rows:
    return tuple((name, start, grid) for start, grid in cover(rows))


def _transfer_pattern(command: Command, config: Config) -> _Pattern | None:
    footprint = transfer_footprint(command, config, _EVERYWHERE)
    if footprint.fault is not None:
        assert footprint.fault.code == Fault.BUFFER
        return _Pattern((("row", footprint.fault.address, config.ub_rows),))
    spans, stride = footprint.spans, command["stride"]
    size, beats = spans[0].stop - spans[0].start, len(spans[0].beats)
    if len(spans) > 1 and stride < BEAT_BYTES * beats:
        return None
    rows = footprint.reads if command.opcode == Opcode.STORE else footprint.writes
    return _Pattern(
        ends=(("row", int(rows.max()), config.ub_rows),),
        reads=_grids("row", footprint.reads),
        writes=_grids("row", footprint.writes),
        lines=Grid.of(size, (len(spans), stride)),
        beats=Grid.of(beats, (len(spans), stride // BEAT_BYTES)),
    )


def _conv_pattern(command: Command, config: Config) -> _Pattern:
    ends = conv_ends(command, config)
    footprint = conv_footprint(command, config)
    if footprint.fault is not None:
        return _Pattern(ends)
    last = {name: end for name, end, _ in ends}
    weights, records = np.split(footprint.early_reads, [last["weight_row"] + 1])
    return _Pattern(
        ends,
        _grids("weight_row", weights) + _grids("record_row", records),
        _grids("act_row", footprint.reads),
        _grids("out_row", footprint.writes),
        accumulators=len(footprint.accumulators),
    )


def _vector_pattern(command: Command, config: Config) -> _Pattern:
    operation = VectorOp(command["operation"])
    window = window_rows(command)
    names = ("a", "b", "out") if operation in BINARY else ("a", "out")
    rows = {f"{name}_row": operand_rows(command, name) for name in names}
    rows["param_row"] = np.arange(parameter_rows(operation, config))
    last = {name: int(each.max()) for name, each in rows.items() if each.size}
    last["a_row"] += int(window.max())
    ends = tuple((name, end, config.ub_rows) for name, end in last.items())
    if max(last.values()) >= config.ub_rows:
        return _Pattern(ends)
    rows["a_row"] = (rows["a_row"][:, None] + window).ravel()
    grids = {name: _grids(name, each) for name, each in rows.items()}
    reads = grids["a_row"] + grids.get("b_row", ())
    return _Pattern(ends, grids["param_row"], reads, grids["out_row"])


_MAKE: dict[Opcode, Callable[[Command, Config], _Pattern | None]] = {
    Opcode.LOAD: _transfer_pattern,
    Opcode.STORE: _transfer_pattern,
    Opcode.CONV: _conv_pattern,
    Opcode.VECTOR: _vector_pattern,
}
