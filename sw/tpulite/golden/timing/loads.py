"""The cycle model's DRAM reads: command fetch and LOAD on one channel."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES, MemoryPair, Window
from tpulite.arch.timing import (
    COMMAND_BEATS,
    LOAD_SLACK,
    LOAD_TOKEN,
    REQUANTIZER,
    row_cycles,
    sum_latency,
)
from tpulite.golden.timing.burst_stores import DataPath, Rate, Source
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Record, TransferHead
from tpulite.golden.timing.phases import KnownPhases, Walk

_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES


_Burst = tuple[int, int, int, "_Load | None", int, bool]
"""A burst that was asked for and has not been followed to its end: the cycle in which its address
is on AR; its beats, and the cycles in which they come if nothing holds them up; the LOAD that it
belongs to, None for command fetch; its first row of the buffer; whether it ends its command."""


class _Load:
    """What of a LOAD is not asked for; addresses and lengths in beats."""

    __slots__ = (
        *("address", "beats_left", "beats_per_line", "bursts", "line_address", "line_left"),
        *("line_row", "lines_left", "pitch", "record", "row", "signal", "source", "stride", "tail"),
    )

    def __init__(self, fields: dict[str, int], record: Record, loads: "Loads") -> None:
        rows, lines = fields["rows"], fields["lines"]
        per_beat = loads.rows_per_beat
        self.beats_per_line = -(-rows // per_beat) * loads.beats_per_row
        self.line_left = self.beats_per_line
        self.lines_left = lines
        self.beats_left = self.beats_per_line * lines
        self.bursts = -(-self.beats_per_line // loads.longest) * lines
        self.tail = (rows - 1) % per_beat + 1
        self.address = self.line_address = fields["offset"] // BEAT_BYTES
        self.stride = fields["stride"] // BEAT_BYTES
        self.row = self.line_row = fields["row"]
        self.pitch = fields["pitch"]
        self.signal = fields["signal"]
        self.record = record
        constant = fields["window"] == Window.CONSTANTS
        self.source = loads.constants if constant else loads.tensors


class Loads(TransferHead):
    """LOAD, burst by burst, and the bursts of command fetch among them.

    Requests are answered in order. A burst goes out as soon as less than ``dma_bursts`` are
    outstanding. The beats of a burst are followed when it is known what the matrix unit writes
    meanwhile, which is before they come.

    Parameters
    ----------
    constants : DataPath
        What reads of constants and commands pass: another path if they have their own memory.
    """

    def __init__(self, machine: Clockwork, path: DataPath, constants: DataPath) -> None:
        super().__init__(machine, Engine.LOAD)
        config = self.config = machine.config
        machine.fetch, machine.follow = self.fetch, self.run
        self.event = machine.event(self.run)
        memory = machine.memory
        self.tensors = Source(memory, path, config)
        self.constants = Source(memory.constants, constants, config)
        self.latency = memory.read_latency
        self.limited = memory.is_limited
        self.paired = isinstance(memory, MemoryPair)
        self.taken: deque[int] = deque()  # when first beats are ready that a data path has taken
        path.take = self.take
        self.banks = config.ub_banks
        self.longest = config.burst_beats
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = row_cycles(config)
        self.swift = Rate.of(0, config)  # of beats that are ready
        self.known = sum_latency(config) + REQUANTIZER  # so far ahead writes are known
        self.flying: deque[_Burst] = deque()
        self.open = 0  # of these, bursts of LOAD
        self.ends = deque([-1] * config.dma_bursts, config.dma_bursts)  # of those before
        self.streak = 0  # whole bursts of one line that came without a gap
        self.channel = 0  # first cycle without a beat
        self.issued = -1  # when the last burst was issued, a cycle before its address
        self.current: _Load | None = None
        self.walk = Walk(0, self.banks, 0, 0)  # the last rows, one a cycle
        self.written = 0  # last row in the buffer

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        fields, record = self.pop(time)
        self.current = _Load(fields, record, self)
        self.free = NEVER
        self.issued = max(self.issued, time)
        self.run(time)

    def fetch(self, time: int, beats: int) -> None:
        """Put the address of a burst of commands on AR."""
        self._follow(time)
        behind = []
        while len(self.flying) > len(self.taken) and self.flying[-1][0] >= time:
            behind.append(self.flying.pop())
        self.flying.append((time, beats, beats * self.constants.fetch, None, 0, True))
        while behind:
            self.flying.append(behind.pop())
        self.streak = 0
        self._expect(time)

    def run(self, time: int) -> None:
        """Do what can be done in a cycle, and find out when there is more."""
        self._follow(time)
        self._end_walk()
        self._expect(time + 1)

    def _expect(self, time: int) -> None:
        """Come back when a command can be finished, or all of its bursts issued."""
        due, channel, latency = NEVER, self.channel, self.latency
        begins = self._begins() if self.limited else None
        for address, _, cycles, load, _, last in self.flying:
            begin = address + latency if begins is None else next(begins)
            if self.paired:  # burst by burst: those of the other memory may be ready, or late
                due = self._followed(self.flying[0], begin)
                due = max(due - self.known, address)
                break
            begin = max(begin, channel)
            channel = begin + cycles
            if last:
                due = (begin if load is None else channel) - self.known
                if self.limited and due < address:
                    due = address
                break
        if (load := self.current) is not None and not self.paired:
            # Its last burst goes out, at the earliest, when so many have ended.
            channel += (load.beats_left - len(self.ends) * self.longest) * load.source.rate.beat
            due = min(due, max(channel, self.issued + load.bursts))
        self.machine.due[self.event] = max(due, time) if due != NEVER else NEVER

    def take(self, time: int) -> None:
        """Let the data path take the bursts whose addresses have come by a cycle."""
        for address, beats, _, load, *_ in islice(self.flying, len(self.taken), None):
            if address > time:
                break
            source = self.constants if load is None else load.source
            self.taken.append(source.path.begin(address, beats) + source.latency)

    def _begins(self) -> Iterator[int]:
        """Yield when the first beats of flying bursts are ready, if nobody else comes."""
        yield from self.taken
        paths = {x: x.path.copy() for x in (self.constants, self.tensors)}
        if self.constants.path is self.tensors.path:
            paths[self.constants] = paths[self.tensors]
        for address, beats, _, load, *_ in islice(self.flying, len(self.taken), None):
            source = self.constants if load is None else load.source
            yield paths[source].begin(address, beats) + source.latency

    def _followed(self, burst: _Burst, ready: int) -> int:
        """Return until when it must be known what others do to follow a burst of two memories."""
        _, _, cycles, load, _, _ = burst
        begin = ready if ready > self.channel else self.channel
        if load is None:
            return begin
        rows = cycles // load.source.rate.row
        swift = begin + rows * self.swift.row
        return max(swift, ready + cycles - load.source.rate.row + self.swift.row)

    def _follow(self, time: int) -> None:
        """Issue the bursts that may go out, and follow those about which all is known."""
        limit = time + self.known
        flying, most = self.flying, len(self.ends)
        while True:
            while self.current is not None and self.open < most:
                self._issue(self.current)
            if not flying:
                return
            burst = flying[0]
            begin, load = burst[0] + self.latency, burst[3]
            if self.limited:
                self.take(min(burst[0], time))
                if not self.taken:
                    return
                begin = self.taken[0]
            if self.paired:
                if self._followed(burst, begin) > limit:
                    return
                self._follow_pair(flying.popleft(), self.taken.popleft())
                continue
            if begin < self.channel:
                begin = self.channel
            if begin + (0 if load is None else burst[2]) > limit:
                return
            if self.current is not None and self.streak > 2 * most:
                self._skip(self.current, limit)
                self.streak = 0
                continue
            flying.popleft()
            pace = self.constants.fetch
            if self.limited and begin > self.taken.popleft():
                pace = 1  # the memory has them ready
            if load is None:
                self.channel = begin + burst[1] * pace
                self.machine.arrive(begin, burst[1], pace)
            else:
                self._receive(burst, load, begin)

    def _follow_pair(self, burst: _Burst, ready: int) -> None:
        """Follow a burst of one of two memories, whose first beat is ready in a cycle."""
        _, beats, _, load, _, _ = burst
        begin = max(ready, self.channel)
        if load is not None:
            self._receive(burst, load, begin, begin - ready)
            return
        pace, swift = self.constants.fetch, beats
        if pace > 1:  # so many come in the cycles after each other, as the channel was busy
            swift = min(-(-(begin - ready) // (pace - 1)) // COMMAND_BEATS * COMMAND_BEATS, beats)
        self.channel = begin + swift
        if swift:
            self.machine.arrive(begin, swift, 1)
        if swift < beats:
            self.channel = ready + (beats - 1) * pace + 1
            self.machine.arrive(ready + swift * pace, beats - swift, pace)

    def _issue(self, load: _Load) -> None:
        """Issue the next burst of the command under way."""
        issued, end = self.issued + 1, self.ends[self.open]
        self.issued = issued = end if end > issued else issued
        page = _PAGE_BEATS - load.address % _PAGE_BEATS
        beats = load.line_left
        if beats > self.longest:
            beats = self.longest
        if beats > page:
            beats = page
        load.beats_left -= beats
        load.bursts -= 1
        load.line_left -= beats
        load.address += beats
        rate = load.source.rate
        cycles, last = beats * rate.beat, False
        row = load.row
        load.row += beats * self.rows_per_beat
        if not load.line_left:
            cycles += (load.tail - self.rows_per_beat) * rate.row
            load.lines_left -= 1
            load.line_left = load.beats_per_line
            load.line_address += load.stride
            load.address = load.line_address
            load.line_row += load.pitch
            load.row = load.line_row
            last = not load.lines_left
        self.flying.append((issued + 1, beats, cycles, load, row, last))
        self.open += 1
        if last:
            self.current = None
            self.free = issued + 1
            self.schedule()

    def _receive(self, burst: _Burst, load: _Load, begin: int, waited: int = 0) -> None:
        """Follow the beats of a burst that begins to come in a cycle, and was ready before."""
        _, beats, cycles, _, row, last = burst
        gap, rate, swift = begin - self.channel, load.source.rate, self.swift
        ready = self._ready(waited, rate, cycles // rate.row) if waited else 0
        late, start = 0, begin
        if ready:  # so many rows come as fast as LOAD takes them, the others as they are read
            late = self._write(load, row, ready * swift.row, begin, swift)
            start = max(begin - waited + ready * rate.row, begin + late + ready * swift.row)
            cycles -= ready * rate.row
        if cycles:
            slow = self._write(load, row + ready, cycles, start, rate)
            late += slow
            end = start + slow + cycles
        else:
            rate, end = swift, start
        begin += late
        alike = beats == self.longest and not gap and not late and not last
        self.streak = self.streak + 1 if alike else 0
        self.channel = end
        self.ends.append(end - (load.tail * rate.row if last else rate.beat))
        if self.paired:  # the other memory may have something ready
            self.channel = self.ends[-1] + (load.tail * swift.row if last else swift.beat)
        self.open -= 1
        if self.limited:
            load.record.axi += end - begin - beats * self.rows_per_beat
        if gap > 2:
            # Issuing bursts is work, too.
            record = load.record
            busy = record.start + 1 + min(load.bursts + self.open + 1, len(self.ends))
            record.axi += max(0, min(gap - 2, begin - busy))
        if last:
            self._complete(load)

    def _ready(self, waited: int, rate: Rate, rows: int) -> int:
        """Return how many rows of a burst come at once that was ready some cycles before."""
        slower = rate.beat - self.swift.beat
        if not slower:
            return rows
        beats = -(-waited // slower)
        return min(beats // self.beats_per_row * self.rows_per_beat, rows)

    def _write(self, load: _Load, row: int, cycles: int, begin: int, rate: Rate) -> int:
        """Write rows whose beats come from a cycle on; return for how long beats must wait."""
        rows = cycles // rate.row
        offered = begin + rate.first
        if offered <= self.written:
            offered = self.written + 1
        self.written = offered + (rows - 1) * rate.row
        late, writes = 0, self.machine.writes
        lags = offered > begin + rate.first + LOAD_SLACK
        if writes.stop > offered and (lags or writes.next(offered) < offered + cycles):
            late = self._refused(row, offered, rows, begin, rate)
            load.record.buffer += late
        if rate.row > 1:
            first = begin + late + rate.first
            stream = KnownPhases.paced(row, first, rows, rate.row, self.banks)
            stop = first + cycles
            if self.paired:  # the next row may come at once
                self._end_walk()
                stop += 1 - rate.row
            self.machine.loads.add(first, stop, stream)
        else:
            walk, stop = self.walk, self.written + 1
            ahead = row + rows - stop
            if offered == walk.stop and ahead == walk.ahead:
                walk.stop = stop
            else:
                self._end_walk()
                self.walk = Walk(ahead, self.banks, offered, stop)
                self.machine.loads.add(offered, stop, self.walk)
        return late

    def _end_walk(self) -> None:
        """Let others meet all rows that are written so far, one a cycle."""
        loads = self.machine.loads
        if self.walk.stop > loads.stop:
            loads.end(self.walk.stop)

    def _refused(self, row: int, offered: int, rows: int, begin: int, rate: Rate) -> int:
        """Return for how long beats must wait because the buffer does not take their rows."""
        pace = rate.row
        self.written = self.machine.writes.delay(
            row, offered, rows, starve=True, pace=pace, buffered=True
        )
        late = self.written - (begin + (rows - 1) * pace + rate.first)
        return max(0, late - LOAD_SLACK)

    def _skip(self, load: _Load, limit: int) -> None:
        """Follow many bursts at once that are alike: whole, of one line, without a gap."""
        whole = self.longest * self.rows_per_beat
        count = min(load.line_left // self.longest - 1, (limit - self.channel) // whole - 1)
        same = load.beats_per_line - load.line_left >= 2 * len(self.ends) * self.longest
        alike = same and not load.address % self.longest and self.open == len(self.flying)
        if count < 2 or not alike or load.source.rate.row > 1 or self.limited:
            return
        # Nobody else may write meanwhile.
        count = min(count, (self.machine.writes.next(self.written + 1) - self.written - 1) // whole)
        if count < 2:
            return
        beats, cycles = count * self.longest, count * whole
        load.beats_left -= beats
        load.line_left -= beats
        load.address += beats
        load.bursts -= count
        load.row += cycles
        for _ in range(len(self.flying)):
            address, size, length, owner, row, last = self.flying.popleft()
            self.flying.append((address + cycles, size, length, owner, row + cycles, last))
        self.ends = deque((end + cycles for end in self.ends), self.ends.maxlen)
        self.issued += cycles
        self.channel += cycles
        self.written += cycles
        self.walk.stop += cycles

    def _complete(self, load: _Load) -> None:
        """Take note that the last row of a command is in the buffer, and give its tokens."""
        # It waits for the tokens of the command before.
        self.written = max(self.written, self.stopped)
        self.complete(load.record, load.signal, self.written, LOAD_TOKEN)
