"""The cycle model's DRAM reads: command fetch and LOAD on one channel."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.timing import LOAD_SLACK, LOAD_TOKEN, REQUANTIZER, row_cycles, sum_latency
from tpulite.golden.timing.clockwork import NEVER, Clockwork
from tpulite.golden.timing.data_path import DataPath
from tpulite.golden.timing.phases import KnownPhases, Walk
from tpulite.golden.timing.record import Record
from tpulite.golden.timing.transfers import TransferHead

__all__ = ["Loads"]

_PAGE_BEATS = PAGE_BYTES // BEAT_BYTES


_Burst = tuple[int, int, int, "_Load | None", int, bool]
"""A burst that was asked for and has not been followed to its end: the cycle in which its address
is on AR; its beats, and the cycles in which they come if nothing holds them up; the LOAD that it
belongs to, None for command fetch; its first row of the buffer; whether it ends its command."""


class _Load:
    """What of a LOAD is not asked for; addresses and lengths in beats."""

    __slots__ = (
        *("address", "beats_left", "beats_per_line", "bursts", "line_address", "line_left"),
        *("line_row", "lines_left", "pitch", "record", "row", "signal", "stride", "tail"),
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


class Loads(TransferHead):
    """LOAD, burst by burst, and the bursts of command fetch among them.

    Requests are answered in order. A burst goes out as soon as less than ``dma_bursts`` are
    outstanding. The beats of a burst are followed when it is known what the matrix unit writes
    meanwhile, which is before they come.
    """

    def __init__(self, machine: Clockwork, path: DataPath) -> None:
        super().__init__(machine, Engine.LOAD)
        config = self.config = machine.config
        machine.fetch, machine.follow = self.fetch, self.run
        self.event = machine.event(self.run)
        self.latency = machine.memory.read_latency
        self.path = path
        self.limited = machine.memory.is_limited
        self.taken: deque[int] = deque()  # when the first beats of flying bursts pass the data path
        path.take = self.take
        self.banks = config.ub_banks
        self.longest = config.burst_beats
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = row_cycles(config)
        # Cycles in which the next beat, and the next row, can come.
        self.beat_cycles = max(self.rows_per_beat, machine.memory.beat_cycles)
        self.fetch_pace = max(machine.memory.beat_cycles, 1)
        self.pace = self.beats_per_row * max(self.beat_cycles // self.rows_per_beat, 1)
        first = (self.beats_per_row - 1) * self.beat_cycles + 1
        self.offered = 2 if self.rows_per_beat > 1 else first  # to the first row
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
        self.flying.append((time, beats, beats * self.fetch_pace, None, 0, True))
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
        begins = self._begins() if self.limited else (burst[0] for burst in self.flying)
        for begin, (address, _, cycles, load, _, last) in zip(begins, self.flying, strict=False):
            begin = max(begin + latency, channel)
            channel = begin + cycles
            if last:
                due = (begin if load is None else channel) - self.known
                if self.limited and due < address:
                    due = address
                break
        if (load := self.current) is not None:
            # Its last burst goes out, at the earliest, when so many have ended.
            channel += (load.beats_left - len(self.ends) * self.longest) * self.beat_cycles
            due = min(due, max(channel, self.issued + load.bursts))
        self.machine.due[self.event] = max(due, time) if due != NEVER else NEVER

    def take(self, time: int) -> None:
        """Let the data path take the bursts whose addresses have come by a cycle."""
        for address, beats, *_ in islice(self.flying, len(self.taken), None):
            if address > time:
                break
            self.taken.append(self.path.begin(address, beats))

    def _begins(self) -> Iterator[int]:
        """Yield when the first beats of flying bursts pass the data path, if nobody else comes."""
        yield from self.taken
        path = self.path.copy()
        for address, beats, *_ in islice(self.flying, len(self.taken), None):
            yield path.begin(address, beats)

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
                begin = self.taken[0] + self.latency
            if begin < self.channel:
                begin = self.channel
            if begin + (0 if load is None else burst[2]) > limit:
                return
            if self.current is not None and self.streak > 2 * most:
                self._skip(self.current, limit)
                self.streak = 0
                continue
            flying.popleft()
            pace = self.fetch_pace
            if self.limited and begin > self.taken.popleft() + self.latency:
                pace = 1  # the memory has them ready
            if load is None:
                self.channel = begin + burst[1] * pace
                self.machine.arrive(begin, burst[1], pace)
            else:
                self._receive(burst, load, begin)

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
        cycles, last = beats * self.beat_cycles, False
        row = load.row
        load.row += beats * self.rows_per_beat
        if not load.line_left:
            cycles += (load.tail - self.rows_per_beat) * self.pace
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

    def _receive(self, burst: _Burst, load: _Load, begin: int) -> None:
        """Follow the beats of a burst that begins to come in a cycle."""
        _, beats, cycles, _, row, last = burst
        gap, pace = begin - self.channel, self.pace
        rows = cycles // pace
        offered = begin + self.offered
        if offered <= self.written:
            offered = self.written + 1
        self.written = offered + (rows - 1) * pace
        late, writes = 0, self.machine.writes
        lags = offered > begin + self.offered + LOAD_SLACK
        if writes.stop > offered and (lags or writes.next(offered) < offered + cycles):
            late = self._refused(row, offered, rows, begin)
            begin += late
            load.record.buffer += late
        if pace > 1:
            first = begin + self.offered
            stream = KnownPhases.paced(row, first, rows, pace, self.banks)
            self.machine.loads.add(first, first + cycles, stream)
        else:
            walk, stop = self.walk, self.written + 1
            ahead = row + rows - stop
            if offered == walk.stop and ahead == walk.ahead:
                walk.stop = stop
            else:
                self._end_walk()
                self.walk = Walk(ahead, self.banks, offered, stop)
                self.machine.loads.add(offered, stop, self.walk)
        alike = beats == self.longest and not gap and not late and not last
        self.streak = self.streak + 1 if alike else 0
        self.channel = begin + cycles
        self.ends.append(self.channel - (load.tail * self.pace if last else self.beat_cycles))
        self.open -= 1
        if self.limited:
            load.record.axi += cycles - beats * self.rows_per_beat
        if gap > 2:
            # Issuing bursts is work, too.
            record = load.record
            busy = record.start + 1 + min(load.bursts + self.open + 1, len(self.ends))
            record.axi += max(0, min(gap - 2, begin - busy))
        if last:
            self._complete(load)

    def _end_walk(self) -> None:
        """Let others meet all rows that are written so far, one a cycle."""
        loads = self.machine.loads
        if self.pace == 1 and self.walk.stop > loads.stop:
            loads.end(self.walk.stop)

    def _refused(self, row: int, offered: int, rows: int, begin: int) -> int:
        """Return for how long beats must wait because the buffer does not take their rows."""
        pace = self.pace
        self.written = self.machine.writes.delay(
            row, offered, rows, starve=True, pace=pace, buffered=True
        )
        late = self.written - (begin + (rows - 1) * pace + self.offered)
        return max(0, late - LOAD_SLACK)

    def _skip(self, load: _Load, limit: int) -> None:
        """Follow many bursts at once that are alike: whole, of one line, without a gap."""
        whole = self.longest * self.rows_per_beat
        count = min(load.line_left // self.longest - 1, (limit - self.channel) // whole - 1)
        same = load.beats_per_line - load.line_left >= 2 * len(self.ends) * self.longest
        alike = same and not load.address % self.longest and self.open == len(self.flying)
        if count < 2 or not alike or self.pace > 1 or self.limited:
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
