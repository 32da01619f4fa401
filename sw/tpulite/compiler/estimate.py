"""An estimate of the cycles of a program, by which the compiler chooses among plans."""

from collections import defaultdict, deque

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode
from tpulite.arch.memory import REFERENCE_MEMORY

__all__ = ["estimate_cycles"]

_FETCH = REFERENCE_MEMORY.read_latency + 5  # from start to the first command
_COMMAND_BEATS = 2
_START = 3  # from a token or dispatch to the start
_LOAD = REFERENCE_MEMORY.read_latency + 4  # from the start of a LOAD to its first row
_LOADED = 3  # from the last row to the token
_STORE = 10  # from the start of a STORE to its first beat
_STORED = REFERENCE_MEMORY.write_response
_WEIGHTS = 6  # beyond the rows of a tile: from the start to the first vector
_DRAIN = 13  # beyond 2 N: from a vector to its visible result
_END = 5


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
        self._burst = config.burst_beats * config.dma_bursts

    def run(self, commands: tuple[Command, ...]) -> int:
        dispatch = 0
        for index, command in enumerate(commands):
            dispatch = max(dispatch + 1, _FETCH + _COMMAND_BEATS * index)
            engine = command.engine
            if engine is None:
                break
            self._read_free += _COMMAND_BEATS
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

    def _execute(self, command: Command, start: int) -> int:
        """Return when a command that starts at ``start`` completes."""
        match command.opcode:
            case Opcode.LOAD:
                return self._load(command, start)
            case Opcode.STORE:
                self._write_free = max(start + _STORE, self._write_free) + self._transfer(command)
                return self._write_free + _STORED
            case Opcode.MATMUL:
                return self._matmul(command, start)
        return start + command["lines"] * command["rows"] + _LOADED

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
        return self._read_free + _LOADED

    def _matmul(self, command: Command, start: int) -> int:
        config = self._config
        size, m = config.array_size, command["m"]
        weights_from = start
        if command["prefetch"]:
            weights_from = self._starts[Engine.MXU][-1]
        issue = max(start, self._issue_free, weights_from + size + _WEIGHTS)
        vectors = m
        if command["drain"] == Drain.RAW:
            vectors = 4 * m
        elif command["drain"] == Drain.REQUANTIZE:
            vectors = m * size // config.lanes
        last = issue + (command["k_tiles"] - 1) * max(m, size)
        self._issue_free = last + max(vectors, size)
        return last + vectors + 2 * size + _DRAIN
