"""The cycle model's vector path."""

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, Engine, VectorOp
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record
from tpulite.golden.cycles_vector_reads import VectorReads

__all__ = ["Vectors"]

_REQUEST = 2  # from the start of a command to its first row
_DIRECT, _TABLE, _LANES = 5, 7, 17  # from the last row of a vector to the first offer of its result
_WINDOWED = (VectorOp.MAX, VectorOp.SUM)
_PAIRED = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL)


class Vectors(Head):
    """VECTOR commands, one after the other."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.VPU)
        self.banks = machine.config.ub_banks
        self.lanes = machine.config.vector_cycles
        self.event = machine.event(self.finish)
        machine.lose = self.lose
        self.parameters = _parameter_rows(machine.config)
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
        outputs = fields["rows"] * fields["columns"]
        window, lanes, self.latency = 1, self.lanes, _LANES
        if operation in _WINDOWED:
            window = fields["window_rows"] * fields["window_columns"]
        if operation in (VectorOp.COPY, VectorOp.MAX):
            lanes, self.latency = 1, _DIRECT
        elif operation == VectorOp.LUT:
            self.latency = _TABLE
        cycles = max(outputs * window + lanes, outputs * lanes + window) - 1
        if operation in _PAIRED and (fields["a_row"] - fields["b_row"]) % self.banks == 0:
            cycles += 1  # B follows A
        self.each = max(window, lanes)
        self.begin = time + _REQUEST + self.parameters[operation]
        self._read(fields, window)
        self.running = record, fields
        self.free = NEVER
        self.machine.due[self.event] = self.begin + cycles - 1 + self.latency
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
        record.count(self.stopped, time + 2)
        self.stopped = self.free = time + 2
        self.machine.due[self.event] = NEVER
        self.machine.finish = max(self.machine.finish, self.stopped)
        if signal := fields["signal"]:
            self.machine.give(Engine.VPU, signal, time + 2)
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
        if operation in _PAIRED:
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
        begin = self.begin + self.latency
        better = machine.writes, machine.loads
        if self.each > 1 or not any(port.meets(begin, time + 1) for port in better):
            return read
        gaps = max(self.reading, key=VectorReads.end).delays
        written = VectorReads(fields, "out", begin, 0, better, gaps)
        return max(read, written.end() - 1)


def _holds_banks(fields: dict[str, int], banks: int) -> bool:
    """Whether vectors come out of the same bank, one after the other, so that others starve."""
    names = "ab" if fields["operation"] in _PAIRED else "a"
    return any(fields[f"{name}_step"] % banks == 0 for name in names)


def _parameter_rows(config: Config) -> list[int]:
    """Return the rows of the parameters of each operation."""
    part = -(-RECORD_BYTES // config.row_bytes)
    rows = dict.fromkeys(VectorOp, 2 * part)
    rows[VectorOp.COPY] = rows[VectorOp.MAX] = 0
    rows[VectorOp.SUM] = part
    rows[VectorOp.AFFINE] = config.record_rows
    rows[VectorOp.LUT] = LUT_BYTES // config.row_bytes
    return [rows[operation] for operation in VectorOp]
