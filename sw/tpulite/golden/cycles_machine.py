"""The clockwork of the cycle model: events in the order of time, command queues, tokens."""

from collections import deque
from collections.abc import Callable, Sequence

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import ENGINE_OF, Command, Engine
from tpulite.golden.cycles_banks import Traffic

__all__ = ["ENGINES", "NEVER", "Head", "Machine", "Record"]

NEVER = 1 << 60
"""The time of what is not known to happen."""

_MEMBERS: tuple[tuple[int, ...], ...] = tuple(
    tuple(engine for engine in range(len(Engine)) if mask >> engine & 1)
    for mask in range(1 << len(Engine))
)
"""The engines that a mask names."""

_COMMAND_BEATS = COMMAND_BYTES // BEAT_BYTES
_FETCHED = 16  # commands that the fetch buffer holds, if bursts are not longer
ENGINES = len(Engine)


def _nothing(time: int) -> None:
    """Stand for an engine that is not there yet."""


class Record:
    """What becomes of one command: times, and its engine's cycles while it counts for it.

    Attributes
    ----------
    engine : int
        Who executes it; -1 is nobody: END.
    dispatch, start : int
        Cycle in which it enters its queue, and in which its tokens are taken.
    first, stop : int
        First cycle, and last cycle + 1, that its engine counts for it.
    token, buffer, axi : int
        Of these, cycles in which the engine waits for tokens, is held up by the unified buffer, or
        by DRAM; the others are work.
    giver : int
        The engine whose token came last; -1 if it needs none.
    """

    __slots__ = ("axi", "buffer", "dispatch", "engine", "first", "giver", "start", "stop", "token")

    def __init__(self, engine: int, dispatch: int) -> None:
        self.engine = engine
        self.dispatch = dispatch
        self.start = self.first = self.stop = 0
        self.token = self.buffer = self.axi = 0
        self.giver = -1


class Head:
    """An engine's queue, whose first command starts as soon as engine and tokens allow.

    Parameters
    ----------
    machine : Machine
        The clockwork.
    engine : Engine
        Which engine.

    Attributes
    ----------
    free : int
        Cycle from which on the engine may start a command; NEVER while that is not known.
    """

    def __init__(self, machine: "Machine", engine: int) -> None:
        self.machine = machine
        self.engine = engine
        self.queue: deque[tuple[int, dict[str, int], Record]] = deque()
        self.free = 0

    def push(self, index: int, fields: dict[str, int], record: Record) -> None:
        """Take a command that the dispatcher hands over."""
        self.queue.append((index, fields, record))
        if len(self.queue) == 1:
            self.schedule()

    def schedule(self) -> None:
        """Find out when the first command starts, if that can be known."""
        due = NEVER
        if self.queue and self.free != NEVER:
            _, fields, record = self.queue[0]
            due = self.earliest(record.dispatch + 1)
            if wait := fields["wait"]:
                for giver in _MEMBERS[wait]:
                    tokens = self.machine.tokens[giver][self.engine]
                    if not tokens:
                        due = NEVER
                        break
                    if tokens[0] > due:
                        due = tokens[0]
        self.machine.due[self.engine] = due

    def earliest(self, offered: int) -> int:
        """Return when a command that is offered in a cycle starts, but for its tokens."""
        return offered if offered > self.free else self.free

    def pop(self, time: int) -> tuple[int, dict[str, int], Record]:
        """Start the first command: take it out of the queue, and its tokens."""
        head = self.queue.popleft()
        head[2].start = time
        if wait := head[1]["wait"]:
            last = -1
            for giver in _MEMBERS[wait]:
                given = self.machine.tokens[giver][self.engine].popleft()
                if given > last:
                    last, head[2].giver = given, giver
        self.machine.due[self.engine] = NEVER
        return head


