"""The cycle model's vector path on its way to the rows that it reads."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tpulite.arch.timing import STARVED
from tpulite.golden.timing.banks import Traffic
from tpulite.golden.timing.phases import FREE

_KINDS = 1 << 10
_AHEAD = 16  # cycles that others are looked at beyond
_NONE = bytes([FREE])
_IDLE = 254  # a cycle in which nothing can be asked for
_SHORT = 16  # cycles that are compared one by one
_OTHERS = bytes(FREE if phase == _IDLE else phase for phase in range(256))


class VectorReads:
    """What a VECTOR command asks for at one of its ports, past those that are better.

    Nothing is computed before somebody asks.

    Parameters
    ----------
    fields : dict of str to int
        Fields of the command; the window is 1x1 if the operation has none.
    operand : str
        ``a``, ``b`` or ``out``.
    begin : int
        Cycle in which the first row is wanted: of the parameters at port A, or of B.
    parameters : int
        Rows of the parameters; 0 at port B.
    better : tuple of Traffic
        Ports that are better.
    gaps : sequence of tuple of int
        From which row on it cannot come earlier than so many cycles late.
    pace : tuple of int
        Cycles from a row to the next, once as many rows are read ahead as the second number says,
        and from the request of the first row to when it is taken.

    Attributes
    ----------
    delays : list of tuple of int
        From which row on it is so many cycles late, once :meth:`end` was asked for.
    """

    __slots__ = (
        *(
            "_begin",
            "_better",
            "_fields",
            "_gaps",
            "_known",
            "_lost",
            "_made",
            "_operand",
            "_pace",
            "_parameters",
        ),
        "delays",
    )

    def __init__(
        self,
        fields: dict[str, int],
        operand: str,
        begin: int,
        parameters: int,
        better: tuple[Traffic, ...],
        gaps: Sequence[tuple[int, int]] = (),
        pace: tuple[int, int, int] = (1, 0, 0),
    ) -> None:
        self._fields, self._operand = fields, operand
        self._begin, self._parameters, self._better = begin, parameters, better
        self._gaps, self._pace = gaps, pace
        self.delays: list[tuple[int, int]] = []
        self._made = b""
        self._known: list[int] = []  # how much of the better ports it was made with
        self._lost: list[int] = []

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first request."""
        return self.made()[first:stop].translate(_OTHERS)

    def asks(self, cycle: int) -> int:
        """Return the phase of the request in a cycle, -1 if there is none."""
        index = cycle - self._begin
        made = self.made()
        return made[index] if 0 <= index < len(made) else -1

    def lose(self, cycle: int) -> None:
        """Take note that a starving port has won in a cycle: all that follows is a cycle late."""
        if cycle not in self._lost:
            self._lost.append(cycle)
            self._made = b""

    def end(self) -> int:
        """Return the cycle after the last request."""
        return self._begin + len(self.made())

    def made(self) -> bytes:
        """Return the phases of all requests, from the first one to the last."""
        if not self._made or self._known != [port.stop for port in self._better]:
            self._known = [port.stop for port in self._better]
            self._made = self._pass(self._ideal())
        return self._made

    def _ideal(self) -> bytes:
        """Return the phases if no bank is ever busy."""
        fields, operand, banks = self._fields, self._operand, self._better[0].banks
        window = (fields["window_rows"], fields["window_columns"]) if operand == "a" else (1, 1)
        pitches = (fields[f"{operand}_pitch"], fields[f"{operand}_step"], fields["window_pitch"])
        grid = (fields["rows"], fields["columns"], *window)
        shift = fields[f"{operand}_row"] - self._begin - self._parameters
        ideal = _walked(grid, tuple(pitch % banks for pitch in pitches), banks)
        rows = ideal.translate(_shifts(banks)[shift % banks])
        if self._pace[0] > 1:
            rows = _paced(rows, *self._pace, banks)
        if self._parameters:
            phase = (fields["param_row"] - self._begin) % banks
            return bytes([phase]) * self._parameters + rows
        return rows

    def _pass(self, ideal: bytes) -> bytes:
        """Let requests wait for those of better ports."""
        begin, at, late, refusals, last = self._begin, 0, 0, 0, -2
        self.delays = []
        ports = [port for port in self._better if port.meets(begin, begin + 2 * len(ideal))]
        lost = sorted(cycle - begin for cycle in self._lost)
        gaps = [(max(row, 0), delay) for row, delay in self._gaps]
        if not (ports or lost or gaps):
            return ideal
        made, shifts = bytearray(ideal), _shifts(self._better[0].banks)
        clashes = _Clashes(ports, begin, made)
        while True:
            while gaps and gaps[0][0] + late <= at:
                if (more := gaps.pop(0)[1] - late) > 0:  # the row at hand is at least so late
                    rest = made[at:].translate(shifts[-more % len(shifts)])
                    made[at:], late = bytes([_IDLE]) * more + rest, late + more
                    clashes.look(at, len(made))
            stop = min(
                len(made),
                lost[0] if lost else len(made),
                gaps[0][0] + late if gaps else len(made),
            )
            met = clashes.cycles.find(1, at, stop)
            if met < 0:
                at = met = stop
                if met == len(made):
                    return bytes(made)
                if not (lost and lost[0] == met):
                    continue
            if lost and lost[0] == met:
                lost.pop(0)
            refusals = refusals + 1 if met == last + 1 else 1
            if refusals > STARVED:
                refusals = 0
            else:  # it is asked for again in the next cycle, instead of an idle one if one comes
                idle = made.find(_IDLE, met)
                end = (len(made) if idle < 0 else idle) + 1
                made[met + 1 : end] = made[met : end - 1].translate(shifts[-1])
                clashes.look(met + 1, end)
                if idle < 0:  # else it is made up for
                    late += 1
                    self.delays.append((met + 1 - late - self._parameters, late))
            last, at = met, met + 1


