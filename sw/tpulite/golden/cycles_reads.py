"""The cycle model's DRAM reads: command fetch and LOAD on one channel."""

from collections import deque

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES, REFERENCE_MEMORY
from tpulite.golden.cycles_banks import walk
from tpulite.golden.cycles_machine import NEVER, Head, Machine, Record

__all__ = ["Loads"]

_LATENCY = REFERENCE_MEMORY.read_latency
_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES
_ISSUE = 1  # from the start of a LOAD to its first burst, a cycle before that is on AR
_SLACK = 2  # rows that wait before beats do, beyond the one on its way
_STEADY = 2  # times the bursts outstanding: so many without a gap, and the next ones are alike


class Loads(Head):
    """LOAD, burst by burst, and the bursts of command fetch among them.

    Requests are answered in order. A burst of LOAD goes out as soon as less than ``dma_bursts``
    are outstanding; they are followed up to the present only, so that command fetch finds the
    channel as it is.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.LOAD)
        config = self.config = machine.config
        self.event = machine.event(self.follow)
        machine.fetch = self.fetch
        machine.handlers[Engine.LOAD] = self.start
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = max(config.row_bytes // BEAT_BYTES, 1)
        self.channel = 0  # first cycle without a beat
        self.issued = -1  # when the last burst was issued
        self.ends = deque([-1] * config.dma_bursts, config.dma_bursts)  # last beats, oldest first
        self.streak = 0  # whole bursts without a gap
        self.fetched = -1  # when a burst of commands was on AR
        self.current: _Load | None = None
        self.written = self.stopped = 0  # last row in the buffer, and end of the last command
        self.offered = 1 if self.rows_per_beat == 1 else 2  # from a beat to its first row

    def fetch(self, time: int, beats: int) -> int:
        """Put a burst of commands on AR in a cycle; return when its first beat comes."""
        self.advance(time - 1)
        self.fetched = time
        begin = max(time + _LATENCY, self.channel)
        self.channel = begin + beats
        self.streak = 0
        return begin

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        index, fields, record = self.pop(time)
        del index
        record.first = max(record.dispatch + 1, self.stopped)
        record.token = max(0, time - record.first)
        self.current = _Load(fields, record, self)
        self.free = NEVER
        self.issued = max(self.issued, time + _ISSUE - 1)
        self.machine.popped(Engine.LOAD, time)
        self._expect(time)

    def follow(self, time: int) -> None:
        """Follow the command under way up to a cycle."""
        self.advance(time)
        self._expect(time + 1)

    def _expect(self, time: int) -> None:
        """Come back when the last burst of the command has probably been issued."""
        due = NEVER
        if (load := self.current) is not None:
            # Not later than it really is: other requests find their place in time.
            bursts = -(-load.beats_left // self.config.burst_beats)
            if bursts <= len(self.ends):
                free = self.ends[bursts - 1]
            else:
                free = self.ends[-1] + (bursts - len(self.ends) - 1) * self.config.burst_beats
            due = max(time, self.issued + 1 + bursts, free + 1)
        self.machine.due[self.event] = due

    def advance(self, limit: int) -> None:
        """Issue the bursts whose address goes out in a cycle up to a limit."""
        load = self.current
        if load is None:
            return
        ends, longest = self.ends, self.config.burst_beats
        whole = longest * self.rows_per_beat
        while True:
            issue = max(self.issued + 1, ends[0])
            if issue + 1 > limit:
                return
            if self.machine.writes.stop <= self.channel and self.streak >= _STEADY * len(ends) and not load.address % longest:
                count = min(load.line_left // longest - 1, (limit - issue - 1) // whole + 1)
                if count > 0:
                    self._skip(load, count, whole)
                    continue
            if issue + 1 == self.fetched:
                issue += 1
            page = _PAGE_BEATS - load.address % _PAGE_BEATS
            beats = min(load.line_left, longest, page)
            begin = max(issue + 1 + _LATENCY, self.channel)
            gap = begin - self.channel
            self.streak = self.streak + 1 if not gap and beats == longest else 0
            if gap > 2:
                load.wait(gap, begin, self)
            self.issued = issue
            rest = load.take(beats)
            cycles = (beats - 1) * self.rows_per_beat + rest
            offered = max(begin + self.offered, self.written + 1)
            self.written = offered + cycles - 1
            if self.machine.writes.stop > offered and self.beats_per_row == 1:
                begin += self._refused(load, offered, cycles, begin)
            load.row += cycles
            self.channel = begin + cycles
            ends.append(self.channel - rest)
            if not load.lines_left:
                self._complete(load)
                return
            if load.line_left == load.line:
                load.row = load.next_row
                load.next_row += load.pitch

    def _refused(self, load: "_Load", offered: int, rows: int, begin: int) -> int:
        """Return for how long beats must wait because the buffer does not take their rows."""
        phases = self.machine.writes.phases(offered, offered + 8 * rows)
        phase = (load.row - offered) % self.config.ub_banks
        end = walk(phases, 0, phase, rows, self.config.ub_banks, starve=True)
        self.written = offered + end - 1
        late = self.written - (begin + rows - 1 + self.offered)
        return max(0, late - _SLACK)

    def _skip(self, load: "_Load", count: int, whole: int) -> None:
        """Issue whole bursts that follow each other without a gap."""
        cycles = count * whole
        load.skip(count * self.config.burst_beats)
        load.row += cycles
        self.written += cycles
        self.issued += cycles
        self.channel += cycles
        for i in range(len(self.ends)):
            self.ends[i] += cycles

    def _complete(self, load: "_Load") -> None:
        """Take note that all of a command's bursts are issued: its last row is known."""
        record, written = load.record, self.written
        if written < self.stopped:  # the tokens of the command before are being given
            self.written = written = self.stopped
        self.current = None
        self.stopped = written + 1
        if load.signal:
            self.stopped = written + 2
            self.machine.give(Engine.LOAD, load.signal, written + 2)
        record.stop = self.stopped
        self.machine.finish = max(self.machine.finish, record.stop)
        self.free = self.issued + 1
        self.schedule()


