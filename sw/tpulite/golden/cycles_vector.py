"""The cycle model's vector path."""

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, Engine, VectorOp
from tpulite.golden.cycles_banks import Traffic
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record

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
        self.parameters = _parameter_rows(machine.config)
        self.running: tuple[Record, dict[str, int]] | None = None
        self.begin = 0  # first row of an operand
        self.latency = 0  # from the last row of a vector to its result
        self.each = 0  # cycles of an output vector
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
        self.running = record, fields
        self.free = NEVER
        self.machine.due[self.event] = self.begin + cycles - 1 + self.latency
        self.machine.popped(Engine.VPU, time)

    def finish(self, time: int) -> None:
        """Write the last row of the command in this cycle, unless the banks have been busy."""
        assert self.running is not None
        record, fields = self.running
        if self.each == 1 and (late := self._delayed(fields, time)) > time:
            record.buffer += late - time
            self.machine.due[self.event] = late
            return
        record.count(self.stopped, time + 2)
        self.stopped = self.free = time + 2
        self.machine.due[self.event] = NEVER
        self.machine.finish = max(self.machine.finish, self.stopped)
        if signal := fields["signal"]:
            self.machine.give(Engine.VPU, signal, time + 2)
        self.schedule()

    def _delayed(self, fields: dict[str, int], time: int) -> int:
        """Return when the last row is written, as far as accesses are known."""
        machine = self.machine
        machine.follow(time)
        read = self._pass(fields, "a", machine.reads, self.begin)
        if fields["operation"] in _PAIRED:
            read = max(read, self._pass(fields, "b", machine.reads, self.begin))
        begin = self.begin + self.latency
        return max(
            read + self.latency,
            self._pass(fields, "out", machine.writes, begin),
            self._pass(fields, "out", machine.loads, begin),
        )

    def _pass(self, fields: dict[str, int], name: str, traffic: Traffic, begin: int) -> int:
        """Return when the last row of an operand, or of the results, gets its bank."""
        if traffic.stop <= begin or fields[f"{name}_step"] != 1:
            return 0
        rows, columns, pitch = fields["rows"], fields["columns"], fields[f"{name}_pitch"]
        if pitch == columns:
            rows, columns = 1, rows * columns
        row, cycle = fields[f"{name}_row"], begin
        for _ in range(rows):
            cycle = traffic.delay(row, cycle, columns, starve=False) + 1
            row += pitch
        return cycle - 1


def _parameter_rows(config: Config) -> list[int]:
    """Return the rows of the parameters of each operation."""
    part = -(-RECORD_BYTES // config.row_bytes)
    rows = dict.fromkeys(VectorOp, 2 * part)
    rows[VectorOp.COPY] = rows[VectorOp.MAX] = 0
    rows[VectorOp.SUM] = part
    rows[VectorOp.AFFINE] = config.record_rows
    rows[VectorOp.LUT] = LUT_BYTES // config.row_bytes
    return [rows[operation] for operation in VectorOp]
