"""The cycle model's vector path."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from tpulite.arch.effects import BINARY, parameter_rows
from tpulite.arch.isa import Engine, VectorOp
from tpulite.arch.timing import (
    ELEMENTWISE,
    REQUANTIZER_LANE,
    VECTOR_REQUEST,
    VECTOR_TOKEN,
    operand_rows,
    read_ahead,
    row_read,
    vector_cycles,
    vector_interval,
    vector_latency,
    vector_pace,
    vector_turns,
    vector_window,
)
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Head, Record
from tpulite.golden.timing.phases import FREE
from tpulite.golden.timing.vector_reads import VectorReads


class Vectors(Head):
    """VECTOR commands, one after the other."""

    def __init__(self, machine: Clockwork) -> None:
        super().__init__(machine, Engine.VPU)
        self.banks = machine.config.ub_banks
        self.config = machine.config
        self.event = machine.event(self.finish)
        machine.lose = self.lose
        self.parameters = [parameter_rows(operation, machine.config) for operation in VectorOp]
        self.running: tuple[Record, dict[str, int]] | None = None
        self.begin = 0  # first row of an operand
        self.latency = 0  # from the last row of a vector to its result
        self.each = 0  # cycles of an output vector
        self.reading: list[VectorReads] = []  # its operands, if they are known row by row
        self.stopped = 0

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        fields, record = self.pop(time)
        operation = fields["operation"]
        outputs, window = fields["rows"] * fields["columns"], vector_window(fields)
        self.latency = vector_latency(operation, self.config)
        cycles = vector_cycles(operation, outputs, window, self.config)
        if operation in BINARY and (fields["a_row"] - fields["b_row"]) % self.banks == 0:
            cycles += 1  # B follows A
        self.each = vector_interval(operation, window, self.config)
        self.begin = time + VECTOR_REQUEST + self.parameters[operation]
        self._read(fields, window)
        self.running = record, fields
        self.free = NEVER
        self.machine.due[self.event] = time + cycles - VECTOR_TOKEN
        self.machine.popped(Engine.VPU, time)

    def finish(self, time: int) -> None:
        """Write the last row of the command in this cycle, unless the banks have been busy."""
        assert self.running is not None
        record, fields = self.running
        if self.reading and _holds_banks(fields, self.banks):
            self.machine.contend(time)
        if (late := self._delayed(fields, time)) > time:
            self.machine.due[self.event] = late
            return
        for port in self.machine.vectors:
            if port.stop > time:
                port.end(time)
        record.count(self.stopped, time + VECTOR_TOKEN)
        self.stopped = self.free = time + VECTOR_TOKEN
        self.machine.due[self.event] = NEVER
        self.machine.finish = max(self.machine.finish, self.stopped)
        if signal := fields["signal"]:
            self.machine.give(Engine.VPU, signal, time + VECTOR_TOKEN)
        self.schedule()

    def _read(self, fields: dict[str, int], window: int) -> None:
        """Let others meet the rows that a command reads, but windows that wait for lanes."""
        self.reading = []
        if self.each > window > 1:
            return
        machine, begin, operation = self.machine, self.begin, fields["operation"]
        a, b = machine.vectors
        better = (machine.reads, machine.odd, *machine.operands)
        parameters = self.parameters[operation]
        pace = 1 if window > 1 else self.each, operand_rows(self.config), read_ahead(self.config)
        first = begin - parameters
        self.reading = [VectorReads(fields, "a", first, parameters, better, pace=pace)]
        a.add(begin - parameters, NEVER, self.reading[0])
        if operation in BINARY:
            self.reading.append(VectorReads(fields, "b", begin, 0, (*better, a), pace=pace))
            b.add(begin, NEVER, self.reading[1])

    def lose(self, cycle: int, phase: int) -> None:
        """Take note that a starving port has won in a cycle, over what is asked for in a phase."""
        for reading in self.reading:
            if reading.asks(cycle) == phase:
                reading.lose(cycle)

    def _delayed(self, fields: dict[str, int], time: int) -> int:
        """Return when the last row is written, as far as known; book the waits for the buffer."""
        machine, read, gaps = self.machine, time, []
        machine.follow(time)
        if self.reading:
            latest = max(self.reading, key=VectorReads.end)
            read = max(read, latest.end() + self.latency - 1)
            gaps = latest.delays
        assert self.running is not None
        self.running[0].buffer += max(0, read - time)
        if self.latency == vector_latency(VectorOp.SUM, self.config):  # all that requantize
            read, gaps = self._requantized(fields, read, gaps)
        if self.each > 1:
            return read
        better, begin = (machine.writes, machine.loads), self.begin + self.latency
        if not any(port.meets(begin, read + 1) for port in better):
            return read
        written = VectorReads(fields, "out", begin, 0, better, gaps)
        return max(read, written.end() - 1)

    def _requantized(
        self, fields: dict[str, int], read: int, gaps: list[tuple[int, int]]
    ) -> tuple[int, list[tuple[int, int]]]:
        """Return when the last row can be written, and from which on they are so many cycles late.

        Sums of the matrix unit enter the lanes first. Without these the last row would be written
        in the cycle ``read``, and rows would be as late as ``gaps`` says.
        """
        sums, groups = self.machine.sums, self.config.array_size // self.config.lanes
        first = self.begin + row_read(self.config) + 1  # the reducer of windows takes it
        if not sums.meets(first, read - REQUANTIZER_LANE + groups):
            return read, gaps
        phases = np.frombuffer(sums.phases(first, sums.stop + groups), np.uint8)
        busy = _spread(phases != FREE, groups)
        outputs, window = fields["rows"] * fields["columns"], vector_window(fields)
        if self.each == 1:
            gaps = late_turns(outputs, busy[ELEMENTWISE + 1 :], gaps)
            return max(read, self.begin + self.latency + outputs - 1 + gaps[-1][1]), gaps
        operation = fields["operation"]
        pace, turns = vector_pace(operation, self.config), vector_turns(operation)
        turn = last_turn(outputs, window, pace, busy, gaps, turns_each=turns)
        return max(read, first + turn + REQUANTIZER_LANE), gaps


def _spread(last: np.ndarray, cycles: int) -> np.ndarray:
    """Return when vectors enter that take some cycles each, of which the last are given."""
    for _ in range(cycles - 1):
        last = last | np.append(last[1:], False)
    return last


def _holds_banks(fields: dict[str, int], banks: int) -> bool:
    """Whether vectors come out of the same bank, one after the other, so that others starve."""
    names = "ab" if fields["operation"] in BINARY else "a"
    return any(fields[f"{name}_step"] % banks == 0 for name in names)


def late_turns(
    outputs: int, busy: np.ndarray, delays: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return from which row on sums are so many cycles late, if there is one of a row each cycle.

    Parameters
    ----------
    busy : ndarray of bool, shape (cycles,)
        When sums of the matrix unit enter the lanes, from the cycle in which the first row's could.
    delays : sequence of (int, int)
        From which row on rows come so many cycles late.

    Examples
    --------
    >>> late_turns(3, np.array([False, True, True, False]), [])
    [(0, 0), (1, 1), (1, 2)]
    """
    late, first, result, waiting = 0, 0, [(0, 0)], deque(delays)
    for cycle in busy.nonzero()[0].tolist():
        while waiting and waiting[0][0] + late <= cycle:
            first, delay = waiting.popleft()
            late = max(late, delay)
            result.append((first, late))
        row = cycle - late
        if row >= outputs:
            break
        if row >= first:
            late += 1
            result.append((row, late))
    return result + [(row, max(late, delay)) for row, delay in waiting]