class _Clashes:
    """Cycles in which better ports ask for what some requests ask for.

    Parameters
    ----------
    ports : sequence of Traffic
        The better ports.
    begin : int
        Cycle of the first request.
    made : bytearray
        The phases of the requests; where they change :meth:`look` must be called.
    """

    def __init__(self, ports: Sequence[Traffic], begin: int, made: bytearray) -> None:
        self._ports, self._begin, self._made = ports, begin, made
        self.cycles = bytearray()  # 1 where there is one
        self.look(0, len(made))

    def look(self, first: int, stop: int) -> None:
        """Compare the requests from one cycle to another."""
        made, cycles = self._made, self.cycles
        if len(made) > len(cycles):
            known = len(made) + _AHEAD
            asked = (port.phases(self._begin, self._begin + known) for port in self._ports)
            joined = b"".join(one.ljust(known, _NONE) for one in asked if one.strip(_NONE))
            self._others = np.frombuffer(joined, np.uint8).reshape(-1, known)
            self._columns = self._others.T.tobytes()
            cycles[first:] = bytes(known - first)
            stop = len(made)
        if stop - first > _SHORT:
            mine = np.frombuffer(made[first:stop], np.uint8)
            cycles[first:stop] = (self._others[:, first:stop] == mine).any(0).tobytes()
            return
        columns, count = self._columns, len(self._others)
        for cycle in range(first, stop):
            cycles[cycle] = made[cycle] in columns[cycle * count : cycle * count + count]


def _paced(rows: bytes, pace: int, ahead: int, latency: int, banks: int) -> bytes:
    """Return the phases of rows that are not asked for a row a cycle."""
    each = np.arange(len(rows))
    cycles = np.maximum(each, latency + pace * (each - ahead))
    phases = np.full(cycles[-1] + 1, _IDLE, np.uint8)
    phases[cycles] = (np.frombuffer(rows, np.uint8) + each - cycles) % banks
    return phases.tobytes()


@lru_cache
def _shifts(banks: int) -> list[bytes]:
    """Return tables that add a number to phases."""
    return [
        bytes((phase + shift) % banks if phase < banks else phase for phase in range(256))
        for shift in range(banks)
    ]


@lru_cache(_KINDS)
def _walked(grid: tuple[int, ...], pitches: tuple[int, ...], banks: int) -> bytes:
    """Return the phases of the vectors of all windows; that of the first one is 0."""
    rows, columns, window_rows, window_columns = map(np.arange, grid)
    pitch, step, window_pitch = pitches
    row = np.add.outer(rows * pitch, columns * step)
    row = np.add.outer(np.add.outer(row, window_rows * window_pitch), window_columns).ravel()
    return ((row - np.arange(len(row))) % banks).astype(np.uint8).tobytes()
