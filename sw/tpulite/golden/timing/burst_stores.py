"""The cycle model's STORE beside a memory whose data path can be busy: burst by burst."""

from collections import deque

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.timing import STORE_REQUEST, STORE_TOKEN, row_cycles, store_beat
from tpulite.golden.timing.clockwork import NEVER, Clockwork
from tpulite.golden.timing.data_path import DataPath
from tpulite.golden.timing.record import Record
from tpulite.golden.timing.transfers import TransferHead

_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES
_ISSUE = STORE_REQUEST - 1  # from the start of a command to the address of its first burst


class BurstStores(TransferHead):
    """STORE, of which each burst waits until one of those before is answered.

    The rows of a burst are followed to their end when the last one is read, and the data path takes
    it then; where STORE has starved is only known then, too.
    """

    def __init__(self, machine: Clockwork, path: DataPath) -> None:
        super().__init__(machine, Engine.STORE)
        config = self.config = machine.config
        self.path = path
        self.event = machine.event(self.finish)
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = row_cycles(config)
        self.beat = store_beat(config)
        self.response = machine.memory.write_response
        # Of bursts that are not read, in order: first row, rows, beats, fields and record of their
        # command, whether it is the last one.
        self.unread: deque[tuple[int, int, int, dict[str, int], Record, bool]] = deque()
        self.issue = 0  # from when on the first of them may go out
        self.begin = 0  # first row of the first one
        self.read = 0  # cycle after the last row of the one before
        self.answered = deque([-1] * config.dma_bursts, config.dma_bursts)  # of those before
        self.waited = 0  # cycles in which a command's bursts waited for the memory

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        fields, record = self.pop(time)
        idle = not self.unread
        self.unread.extend(self._bursts(fields, record))
        self.free = NEVER
        if idle:
            self._expect()

    def _bursts(self, fields: dict[str, int], record: Record) -> list:
        """Return the bursts of a command."""
        rows, lines, per_beat = fields["rows"], fields["lines"], self.rows_per_beat
        bursts = []
        for line in range(lines):
            address = (fields["offset"] + line * fields["stride"]) // BEAT_BYTES
            row, left = fields["row"] + line * fields["pitch"], rows
            while left:
                page = _PAGE_BEATS - address % _PAGE_BEATS
                beats = -(-left // per_beat) * self.beats_per_row
                beats = min(beats, self.config.burst_beats, page)
                taken = min(left, beats // self.beats_per_row * per_beat)
                left -= taken
                last = not left and line == lines - 1
                bursts.append((row, taken, beats, fields, record, last))
                row, address = row + taken, address + beats
        return bursts

    def _expect(self) -> None:
        """Come back in the cycle after the last row of the first burst."""
        due = NEVER
        if self.unread:
            _, rows, _, _, record, last = self.unread[0]
            wanted = max(record.start + STORE_REQUEST, self.read)
            self.issue = max(self.issue + 1, record.start + _ISSUE, self.answered[0] + 1)
            self.begin = max(self.issue + STORE_REQUEST - _ISSUE, self.read)
            self.waited += self.begin - wanted
            due = self.begin + rows * self.beats_per_row
            if last and self.free == NEVER:
                self.free = self.issue + 1
                self.schedule()
        self.machine.due[self.event] = due

    def finish(self, time: int) -> None:
        """Hand over a burst whose last row was read in the cycle before, unless banks were busy."""
        row, rows, beats, fields, record, last = self.unread[0]
        if (late := self._delayed(row, rows)) > time:
            self.machine.due[self.event] = late
            return
        record.buffer += time - self.begin - rows * self.beats_per_row
        self.unread.popleft()
        self.read = time
        answered = self.path.end(time - 1 + self.beat, beats) + self.response
        self.answered.append(answered)
        if last:
            self._answer(fields, record, answered)
        self._expect()

    def _delayed(self, row: int, rows: int) -> int:
        """Return when all rows of a burst are read, as far as what others read is known."""
        machine, pace = self.machine, self.beats_per_row
        beside = (machine.odd, *machine.operands, *machine.vectors)
        return pace + machine.reads.delay(
            row, self.begin, rows, starve=True, pace=pace, beside=beside
        )

    def _answer(self, fields: dict[str, int], record: Record, answered: int) -> None:
        """Take note of the last response of a command, and give its tokens."""
        idle = self.unread[0][4].start if self.unread else answered
        record.axi = self.waited + max(0, min(idle, answered) - (self.read + self.beat))
        self.waited = 0
        self.complete(record, fields["signal"], answered, STORE_TOKEN)
