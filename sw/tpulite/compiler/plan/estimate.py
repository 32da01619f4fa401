"""A fast estimate of the cycles of a program, by which the compiler chooses among plans.

A search asks it thousands of times, so it leaves out what :mod:`tpulite.golden.timing` follows:
conflicts in the unified buffer, and single beats.
"""

from collections import defaultdict, deque

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode, VectorOp
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.arch.timing import conv_stream

__all__ = ["estimate_cycles"]

_COMMAND_BEATS = COMMAND_BYTES // BEAT_BYTES
_FETCH = REFERENCE_MEMORY.read_latency  # from a request to the first beat of a command
_FETCHED = 16  # commands that the fetch buffer holds, if bursts are not longer
_START = 1  # from a token or dispatch to the start
_LOAD = REFERENCE_MEMORY.read_latency + 3  # from the start of a LOAD to its first row
_STORE = 5  # from the start of a STORE to its first beat
_STORED = REFERENCE_MEMORY.write_response
_WEIGHTS = 3  # beyond the rows of a tile: from the start to the first vector
_DRAIN = 11  # beyond 2 N: from the last vector to its visible result
_END = 2
_VECTOR = 16  # of a VECTOR, beside its vectors and parameters
_PARAMETERS = {VectorOp.COPY: 0, VectorOp.MAX: 0, VectorOp.AFFINE: 16, VectorOp.LUT: 16}


def estimate_cycles(commands: tuple[Command, ...], config: Config) -> int:
    """Estimate the cycles from start to interrupt with the reference memory.

    Engines, queues, tokens and both DRAM channels are followed command by command; conflicts in
    the unified buffer are not.

    Parameters
    ----------
    commands : tuple of Command
        Program with tokens.
    config : Config
        The machine.
    """
    return _Estimate(config).run(commands)


class _Estimate:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._tokens: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self._starts: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        self._read_free = self._write_free = self._issue_free = 0
        self._complete = dict.fromkeys(Engine, 0)

    def run(self, commands: tuple[Command, ...]) -> int:
        burst = self._config.burst_beats // _COMMAND_BEATS
        ahead = max(_FETCHED, self._config.burst_beats)
        arrivals = deque(self._fetch(0) for _ in range(0, ahead, burst))
        arrival = dispatch = 0
        for index, command in enumerate(commands):
            if index % burst == 0:
                arrival = arrivals.popleft()
            arrival += _COMMAND_BEATS
            dispatch = max(dispatch + 1, arrival)
            if index % burst == burst - 1 and index + ahead < len(commands) + burst:
                arrivals.append(self._fetch(dispatch))
            engine = command.engine
            if engine is None:
                break
            starts = self._starts[engine]
            if len(starts) > self._config.queue_depth:
                dispatch = max(dispatch, starts[-self._config.queue_depth - 1])
            ready = dispatch
            for giver in Engine:
                if command["wait"] >> giver & 1:
                    ready = max(ready, self._tokens[giver, engine].popleft())
            start = max(ready + _START, starts[-1] + 1 if starts else 0)
            done = self._execute(command, start)
            starts.append(start)
            self._complete[engine] = done = max(done, self._complete[engine])
            for taker in Engine:
                if command["signal"] >> taker & 1:
                    self._tokens[engine, taker].append(done)
        return max(dispatch, *self._complete.values()) + _END

    def _fetch(self, request: int) -> int:
        """Request a burst of commands; return when it begins to arrive."""
        config = self._config
        # Behind what LOAD has requested, but that is never more than it may have outstanding.
        outstanding = config.burst_beats * config.dma_bursts
        arrival = max(request + _FETCH, min(self._read_free, request + _FETCH + outstanding))
        self._read_free = max(self._read_free, arrival) + config.burst_beats
        return arrival

    def _execute(self, command: Command, start: int) -> int:
        """Return when a command that starts at ``start`` completes."""
        match command.opcode:
            case Opcode.LOAD:
                return self._load(command, start)
            case Opcode.STORE:
                self._write_free = max(start + _STORE, self._write_free) + self._transfer(command)
                return self._write_free + _STORED
            case Opcode.CONV:
                return self._conv(command, start)
            case _:
                return self._vector(command, start)

    def _transfer(self, command: Command) -> int:
        """Return the cycles in which a transfer occupies its channel."""
        config = self._config
        beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
        bursts = -(-beats // config.burst_beats)
        # Short bursts are limited by how many may be outstanding.
        waits = bursts * _LOAD // config.dma_bursts if command.opcode == Opcode.LOAD else 0
        return command["lines"] * max(command["rows"], beats, waits)

    def _load(self, command: Command, start: int) -> int:
        self._read_free = max(start + _LOAD, self._read_free) + self._transfer(command)
        return self._read_free

    def _vector(self, command: Command, start: int) -> int:
        operation = VectorOp(command["operation"])
        cycles = command["rows"] * command["columns"]
        if operation in (VectorOp.MAX, VectorOp.SUM):
            cycles *= command["window_rows"] * command["window_columns"]
        elif operation != VectorOp.COPY:
            cycles *= self._config.vector_cycles
        return start + _PARAMETERS.get(operation, 2) + cycles + _VECTOR

    def _conv(self, command: Command, start: int) -> int:
        config = self._config
        size, m = config.array_size, command["rows"] * command["columns"]
        k_tiles, _, stream, _ = conv_stream(command.fields)
        weights_from = start
        if command["prefetch"]:
            weights_from = self._starts[Engine.MXU][-1]
        issue = max(start, self._issue_free, weights_from + size + _WEIGHTS)
        vectors = m
        if command["drain"] == Drain.RAW:
            vectors = 4 * m
        elif command["drain"] == Drain.REQUANTIZE:
            vectors = m * size // config.lanes
        last = issue + (k_tiles - 1) * max(stream, size)
        self._issue_free = last + max(vectors, stream, size)
        return last + max(vectors, stream) + 2 * size + _DRAIN