class Machine:
    """Run a program's commands through fetch, dispatch and the engines.

    Everything that happens is an event with a time; the earliest comes next.

    Parameters
    ----------
    commands : sequence of Command
        The program with tokens, END last.
    config : Config
        The machine.
    """

    def __init__(self, commands: Sequence[Command], config: Config) -> None:
        self.commands = commands
        self.config = config
        self.records: list[Record] = []
        self.finish = 0
        self.reads, self.writes = Traffic(config.ub_banks), Traffic(config.ub_banks)  # of the matrix unit
        self.tokens = [[deque() for _ in Engine] for _ in Engine]
        # What happens next, and when: the starts of the engines, command fetch, then what engines add.
        self.due = [NEVER] * ENGINES + [0]
        self.handlers: list[Callable[[int], None]] = [_nothing] * ENGINES + [self._fetch]
        self.heads: list[Head] = []
        self.pops: list[list[int]] = [[] for _ in Engine]
        self._pushed = [0] * ENGINES
        self._full = -1  # the engine for whose queue the dispatcher waits
        self._dispatching = False
        self._dispatched = -1  # time of the last dispatch
        self._arrivals: list[int] = []
        # Command fetch, in beats.
        self._beats = len(commands) * _COMMAND_BEATS
        self._space = max(_FETCHED, config.burst_beats) * _COMMAND_BEATS
        self._requested = 0
        self._request = 0  # when the last burst was requested
        self.fetch: Callable[[int, int], None] = self.arrive

    def event(self, handler: Callable[[int], None]) -> int:
        """Add a kind of event; return where in ``due`` its time is."""
        self.handlers.append(handler)
        self.due.append(NEVER)
        return len(self.handlers) - 1

    def run(self) -> int:
        """Run the program; return its cycles."""
        due, handlers = self.due, self.handlers
        while (time := min(due)) != NEVER:
            handlers[due.index(time)](time)
        if len(self.records) < len(self.commands):
            raise ValueError(f"Command {len(self.records)} is never dispatched: tokens are missing")
        return self.finish + 1

    def give(self, engine: int, signal: int, time: int) -> None:
        """Give tokens that can be taken from a cycle on."""
        for taker in _MEMBERS[signal]:
            self.tokens[engine][taker].append(time)
            if self.due[taker] == NEVER:
                self.heads[taker].schedule()

    def popped(self, engine: int, time: int) -> None:
        """Take note that a command has left a queue."""
        self.pops[engine].append(time)
        if self._full == engine:
            self._dispatch()

    def arrive(self, begin: int, beats: int) -> None:
        """Take the beats of a burst of commands."""
        begin += _COMMAND_BEATS
        self._arrivals.extend(range(begin, begin + beats, _COMMAND_BEATS))
        self._dispatch()

    def _fetch(self, time: int) -> None:
        """Request a burst of commands."""
        burst = min(self._beats - self._requested, self.config.burst_beats)
        self._requested += burst
        self._request = time
        self.due[ENGINES] = NEVER
        self._ask()
        self.fetch(time, burst)

    def _ask(self) -> None:
        """Request the next burst as soon as enough commands have made room for it."""
        burst = min(self._beats - self._requested, self.config.burst_beats)
        gone = -(-(self._requested + burst - self._space) // _COMMAND_BEATS)
        if burst and gone <= len(self.records) and self.due[ENGINES] == NEVER:
            room = self.records[gone - 1].dispatch if gone > 0 else 0
            self.due[ENGINES] = max(room, self._request) + 1

    def _dispatch(self) -> None:
        """Hand commands over in order, as far as they have come and the queues have room."""
        if self._dispatching:
            return
        self._dispatching = True
        self._full = -1
        records, arrivals, commands = self.records, self._arrivals, self.commands
        depth = self.config.queue_depth
        index, time = len(records), self._dispatched
        while index < len(arrivals):
            command = commands[index]
            engine = ENGINE_OF.get(command.opcode, -1)
            time = max(time + 1, arrivals[index])
            if engine < 0:
                records.append(Record(engine, time))
                self.finish = max(self.finish, time + 1)
                self._requested = self._beats
                break
            behind = self._pushed[engine] - depth
            if behind >= 0:
                if len(self.pops[engine]) <= behind:
                    self._full = engine
                    time = self._dispatched
                    break
                time = max(time, self.pops[engine][behind] + 1)
            self._pushed[engine] += 1
            self._dispatched = time
            record = Record(engine, time)
            records.append(record)
            self.heads[engine].push(index, command.fields, record)
            index += 1
        if self._requested < self._beats:
            self._ask()
        self._dispatching = False
