"""The clockwork of the cycle model: events in the order of time, command queues, tokens."""

from collections import deque
from collections.abc import Callable, Sequence

from tpulite.arch.config import Config
from tpulite.arch.isa import ENGINE_OF, TOKEN_MAX, Command, Engine
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.timing import (
    COMMAND_BEATS,
    COMMAND_CHECK,
    DISPATCH,
    DMA_COMMAND,
    END,
    FETCH_BURST,
    TOKEN_RETURN,
    fetch_buffer,
)
from tpulite.golden.timing.banks import Traffic


class Record:
    """What becomes of one command: times, and its engine's cycles while it counts for it.

    Attributes
    ----------
    engine : int
        Who executes it; -1 is nobody: END.
    dispatch, ready, start : int
        Cycle in which it enters its queue, from which on it may take its tokens, and in which it
        does.
    first, stop : int
        First cycle, and last cycle + 1, that its engine counts for it.
    token, buffer, axi : int
        Of these, cycles in which the engine waits for tokens, is held up by the unified buffer, or
        by DRAM; the others are work.
    giver : int
        The engine whose token came last; -1 if it needs none.
    """

    __slots__ = (
        "axi",
        "buffer",
        "dispatch",
        "engine",
        "first",
        "giver",
        "ready",
        "start",
        "stop",
        "token",
    )

    def __init__(self, engine: int, dispatch: int) -> None:
        self.engine = engine
        self.dispatch = dispatch
        self.ready = self.start = self.first = self.stop = 0
        self.token = self.buffer = self.axi = 0
        self.giver = -1

    def count(self, before: int, stop: int) -> None:
        """Say when the engine began and ended to count for it; waits beyond that are not its own.

        Parameters
        ----------
        before : int
            Cycle in which it ended to count for the previous command.
        stop : int
            Last cycle + 1.
        """
        self.first = max(self.dispatch + DISPATCH, before)
        self.stop = stop
        self.token = max(0, self.start - max(self.first, self.ready))
        left = stop - self.first - self.token
        self.buffer = min(self.buffer, left)
        self.axi = min(self.axi, left - self.buffer)


NEVER = 1 << 60
"""The time of what is not known to happen."""

_ENGINES = len(Engine)
_FETCH = _ENGINES  # the event of command fetch; those before are the starts of the engines
# The engines that a mask names.
_MEMBERS = tuple(
    tuple(engine for engine in range(_ENGINES) if mask >> engine & 1)
    for mask in range(1 << _ENGINES)
)


class Head:
    """An engine's queue, whose first command starts as soon as engine and tokens allow.

    Attributes
    ----------
    free : int
        Cycle from which on the engine may start a command; NEVER while that is not known.
    """

    def __init__(self, machine: "Clockwork", engine: Engine) -> None:
        self.machine = machine
        self.engine = int(engine)
        self.queue: deque[tuple[dict[str, int], Record]] = deque()
        self.free = 0
        machine.handlers[engine] = self.start

    def push(self, fields: dict[str, int], record: Record) -> None:
        """Take a command that the dispatcher hands over."""
        self.queue.append((fields, record))
        if len(self.queue) == 1:
            self.schedule()

    def schedule(self) -> None:
        """Find out when the first command starts, if that can be known."""
        due = NEVER
        if self.queue and self.free != NEVER:
            fields, record = self.queue[0]
            due = self.earliest(record.dispatch + DISPATCH)
            for giver in _MEMBERS[fields["wait"]]:
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

    def start(self, time: int) -> None:
        """Start the first command of the queue."""
        raise NotImplementedError

    def pop(self, time: int) -> tuple[dict[str, int], Record]:
        """Take the first command out of the queue, and its tokens."""
        fields, record = head = self.queue.popleft()
        record.ready, record.start = self.earliest(record.dispatch + DISPATCH), time
        last = -1
        for giver in _MEMBERS[fields["wait"]]:
            given = self.machine.tokens[giver][self.engine].popleft()
            if given > last:
                last, record.giver = given, giver
            if self.machine.held[giver]:
                self.machine.release(giver, time)
        self.machine.due[self.engine] = NEVER
        return head


