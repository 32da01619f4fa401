"""The cycle model's STORE."""

from collections import deque
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.timing import (
    STARVED,
    STORE_REQUEST,
    STORE_TOKEN,
    row_cycles,
    store_beat,
)
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Record, TransferHead

_WINDOW = 32  # cycles that others are looked at beyond


class Stores(TransferHead):
    """STORE: bursts go out in front, rows are read behind."""

    def __init__(self, machine: Clockwork) -> None:
        super().__init__(machine, Engine.STORE)
        config = self.config = machine.config
        self.event = machine.event(self.finish)
        self.rows_per_beat = max(BEAT_BYTES // config.row_bytes, 1)
        self.beats_per_row = row_cycles(config)
        # Commands that have started, with the cycles that their rows take if all is well.
        self.started: deque[tuple[dict[str, int], Record, int]] = deque()
        self.bursts: deque[int] = deque()  # theirs
        self.begin = 0  # first row of the first one
        self.read = 0  # cycle after the last row of the one before
        self.banks = config.ub_banks
        self.beat = store_beat(config)
        self.answer = self.beat + machine.memory.write_response
        self.contest: _Place | None = None  # how far the first one was followed
        machine.contend = self.contend

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
            cycles = max(cycles, int((cycles + bursts * self.answer) / most))
        self.started.append((fields, record, cycles))
        self.bursts.append(bursts)
        self.free = max(time + bursts, self._room()) + 1
        self.schedule()
        if len(self.started) == 1:
            self._expect()

    def _room(self) -> int:
        """Return when so many bursts are answered that the last one of all commands may go out."""
        over = sum(self.bursts) - self.config.dma_bursts
        if over <= 0:
            return 0
        begin = self.read
        for (_, record, cycles), bursts in zip(self.started, self.bursts, strict=True):
            begin = max(begin, record.start + STORE_REQUEST)
            if over <= bursts:
                return begin + -(-cycles * over // bursts) + self.answer
            over -= bursts
            begin += cycles
        raise AssertionError("at least one burst may always go out")

    def _expect(self) -> None:
        """Come back in the cycle after the last row of the first command."""
        due = NEVER
        if self.started:
            _, record, cycles = self.started[0]
            self.begin = max(record.start + STORE_REQUEST, self.read)
            due = self.begin + cycles
        self.machine.due[self.event] = due

    def finish(self, time: int) -> None:
        """Answer a command whose last row was read in the cycle before, unless banks were busy."""
        fields, record, cycles = self.started[0]
        if self._meets() and (late := self._delayed(fields, time)) > time:
            record.buffer = late - self.begin - cycles
            self.machine.due[self.event] = late
            return
        self.started.popleft()
        self.bursts.popleft()
        self.contest = None
        self.read = time
        answered = time - 1 + self.answer
        idle = self.started[0][1].start if self.started else answered
        record.axi = max(0, min(idle, answered) - (time + self.beat))
        self.complete(record, fields["signal"], answered, STORE_TOKEN)
        self._expect()

    def _meets(self) -> bool:
        """Whether another port asks for anything after the first row."""
        machine = self.machine
        ports = (machine.reads, machine.odd, *machine.vectors)
        return any(port.stop > self.begin for port in ports)

    def _delayed(self, fields: dict[str, int], time: int) -> int:
        """Return when all rows are read, as far as what others read is known."""
        machine, rows, pitch = self.machine, fields["rows"], fields["pitch"]
        pace = self.beats_per_row
        if pace == 1 and any(port.meets(self.begin, time) for port in machine.vectors):
            return self._contest(fields, NEVER, time).cycle
        lines = fields["lines"]
        if pitch == rows:
            lines, rows = 1, lines * rows
        cycle, row = self.begin, fields["row"]
        for _ in range(lines):
            cycle = pace + machine.reads.delay(
                row, cycle, rows, starve=True, pace=pace, beside=(machine.odd, *machine.operands)
            )
            row += pitch
        return cycle

    def contend(self, time: int) -> None:
        """Follow the first command up to a cycle, so that its wins are known."""
        if self.started and self.begin < time and self.beats_per_row == 1:
            self.contest = self._contest(self.started[0][0], time, time)

    def _contest(self, fields: dict[str, int], limit: int, known: int) -> "_Place":
        """Follow a command up to a cycle, past the vector path and those that are better.

        Parameters
        ----------
        limit : int
            Where to stop.
        known : int
            Cycle up to which all that others ask for is known: only before it do wins count.
        """
        machine, rows, lines = self.machine, fields["rows"], fields["lines"]
        if fields["pitch"] == rows:
            lines, rows = 1, lines * rows
        place = self.contest or _Place(self.begin)
        cycle, line, left = place.cycle, place.line, rows - place.read
        refusals, last = place.refusals, place.last
        ports = (machine.reads, machine.odd, *machine.operands, *machine.vectors)
        start = length = 0
        phases: list[bytes] = []
        while line < lines and cycle < limit:
            row = fields["row"] + line * fields["pitch"] + rows - left
            phase, stop = (row - cycle) % self.banks, cycle + left
            if not length or stop > start + length:
                start, length = cycle, 2 * (stop - cycle) + _WINDOW
                phases = [port.phases(start, start + length) for port in ports]
            met, which = stop, -1
            for index, better in enumerate(phases):
                found = better.find(phase, cycle - start, met - start)
                if found >= 0:
                    met, which = found + start, index
            if met >= limit:
                left -= limit - cycle
                cycle = limit
                if not left:
                    line, left = line + 1, rows
                break
            left -= met - cycle
            cycle = met
            if which >= 0:
                refusals = refusals + 1 if met == last + 1 else 1
                last, cycle = met, met + 1
                if refusals > STARVED and which >= len(ports) - len(machine.vectors):
                    refusals, left = 0, left - 1
                    if met < known:
                        machine.lose(met, phase)
                        length = 0
            if not left:
                line, left = line + 1, rows
        return _Place(cycle, line, rows - left, refusals, last)


class _Place(NamedTuple):
    """How far a STORE has come: the next cycle, lines and rows read, and what refused it last."""

    cycle: int
    line: int = 0
    read: int = 0
    refusals: int = 0
    last: int = -1