def last_turn(
    outputs: int,
    window: int,
    slices: int,
    busy: np.ndarray,
    delays: Sequence[tuple[int, int]],
    *,
    turns_each: int = 1,
) -> int:
    """Return the cycle in which the last sum of a VECTOR enters the lanes.

    What is between the reducer of windows and the lanes stands still while a sum waits for these;
    the reducer goes on until it has a second window complete.

    Parameters
    ----------
    outputs, window, slices : int
        Output vectors, rows that are read for each, and its steps into the pipeline.
    busy : ndarray of bool, shape (cycles,)
        When sums of the matrix unit enter; none do beyond. Cycles count from that in which the
        reducer has the first row.
    delays : sequence of (int, int)
        From which row on rows are so many cycles late.
    turns_each : int
        Steps of a sum, which enters the lanes after the last of them.

    Examples
    --------
    >>> last_turn(3, 4, 1, np.zeros(0, bool), []), last_turn(3, 4, 1, np.arange(99) < 50, [])
    (17, 55)
    """
    busy_cycles = np.flatnonzero(busy)
    turns = _Turns(busy)
    pace, late = max(window, slices), deque(delays)
    complete = delay = index = 0  # cycle in which the reducer has a window complete
    while index < outputs:
        row = index * window + window - 1
        while late and late[0][0] <= row:
            delay = max(delay, late.popleft()[1])
        before = complete + window if index else 0
        complete = max(row + delay, before, turns.left)
        for step in range(1, slices + 1):
            turns.enter(complete, waits=step % turns_each == 0)
        index += 1
        # Windows that nothing hinders.
        position = int(np.searchsorted(busy_cycles, min(complete, turns.next)))
        clear = int(busy_cycles[position]) if position < len(busy_cycles) else 1 << 60
        until = min(outputs, late[0][0] // window if late else outputs)
        free = min(until - index, (clear - complete - ELEMENTWISE - 1) // pace - 1) - ELEMENTWISE
        if free > 0:
            turns.skip(free * pace)
            complete += free * pace
            index += free
    return turns.finish()


class _Turns:
    """The pipeline in front of the lanes: its steps, each in the cycle of its number and ``late``.

    Parameters
    ----------
    busy : ndarray of bool, shape (cycles,)
        When the lanes have no room.
    """

    def __init__(self, busy: np.ndarray) -> None:
        self.left = -1  # cycle in which the last one entered the pipeline
        self.late = 0
        self._step = -1  # in which the last one entered
        self._inside: deque[int] = deque()  # steps in which those inside want to leave
        self._free = _next_free(busy)

    def enter(self, after: int, *, waits: bool) -> None:
        """Let one enter in the first step after a cycle; whether it will wait for the lanes."""
        step = self._step + 1
        while self._inside and self._inside[0] + self.late <= max(after + 1, step + self.late):
            step = max(step, self._inside[0])
            self._leave()
        step = max(step, after + 1 - self.late)
        self._step, self.left = step, step + self.late
        if waits:
            self._inside.append(step + ELEMENTWISE)

    @property
    def next(self) -> int:
        """Cycle in which the first one inside wants to leave."""
        return self._inside[0] + self.late

    def skip(self, cycles: int) -> None:
        """Let so many cycles pass in which none waits and the same happens again and again."""
        self._step += cycles
        self.left += cycles
        self._inside = deque(step + cycles for step in self._inside)

    def finish(self) -> int:
        """Let all leave; return the cycle in which the last one does."""
        while self._inside:
            self._leave()
        return self._last

    def _leave(self) -> int:
        """Let the first one of the pipeline leave when there is room for it."""
        step = self._inside.popleft()
        cycle = step + self.late
        self._last = int(self._free[cycle]) if cycle < len(self._free) else cycle
        self.late = self._last - step
        return self._last


def _next_free(busy: np.ndarray) -> np.ndarray:
    """Return for each cycle the first one from it on in which there is room."""
    cycles = np.where(busy, len(busy), np.arange(len(busy)))
    return np.minimum.accumulate(cycles[::-1])[::-1]