class Clockwork:
    """Run a program's commands through fetch, dispatch and the engines.

    Everything that happens is an event with a time; the earliest comes next. Engines register what
    they do, and say when it is due.

    Parameters
    ----------
    commands : sequence of Command
        The program with tokens, END last.

    Attributes
    ----------
    records : list of Record
        Commands dispatched so far.
    finish : int
        First cycle in which nothing is left to do, as far as that is known.
    due, handlers : list
        When each kind of event happens next, and what it calls with that time.
    fetch : callable
        Requests beats of commands in a cycle; :meth:`arrive` takes them.
    follow : callable
        Brings what is known of LOAD up to a cycle.
    reads, writes : Traffic
        What activations and results of the matrix unit ask of the buffer.
    sums : Traffic
        When sums of the matrix unit enter the lanes of the requantizer, as if these were one bank.
    odd : Traffic
        The odd vectors of pairs, which are read through the port of the weights.
    operands : tuple of Traffic
        What the first weights, and the records, of its commands ask of it.
    vectors : tuple of Traffic
        What the vector path reads at its ports A and B, as far as it reads a row a cycle.
    contend : callable
        Follows STORE up to a cycle, so that it wins where it has starved.
    lose : callable
        Tells the vector path that a port has won in a cycle, over requests in a phase.
    loads : Traffic
        What LOAD writes, if its pace is slow, so that faster ports run into it.
    tokens : list of list of deque of int
        By giver and taker: cycles from which on tokens can be taken.
    held : list of deque
        By giver: tokens that wait because a counter is full.
    """

    def __init__(self, commands: Sequence[Command], config: Config, memory: MemoryTiming) -> None:
        self.commands = commands
        self.config = config
        self.memory = memory
        self.records: list[Record] = []
        self.finish = 0
        self.due = [NEVER] * _ENGINES + [0]
        self.handlers: list[Callable[[int], None]] = [self._request] * (_ENGINES + 1)
        self.fetch: Callable[[int, int], None] = self.arrive
        self.follow: Callable[[int], None] = _ignore
        self.contend: Callable[[int], None] = _ignore
        self.lose: Callable[[int, int], None] = self.arrive
        self.reads, self.writes = Traffic(config.ub_banks), Traffic(config.ub_banks)
        self.sums = Traffic(1)
        self.odd = Traffic(config.ub_banks)
        self.operands = Traffic(config.ub_banks), Traffic(config.ub_banks)
        self.vectors = Traffic(config.ub_banks), Traffic(config.ub_banks)
        self.loads = Traffic(config.ub_banks)
        self.tokens: list[list[deque[int]]] = [[deque() for _ in Engine] for _ in Engine]
        self.held: list[deque[tuple[int, int]]] = [deque() for _ in Engine]
        self.heads: list[Head] = []
        # Queues: when commands left them, how many entered, and for which one the dispatcher waits.
        self._pops: list[list[int]] = [[] for _ in Engine]
        self._pushed = [0] * _ENGINES
        self._full = -1
        self._dispatching = False
        self._dispatched = -1  # when the last command was
        # Command fetch, in beats, and when each command has come.
        self._beats = len(commands) * COMMAND_BEATS
        self._space = fetch_buffer(config) * COMMAND_BEATS
        self._requested = 0
        self._last_request = 0
        self._arrivals: list[int] = []

    def event(self, handler: Callable[[int], None]) -> int:
        """Add a kind of event; return where in ``due`` its time is."""
        self.handlers.append(handler)
        self.due.append(NEVER)
        return len(self.handlers) - 1

    def run(self) -> int:
        """Run the program; return its cycles.

        ValueError if a command waits for a token that never comes.
        """
        due, handlers = self.due, self.handlers
        while (time := min(due)) != NEVER:
            handlers[due.index(time)](time)
        for engine, head in zip(Engine, self.heads, strict=True):
            if head.queue:
                index = self.records.index(head.queue[0][1])
                raise ValueError(f"Command {index} of {engine.name} waits for a token for ever")
        return self.finish + END

    def give(self, engine: int, signal: int, time: int) -> None:
        """Give tokens that can be taken from a cycle on; they wait while a counter is full."""
        tokens = self.tokens[engine]
        takers = _MEMBERS[signal]
        full = bool(self.held[engine])
        for taker in takers:
            full |= len(tokens[taker]) >= TOKEN_MAX
        if full:
            self.held[engine].append((signal, time))
            return
        if time > self.finish:
            self.finish = time
        for taker in takers:
            tokens[taker].append(time)
            if self.due[taker] == NEVER:
                self.heads[taker].schedule()

    def release(self, engine: int, time: int) -> None:
        """Give tokens that have waited, since others were taken in a cycle."""
        waiting, self.held[engine] = self.held[engine], deque()
        for signal, before in waiting:
            self.give(engine, signal, max(before, time + TOKEN_RETURN))

    def popped(self, engine: int, time: int) -> None:
        """Take note that a command has left a queue."""
        self._pops[engine].append(time)
        if self._full == engine:
            self._dispatch()

    def arrive(self, begin: int, beats: int, pace: int = 1) -> None:
        """Take a burst of commands whose first beat comes in a cycle, others at some pace."""
        begin += (COMMAND_BEATS - 1) * pace + 1 + COMMAND_CHECK
        self._arrivals.extend(range(begin, begin + beats * pace, COMMAND_BEATS * pace))
        self._dispatch()

    def _request(self, time: int) -> None:
        """Request a burst of commands."""
        burst = min(self._beats - self._requested, self.config.burst_beats)
        self._requested += burst
        self._last_request = time
        self.due[_FETCH] = NEVER
        self._ask()
        self.fetch(time, burst)

    def _ask(self) -> None:
        """Request the next burst as soon as enough commands have made room for it."""
        burst = min(self._beats - self._requested, self.config.burst_beats)
        gone = -(-(self._requested + burst - self._space) // COMMAND_BEATS)
        if burst and gone <= len(self.records) and self.due[_FETCH] == NEVER:
            room = self.records[gone - 1].dispatch if gone > 0 else 0
            self.due[_FETCH] = max(room, self._last_request) + FETCH_BURST

    def _dispatch(self) -> None:
        """Hand commands over in order, as far as they have come and the queues have room."""
        if self._dispatching:
            return
        self._dispatching = True
        self._full = -1
        records, arrivals = self.records, self._arrivals
        depth = self.config.queue_depth
        while len(records) < len(arrivals):
            command = self.commands[len(records)]
            time = max(self._dispatched + 1, arrivals[len(records)])
            engine = ENGINE_OF.get(command.opcode)
            if engine is None:
                records.append(Record(-1, time))
                self.finish = max(self.finish, time + 1)
                self._requested = self._beats
                arrivals.clear()
                break
            behind = self._pushed[engine] - depth
            if behind >= 0:
                if len(self._pops[engine]) <= behind:
                    self._full = engine
                    break
                time = max(time, self._pops[engine][behind] + 1)
            self._pushed[engine] += 1
            self._dispatched = time
            record = Record(engine, time)
            records.append(record)
            self.heads[engine].push(command.fields, record)
        if self._requested < self._beats:
            self._ask()
        self._dispatching = False


def _ignore(time: int) -> None:
    """Do nothing, where nothing is to be followed."""


class TransferHead(Head):
    """A queue whose first command goes to registers as soon as those are free."""

    def __init__(self, machine: Clockwork, engine: Engine) -> None:
        super().__init__(machine, engine)
        self._held = False  # the first command is in the registers
        self.stopped = 0  # end of the last command that has ended

    def earliest(self, offered: int) -> int:
        """Return when a command that is offered in a cycle starts, but for its tokens."""
        return max(offered, self.free) + DMA_COMMAND

    def schedule(self) -> None:
        """Let the first command leave the queue, and find out when it starts."""
        if self.queue and self.free != NEVER and not self._held:
            self._held = True
            offered = self.queue[0][1].dispatch + DISPATCH
            self.machine.popped(self.engine, max(offered, self.free))
        super().schedule()

    def pop(self, time: int) -> tuple[dict[str, int], Record]:
        """Start the first command, and take its tokens."""
        self._held = False
        return super().pop(time)

    def complete(self, record: Record, signal: int, last: int, token: int) -> None:
        """Take note of the last cycle of a command, and give its tokens so many cycles later."""
        stop = last + 1
        if signal:
            stop = last + token
            self.machine.give(self.engine, signal, stop)
        record.count(self.stopped, stop)
        self.stopped = stop
        self.machine.finish = max(self.machine.finish, stop)
