"""The cycle model's STORE."""

from collections import deque

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record

__all__ = ["Stores"]

_REQUEST = 2  # from the start of a STORE, or a cycle after a burst is issued, to its first row
_BEAT = 3  # from the request of a row to its beat
_ANSWER = _BEAT + REFERENCE_MEMORY.write_response  # and to the response


class Stores(Head):
    """STORE: bursts go out in front, rows are read behind."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.STORE)
        config = self.config = machine.config
        machine.handlers[Engine.STORE] = self.start
        self.event = machine.event(self.finish)
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = max(config.row_bytes // BEAT_BYTES, 1)
        self.waiting: deque[tuple[Record, dict[str, int], int, int]] = deque()
        self.read_until = 0  # first cycle in which no row is requested
        self.stopped = 0

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        _, fields, record = self.pop(time)
        rows, lines = fields["rows"], fields["lines"]
        beats = -(-rows // self.rows_per_beat) * self.beats_per_row
        cycles = rows * self.beats_per_row
        bursts = -(-beats // self.config.burst_beats)
        total, most = lines * cycles, self.config.dma_bursts
        if lines * bursts > most:
            # Short bursts: so many are outstanding from their issue to their response.
            length = cycles / bursts
            total = max(total, int(lines * bursts * (length + _ANSWER) / most))
        ahead = int(most * total / (lines * bursts))
        begin = max(time + _REQUEST, self.read_until)
        self.free = max(time + lines * bursts, begin + total - ahead + _ANSWER) + 1
        self.waiting.append((record, fields, time, total))
        self.machine.popped(Engine.STORE, time)
        self.schedule()
        if len(self.waiting) == 1:
            self._read()

    def _read(self) -> None:
        """Expect the end of the first command that waits for its rows."""
        if self.waiting:
            _, _, time, total = self.waiting[0]
            self.begin = max(time + _REQUEST, self.read_until)
            self.machine.due[self.event] = self.begin + total
        else:
            self.machine.due[self.event] = NEVER

    def _delayed(self, fields: dict[str, int]) -> int:
        """Return when all rows are requested, as far as the matrix unit's reads are known."""
        cycle, row = self.begin, fields["row"]
        for _ in range(fields["lines"]):
            cycle = self.machine.reads.delay(row, cycle, fields["rows"], starve=True) + 1
            row += fields["pitch"]
        return cycle

    def finish(self, time: int) -> None:
        """All rows of a command have been requested in the cycles before this one."""
        record, fields, _, total = self.waiting[0]
        reads = self.machine.reads
        if reads.stop > self.begin and self.beats_per_row == 1:
            late = self._delayed(fields)
            if late > time:
                self.machine.due[self.event] = late
                return
        self.waiting.popleft()
        self.read_until = time
        answered = time - 1 + _ANSWER
        record.first = max(record.dispatch + 1, self.stopped)
        record.token = max(0, record.start - record.first)
        record.axi = _ANSWER - _BEAT - 1
        self.stopped = answered + 1
        if signal := fields["signal"]:
            self.stopped += 1
            self.machine.give(Engine.STORE, signal, self.stopped)
        record.stop = self.stopped
        self.machine.finish = max(self.machine.finish, record.stop)
        self._read()
