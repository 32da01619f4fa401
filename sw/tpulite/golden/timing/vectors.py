"""The cycle model's vector path."""

from collections import deque

import numpy as np

from tpulite.arch.effects import BINARY, parameter_rows
from tpulite.arch.isa import Engine, VectorOp
from tpulite.arch.timing import (
    DIRECT,
    ELEMENTWISE,
    LANES,
    VECTOR_REQUEST,
    VECTOR_TOKEN,
    vector_cycles,
    vector_latency,
    vector_pace,
    vector_window,
)
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Head
from tpulite.golden.timing.phases import FREE
from tpulite.golden.timing.record import Record
from tpulite.golden.timing.vector_reads import VectorReads

__all__ = ["Vectors"]


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
        self.latency = vector_latency(operation)
        cycles = vector_cycles(operation, outputs, window, self.config)
        if operation in BINARY and (fields["a_row"] - fields["b_row"]) % self.banks == 0:
            cycles += 1  # B follows A
        self.each = max(window, vector_pace(operation, self.config))
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
        if self.reading and (late := self._delayed(fields, time)) > time:
            record.buffer += late - time
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
        """Let others meet the rows that a command reads, if it reads one a cycle."""
        self.reading = []
        if self.each > window:
            return
        machine, begin, operation = self.machine, self.begin, fields["operation"]
        a, b = machine.vectors
        better = (machine.reads, *machine.operands)
        parameters = self.parameters[operation]
        self.reading = [VectorReads(fields, "a", begin - parameters, parameters, better)]
        a.add(begin - parameters, NEVER, self.reading[0])
        if operation in BINARY:
            self.reading.append(VectorReads(fields, "b", begin, 0, (*better, a)))
            b.add(begin, NEVER, self.reading[1])

    def lose(self, cycle: int, phase: int) -> None:
        """Take note that a starving port has won in a cycle, over what is asked for in a phase."""
        for reading in self.reading:
            if reading.asks(cycle) == phase:
                reading.lose(cycle)

    def _delayed(self, fields: dict[str, int], time: int) -> int:
        """Return when the last row is written, as far as accesses are known."""
        machine = self.machine
        machine.follow(time)
        read = max(reading.end() for reading in self.reading) + self.latency - 1
        if self.each > 1:
            return read
        begin = self.begin + self.latency
        gaps = max(self.reading, key=VectorReads.end).delays
        if self.latency == LANES:
            outputs = fields["rows"] * fields["columns"]
            gaps = self._requantized(outputs, gaps)
            read = max(read, begin + outputs - 1 + (gaps[-1][1] if gaps else 0))
        better = machine.writes, machine.loads
        if not any(port.meets(begin, read + 1) for port in better):
            return read
        written = VectorReads(fields, "out", begin, 0, better, gaps)
        return max(read, written.end() - 1)

    def _requantized(self, outputs: int, gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return from which vector on sums are so late: those of the matrix unit come first.

        Without these they are as late as ``gaps`` says.
        """
        sums = self.machine.sums
        enter = self.begin + DIRECT + ELEMENTWISE - 1
        if not sums.meets(enter, enter + outputs + (gaps[-1][1] if gaps else 0)):
            return gaps
        busy = np.frombuffer(sums.phases(enter, sums.stop), np.uint8) != FREE
        late, first, result, waiting = 0, 0, [], deque(gaps)
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


def _holds_banks(fields: dict[str, int], banks: int) -> bool:
    """Whether vectors come out of the same bank, one after the other, so that others starve."""
    names = "ab" if fields["operation"] in BINARY else "a"
    return any(fields[f"{name}_step"] % banks == 0 for name in names)
