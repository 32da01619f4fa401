"""Tokens: the fewest waits that order every conflict."""

from collections import defaultdict

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import TOKEN_MAX, Command, Engine, Opcode
from tpulite.compiler.accesses import Accesses, Ranges, accesses

__all__ = ["insert_tokens"]

_NEVER = -1
_Knowledge = tuple[int, ...]  # for each engine, its latest command that is known to be complete


class _History:
    """Latest reader and writer of every row, or of every beat, by engine."""

    def __init__(self, size: int) -> None:
        self._writers = np.full((len(Engine), size), _NEVER, np.int32)
        self._readers = np.full((len(Engine), size), _NEVER, np.int32)

    def read(self, index: int, engine: Engine, ranges: Ranges) -> list[int]:
        """Note a read; return for each engine the latest command that must be complete."""
        latest = [_NEVER] * len(Engine)
        for rows in ranges:
            rows = slice(rows.start, rows.stop)
            self._readers[engine, rows] = index
            latest = list(map(max, latest, self._writers[:, rows].max(axis=1).tolist()))
        return latest

    def write(self, index: int, engine: Engine, ranges: Ranges) -> list[int]:
        """Note a write; return for each engine the latest command that must be complete."""
        latest = [_NEVER] * len(Engine)
        for rows in ranges:
            rows = slice(rows.start, rows.stop)
            for users in (self._writers, self._readers):
                latest = list(map(max, latest, users[:, rows].max(axis=1).tolist()))
            self._writers[engine, rows] = index
        # An engine's writes follow its own earlier reads and writes.
        latest[engine] = _NEVER
        return latest


def insert_tokens(commands: tuple[Command, ...], config: Config) -> tuple[Command, ...]:
    """Fill in ``wait``, ``signal`` and ``prefetch`` of a program in its serial order.

    A command must wait for the latest conflicting command of each engine, unless it is known to
    be complete: by an earlier wait of the same engine, or because another command waited for is
    known to have started after it. Tokens of a pair of engines are taken in the order in which
    they are given, because what an engine knows only grows.

    Parameters
    ----------
    commands : tuple of Command
        Program without tokens, END last.
    config : Config
        The machine.

    Returns
    -------
    tuple of Command
        The same commands with tokens, none of which is implied by the others.
    """
    return _Inserter(commands, config).run()


class _Inserter:
    def __init__(self, commands: tuple[Command, ...], config: Config) -> None:
        self._commands = commands
        self._accesses = [accesses(command, config) for command in commands]
        self._rows = _History(config.ub_rows)
        self._beats = _dram_histories(self._accesses)
        self._waits = [0] * len(commands)
        self._signals = [0] * len(commands)
        # At the start of each command, and at the start of the latest one of each engine.
        self._known: list[_Knowledge] = []
        self._engine_known: list[_Knowledge] = [(_NEVER,) * len(Engine)] * len(Engine)
        self._positions: dict[Engine, list[int]] = defaultdict(list)
        # The commands that take the tokens of each pair, in order.
        self._takers: dict[tuple[int, int], list[int]] = defaultdict(list)

    def run(self) -> tuple[Command, ...]:
        result = []
        for index, command in enumerate(self._commands):
            if (engine := command.engine) is None:
                self._known.append((_NEVER,) * len(Engine))
                continue
            prefetch = self._visit(index, command, engine)
            if command.opcode == Opcode.CONV:
                command = Command(command.opcode, command.fields | {"prefetch": int(prefetch)})
            result.append(command)
        # Signals are known only when the last command has been visited.
        tokens = zip(result, self._waits, self._signals, strict=False)
        return (
            *(
                Command(command.opcode, command.fields | {"wait": wait, "signal": signal})
                for command, wait, signal in tokens
            ),
            *self._commands[len(result) :],
        )

    def _visit(self, index: int, command: Command, engine: Engine) -> bool:
        """Order one command after its conflicts; return whether it may prefetch."""
        access = self._accesses[index]
        before = self._engine_known[engine]
        early = self._rows.read(index, engine, access.early)
        first = not self._positions[engine]
        prefetch = bool(access.early) and not first and all(map(int.__le__, early, before))

        needs = list(map(max, early, self._rows.read(index, engine, access.reads)))
        needs = list(map(max, needs, self._rows.write(index, engine, access.writes)))
        if (history := self._beats.get(access.window)) is not None:
            needs = list(map(max, needs, history.read(index, engine, access.dram_reads)))
            needs = list(map(max, needs, history.write(index, engine, access.dram_writes)))

        # What a producer knew at its start, whoever waits for its completion knows too.
        missing = {e: need for e, need in enumerate(needs) if need > before[e]}
        known = before
        for e, need in missing.items():
            implied = any(self._known[other][e] >= need for o, other in missing.items() if o != e)
            if not implied:
                giver = self._giver(Engine(e), engine, need)
                self._waits[index] |= 1 << e
                self._signals[giver] |= 1 << engine
                self._takers[e, engine].append(index)
                known = tuple(map(max, known, self._known[giver]))
                known = tuple(max(k, giver) if i == e else k for i, k in enumerate(known))
        self._known.append(known)
        self._engine_known[engine] = known
        self._positions[engine].append(index)
        return prefetch

    def _giver(self, source: Engine, taker: Engine, need: int) -> int:
        """Return the command that gives the token: ``need``, or later if the counter is full."""
        takers = self._takers[source, taker]
        # The last place of a counter is kept for the case that nothing later has room: what is
        # given after all that was dispatched covers every need until then.
        room = TOKEN_MAX - 1
        if len(takers) < room or takers[-room] < need:
            return need
        later = [i for i in self._positions[source] if i > max(need, takers[-room])]
        return later[0] if later else self._positions[source][-1]


def _dram_histories(all_accesses: list[Accesses]) -> dict[int, _History]:
    """Return a history for each window that is both read and written."""
    read = {a.window for a in all_accesses if a.dram_reads}
    written = {a.window for a in all_accesses if a.dram_writes}
    return {
        window: _History(
            max(
                ranges[-1].stop
                for a in all_accesses
                if a.window == window
                for ranges in (a.dram_reads, a.dram_writes)
                if ranges
            )
        )
        for window in read & written
    }
