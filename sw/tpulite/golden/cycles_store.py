"""The cycle model's STORE."""

from collections import deque

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record

__all__ = ["Stores"]

_REQUEST = 2  # from the start of a STORE to its first row
_BEAT = 3  # from the request of a row to its beat
_ANSWER = _BEAT + REFERENCE_MEMORY.write_response  # and to the response


class Stores(Head):
    """STORE: bursts go out in front, rows are read behind."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.STORE)
        config = self.config = machine.config
        self.event = machine.event(self.finish)
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = max(config.row_bytes // BEAT_BYTES, 1)
        # Commands that have started, with the cycles that their rows take if all is well.
        self.started: deque[tuple[dict[str, int], Record, int]] = deque()
        self.begin = 0  # first row of the first one
        self.read = 0  # cycle after the last row of the one before
        self.stopped = 0

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        fields, record = self.pop(time)
        rows, lines = fields["rows"], fields["lines"]
        beats = -(-rows // self.rows_per_beat) * self.beats_per_row
        bursts = lines * -(-beats // self.config.burst_beats)
        most = self.config.dma_bursts
        cycles = lines * rows * self.beats_per_row
        if bursts > most:
            # So many are outstanding, each from its issue to its response: short ones wait.
            cycles = max(cycles, int((cycles + bursts * _ANSWER) / most))
        begin = max(time + _REQUEST, self.read)
        last_issue = begin + cycles - most * cycles // bursts + _ANSWER
        self.free = max(time + bursts, last_issue if bursts > most else 0) + 1
        self.started.append((fields, record, cycles))
        self.machine.popped(Engine.STORE, time)
        self.schedule()
        if len(self.started) == 1:
            self._expect()

    def _expect(self) -> None:
        """Come back in the cycle after the last row of the first command."""
        due = NEVER
        if self.started:
            _, record, cycles = self.started[0]
            self.begin = max(record.start + _REQUEST, self.read)
            due = self.begin + cycles
        self.machine.due[self.event] = due

    def finish(self, time: int) -> None:
        """Answer a command whose last row was read in the cycle before, unless banks were busy."""
        fields, record, cycles = self.started[0]
        if self.machine.reads.stop > self.begin and (late := self._delayed(fields)) > time:
            record.buffer = late - self.begin - cycles
            self.machine.due[self.event] = late
            return
        self.started.popleft()
        self.read = time
        answered = time - 1 + _ANSWER
        idle = self.started[0][1].start if self.started else answered
        record.axi = max(0, min(idle, answered) - (time + _BEAT))
        stop = answered + 1
        if signal := fields["signal"]:
            stop += 1
            self.machine.give(Engine.STORE, signal, stop)
        record.count(self.stopped, stop)
        self.stopped = stop
        self.machine.finish = max(self.machine.finish, stop)
        self._expect()

    def _delayed(self, fields: dict[str, int]) -> int:
        """Return when all rows are read, as far as the matrix unit's reads are known."""
        machine, rows, pitch = self.machine, fields["rows"], fields["pitch"]
        lines = fields["lines"]
        if pitch == rows:
            lines, rows = 1, lines * rows
        cycle, row, pace = self.begin, fields["row"], self.beats_per_row
        for _ in range(lines):
            cycle = pace + machine.reads.delay(
                row, cycle, rows, starve=True, pace=pace, beside=machine.operands
            )
            row += pitch
        return cycle
