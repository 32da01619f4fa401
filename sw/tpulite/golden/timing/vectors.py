"""The cycle model's vector path."""

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
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Head
from tpulite.golden.timing.lane_turns import last_turn, late_turns
from tpulite.golden.timing.phases import FREE
from tpulite.golden.timing.record import Record
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