class _Load:
    """What is left of a LOAD, in beats."""

    __slots__ = (
        "address",
        "beats_left",
        "line",
        "line_left",
        "lines_left",
        "next_line",
        "next_row",
        "pitch",
        "record",
        "row",
        "signal",
        "stride",
        "tail",
        "whole",
    )

    def __init__(self, fields: dict[str, int], record: Record, loads: Loads) -> None:
        rows = fields["rows"]
        per_beat = loads.rows_per_beat
        self.line = self.line_left = -(-rows // per_beat) * loads.beats_per_row
        self.lines_left = fields["lines"]
        self.beats_left = self.line * self.lines_left
        self.address = self.next_line = fields["offset"] // BEAT_BYTES
        self.stride = fields["stride"] // BEAT_BYTES
        self.whole = per_beat
        self.tail = (rows - 1) % per_beat + 1
        self.signal = fields["signal"]
        self.row = fields["row"]
        self.pitch = fields["pitch"]
        self.next_row = self.row + self.pitch
        self.record = record

    def take(self, beats: int) -> int:
        """Take a burst; return the rows of its last beat, which is the cycles that it takes."""
        self.beats_left -= beats
        self.line_left -= beats
        self.address += beats
        if self.line_left:
            return self.whole
        self.lines_left -= 1
        self.line_left = self.line
        self.next_line += self.stride
        self.address = self.next_line
        return self.tail

    def skip(self, beats: int) -> None:
        """Take beats in the middle of a line."""
        self.beats_left -= beats
        self.line_left -= beats
        self.address += beats

    def wait(self, gap: int, begin: int, loads: Loads) -> None:
        """Count cycles without a beat that are the memory's."""
        bursts = min(-(-self.beats_left // loads.config.burst_beats), len(loads.ends))
        self.record.axi += max(0, min(gap - 2, begin - self.record.start - 1 - bursts))
