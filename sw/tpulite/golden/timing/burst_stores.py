"""The cycle model's STORE beside a memory whose data path can be busy: burst by burst."""

from collections import deque
from collections.abc import Callable
from copy import copy
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES, MemoryTiming
from tpulite.arch.timing import STORE_REQUEST, STORE_TOKEN, row_cycles, store_beat
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Record, TransferHead


def _nothing(_: int) -> None:
    """Take no reads: there are none."""


class DataPath:
    """When the data path of a memory takes bursts, which must come to it in order of time.

    Attributes
    ----------
    free : int
        First cycle in which it can take a burst.
    take : callable
        Lets it take the reads that have come by a cycle.
    """

    __slots__ = ("_beat", "_rest", "free", "take")

    def __init__(self, memory: MemoryTiming) -> None:
        self._beat, self._rest = memory.beat_cycles, memory.burst_cycles
        self.free = 0
        self.take: Callable[[int], None] = _nothing

    def copy(self) -> "DataPath":
        """Return another one that is as busy."""
        return copy(self)

    def begin(self, time: int, beats: int) -> int:
        """Take a read that comes in a cycle; return when its first beat passes."""
        begin = time if time > self.free else self.free
        self.free = begin + beats * self._beat + self._rest
        return begin

    def end(self, time: int, beats: int) -> int:
        """Take a write whose last beat comes in a cycle; return when that beat has passed."""
        self.take(time)
        end = max(time, self.free + beats * self._beat)
        self.free = end + self._rest
        return end


class Rate(NamedTuple):
    """How fast beats come to LOAD, which takes one only when there is room for its rows.

    Attributes
    ----------
    beat, row : int
        Cycles from a beat, and from a row, to the next.
    first : int
        Cycles from the first beat to the first row.
    """

    beat: int
    row: int
    first: int

    @classmethod
    def of(cls, beat_cycles: int, config: Config) -> "Rate":
        """Return the rate of a memory with so many cycles for a beat; 0 if beats are ready."""
        rows, beats = max(BEAT_BYTES // config.row_bytes, 1), row_cycles(config)
        beat = max(rows, beat_cycles)
        first = 2 if rows > 1 else (beats - 1) * beat + 1
        return cls(beat, beats * max(beat // rows, 1), first)


class Source:
    """A memory that LOAD and command fetch read.

    Attributes
    ----------
    latency : int
        Cycles from an address to the first beat, if the path is free.
    rate : Rate
        How fast beats come to LOAD.
    fetch : int
        Cycles from a beat to the next of command fetch.
    """

    __slots__ = ("fetch", "latency", "path", "rate")

    def __init__(self, memory: MemoryTiming, path: DataPath, config: Config) -> None:
        self.latency, self.path = memory.read_latency, path
        self.rate = Rate.of(memory.beat_cycles, config)
        self.fetch = max(memory.beat_cycles, 1)


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
