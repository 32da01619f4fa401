"""Tokens: the fewest waits that order every conflict."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import TOKEN_MAX, Command, Engine, Opcode
from tpulite.golden.effects.extents import Toucher
from tpulite.golden.effects.grids import Place, view

_NEVER = -1
_ENGINES = len(Engine)
_Knowledge = tuple[int, ...]  # for each engine, its latest command that is known to be complete


class _History:
    """Latest reader and writer of every row, or of every beat, by engine."""

    def __init__(self, size: int) -> None:
        # The writers of all engines, then the readers.
        self._latest = np.full((2 * _ENGINES, size), _NEVER, np.int32)

    def read(self, index: int, engine: int, places: Sequence[Place], needs: list[int]) -> None:
        """Note a read; raise ``needs``, for each engine the command that must be complete."""
        for rows in self._at(places):
            writers = np.maximum.reduce(rows[:_ENGINES], axis=_AXES[rows.ndim]).tolist()
            for e, writer in enumerate(writers):
                if writer > needs[e]:
                    needs[e] = writer
            rows[_ENGINES + engine] = index

    def write(self, index: int, engine: int, places: Sequence[Place], needs: list[int]) -> None:
        """Note a write; raise ``needs``, for each engine the command that must be complete."""
        for rows in self._at(places):
            users = np.maximum.reduce(rows, axis=_AXES[rows.ndim]).tolist()
            for e, user in enumerate(users):
                # An engine's writes follow its own earlier reads and writes.
                if user > needs[e % _ENGINES] and e % _ENGINES != engine:
                    needs[e % _ENGINES] = user
            rows[engine] = index

    def forget(self, rows: range) -> None:
        """Forget all that used some rows."""
        self._latest[:, rows.start : rows.stop] = _NEVER

    def _at(self, places: Sequence[Place]) -> Iterator[np.ndarray]:
        """Cut grids out; one run is the common case."""
        for place in places:
            start, grid = place
            if grid.counts:
                yield view(self._latest, place)
            else:
                yield self._latest[:, start : start + grid.size]


_AXES = [(), (), 1, *(tuple(range(1, ndim)) for ndim in range(3, 12))]


def insert_tokens(
    commands: tuple[Command, ...],
    config: Config,
    *,
    prefetch: bool = True,
    fresh: Mapping[int, Iterable[range]] = MappingProxyType({}),
) -> tuple[Command, ...]:
    """Fill in ``wait``, ``signal`` and ``prefetch`` of a program in its serial order.

    A command must wait for the latest conflicting command of each engine, unless it is known to
    be complete: by an earlier wait of the same engine, or because another command waited for is
    known to have started after it. Tokens of a pair of engines are taken in the order in which
    they are given, because what an engine knows only grows.

    Parameters
    ----------
    commands : tuple of Command
        Program without tokens, END last.
    prefetch : bool
        Whether loads, and weights of the array, may go ahead of what is computed. If not, they wait
        for all that comes before them.
    fresh : mapping of int to iterable of range
        For indices of commands, rows of which they do not wait for earlier users: to predict what
        waiting for these costs. Such a program computes nothing that makes sense.

    Returns
    -------
    tuple of Command
        The same commands with tokens, none of which is implied by the others.
    """
    return _Inserter(commands, config, prefetch, fresh).run()


class _Inserter:
    def __init__(
        self,
        commands: tuple[Command, ...],
        config: Config,
        prefetch: bool,
        fresh: Mapping[int, Iterable[range]],
    ) -> None:
        self._commands, self._prefetch, self._fresh = commands, prefetch, fresh
        self._toucher = Toucher(config)
        self._rows = _History(config.ub_rows)
        self._beats = _dram_histories(commands, self._toucher)
        self._waits = [0] * len(commands)
        self._signals = [0] * len(commands)
        # At the start of each command, and at the start of the latest one of each engine.
        self._known: list[_Knowledge] = []
        self._engine_known: list[_Knowledge] = [(_NEVER,) * _ENGINES] * _ENGINES
        self._positions: list[list[int]] = [[] for _ in Engine]
        # The commands that take the tokens of each pair, in order.
        self._takers: dict[tuple[int, int], list[int]] = defaultdict(list)

    def run(self) -> tuple[Command, ...]:
        fields: list[dict[str, int]] = []
        for index, command in enumerate(self._commands):
            if (engine := command.engine) is None:
                break  # END is last
            prefetch = self._visit(index, int(engine))
            again = {"prefetch": int(prefetch)} if command.opcode == Opcode.CONV else {}
            fields.append(command.fields | again)
        # Signals are known only when the last command has been visited.
        result = []
        for index, values in enumerate(fields):
            values["wait"], values["signal"] = self._waits[index], self._signals[index]
            result.append(Command(self._commands[index].opcode, values))
        return (*result, *self._commands[len(result) :])

    def _visit(self, index: int, engine: int) -> bool:
        """Order one command after its conflicts; return whether it may prefetch."""
        command = self._commands[index]
        touched = self._toucher.touched(command)
        before = self._engine_known[engine]
        needs = [_NEVER] * _ENGINES
        prefetch = False
        for rows in self._fresh.get(index, ()):
            self._rows.forget(rows)
        self._rows.read(index, engine, touched.early_reads, needs)
        if command.opcode == Opcode.CONV:
            prefetch = bool(self._positions[engine]) and all(map(int.__le__, needs, before))
        self._rows.read(index, engine, touched.reads, needs)
        self._rows.write(index, engine, touched.writes, needs)
        if touched.beats and (history := self._beats.get(command["window"])) is not None:
            note = history.read if command.opcode == Opcode.LOAD else history.write
            note(index, engine, touched.beats, needs)
        if not self._prefetch:
            prefetch = False
            if engine == Engine.LOAD:
                for e in (Engine.MXU, Engine.VPU):
                    needs[e] = max([needs[e], *self._positions[e][-1:]])

        # What a producer knew at its start, whoever waits for its completion knows too.
        missing = {e: need for e, need in enumerate(needs) if need > before[e]}
        known = before
        for e, need in missing.items():
            implied = any(self._known[other][e] >= need for o, other in missing.items() if o != e)
            if not implied:
                giver = self._giver(e, engine, need)
                self._waits[index] |= 1 << e
                self._signals[giver] |= 1 << engine
                self._takers[e, engine].append(index)
                heard = list(map(max, known, self._known[giver]))
                heard[e] = max(heard[e], giver)
                known = tuple(heard)
        self._known.append(known)
        self._engine_known[engine] = known
        self._positions[engine].append(index)
        return prefetch

    def _giver(self, source: int, taker: int, need: int) -> int:
        """Return the command that gives the token: ``need``, or later if the counter is full."""
        takers = self._takers[source, taker]
        # The last place of a counter is kept for the case that nothing later has room: what is
        # given after all that was dispatched covers every need until then.
        room = TOKEN_MAX - 1
        if len(takers) < room or takers[-room] < need:
            return need
        positions = self._positions[source]
        later = bisect_right(positions, max(need, takers[-room]))
        return positions[min(later, len(positions) - 1)]


def _dram_histories(commands: Sequence[Command], toucher: Toucher) -> dict[int, _History]:
    """Return a history for each window that is both read and written."""
    transfers = [c for c in commands if c.opcode in (Opcode.LOAD, Opcode.STORE)]
    read, written = (
        {c["window"] for c in transfers if c.opcode == opcode}
        for opcode in (Opcode.LOAD, Opcode.STORE)
    )
    sizes = dict.fromkeys(read & written, 0)
    for command in transfers:
        if (window := command["window"]) in sizes:
            for start, grid in toucher.touched(command).beats:
                sizes[window] = max(sizes[window], start + grid.extent)
    return {window: _History(size) for window, size in sizes.items()}
