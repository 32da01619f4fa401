"""The cycle model's vector path."""

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, Engine, VectorOp
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record

__all__ = ["Vectors"]

_REQUEST = 2  # from the start of a command to its first row
_DIRECT, _TABLE, _LANES = 5, 7, 17  # from the last row of a vector to the first offer of its result


class Vectors(Head):
    """VECTOR commands, one after the other."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.VPU)
        self.lanes = machine.config.vector_cycles
        machine.handlers[Engine.VPU] = self.start
        self.event = machine.event(self.finish)
        self.parameters = _parameter_rows(machine.config)
        self.running: tuple[Record, int] | None = None
        self.stopped = 0

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        _, fields, record = self.pop(time)
        record.first = max(record.dispatch + 1, self.stopped)
        record.token = max(0, time - record.first)
        operation = fields["operation"]
        outputs = fields["rows"] * fields["columns"]
        window, lanes, latency = 1, self.lanes, _LANES
        if operation in (VectorOp.MAX, VectorOp.SUM):
            window = fields["window_rows"] * fields["window_columns"]
        if operation in (VectorOp.COPY, VectorOp.MAX):
            lanes, latency = 1, _DIRECT
        elif operation == VectorOp.LUT:
            latency = _TABLE
        cycles = max(outputs * window + lanes, outputs * lanes + window) - 1
        cycles += self.parameters[operation]
        self.running = record, fields["signal"]
        self.free = NEVER
        self.machine.due[self.event] = time + _REQUEST + cycles - 1 + latency
        self.machine.popped(Engine.VPU, time)

    def finish(self, time: int) -> None:
        """Write the last row of the command in this cycle."""
        assert self.running is not None
        record, signal = self.running
        self.stopped = self.free = record.stop = time + 2
        self.machine.due[self.event] = NEVER
        self.machine.finish = max(self.machine.finish, record.stop)
        if signal:
            self.machine.give(Engine.VPU, signal, time + 2)
        self.schedule()


def _parameter_rows(config: Config) -> list[int]:
    """Return the rows of the parameters of each operation."""
    part = -(-RECORD_BYTES // config.row_bytes)
    rows = dict.fromkeys(VectorOp, 2 * part)
    rows[VectorOp.COPY] = rows[VectorOp.MAX] = 0
    rows[VectorOp.SUM] = part
    rows[VectorOp.AFFINE] = config.record_rows
    rows[VectorOp.LUT] = LUT_BYTES // config.row_bytes
    return [rows[operation] for operation in VectorOp]
