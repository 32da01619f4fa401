"""From the steps of all layers to a program: positions and tokens follow from indices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import TOKEN_MAX, Engine
from tpulite.compiler.bind.steps import CONSTANT, Indices, Needs, Step
from tpulite.compiler.bind.words import END_WORD, PREFETCH, SIGNAL, WAIT, Words

__all__ = ["Linked", "Uses", "link"]

_ENGINES = (int(Engine.MXU), int(Engine.VPU))

_FAR = 1 << 32
"""More vectors than any tensor has."""


@dataclass(frozen=True)
class Uses:
    """What a step has to do with the others.

    Parameters
    ----------
    operands : tuple of int
        The step that computes each input; -1: none does.
    rows : tuple of (int, int)
        Ranges of rows of the buffer that are written: tiles, and an output that stays.
    also : tuple of (int, int)
        Ranges that are only read.
    read_before : int
        The step that has read what was in the output's place in DRAM; -1: none has.
    """

    operands: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]
    also: tuple[tuple[int, int], ...]
    read_before: int = -1


@dataclass(frozen=True)
class Linked:
    """A program.

    Parameters
    ----------
    words : Words
        Commands with tokens, END last.
    positions : array of int
        Where the computations are in it, layer after layer.
    starts : array of int
        The first computation of each layer, and their number.
    """

    words: Words
    positions: Indices
    starts: Indices


def link(steps: Sequence[Step], uses: Sequence[Uses], *, lead: int) -> Linked:
    """Merge the steps of all layers into a program in a legal serial order, with tokens.

    An engine completes its commands in order. So what a command needs of an engine is one number,
    the latest command that must be complete; it waits exactly where the largest such number so far
    grows, and the command of that number gives the token. Every token is thus taken in the order in
    which it was given. Between layers that number follows from how far into a tensor each command
    writes and reads, and from which layers had the same rows of the buffer before.

    Parameters
    ----------
    steps : sequence of Step
        The layers in order.
    uses : sequence of Uses
        What each has to do with the others.
    lead : int
        LOADs that may be ahead of the computations in the program. Dispatch is in order, so the
        queue of LOADs must be able to take them.
    """
    return _Linker(steps, uses).run(lead)


class _Linker:
    """Numbers of commands run through the program, engine by engine."""

    def __init__(self, steps: Sequence[Step], uses: Sequence[Uses]) -> None:
        self._steps, self._uses = steps, uses
        counts = np.array([step.computes.words.shape[1] for step in steps])
        engines = np.array([int(step.computes.engine) for step in steps])
        self._starts = np.append(0, np.cumsum(counts))
        stores = np.array([len(step.stores.after) for step in steps])
        self._store_starts = np.append(0, np.cumsum(stores))
        self._engine = np.repeat(engines, counts)
        # Of each engine: its computations in order, and how many of them are before each step.
        self._members = {e: np.flatnonzero(self._engine == e) for e in _ENGINES}
        self._before = {
            e: np.append(0, np.cumsum(np.where(engines == e, counts, 0))).tolist() for e in _ENGINES
        }
        self._written = [_Written(step) for step in steps]

    def run(self, lead: int) -> Linked:
        self._collect_loads()
        self._collect_computes()
        self._after = np.concatenate(
            [
                s.stores.after + start
                for s, start in zip(self._steps, self._starts.tolist(), strict=False)
            ]
        )
        self._store_words = np.concatenate([s.stores.words for s in self._steps], axis=1)
        return self._merge(lead, self._find_tokens())

    def _collect_loads(self) -> None:
        words, due, first, counts = [], [], [], []
        needs: dict[int, list[np.ndarray]] = {e: [] for e in (*_ENGINES, Engine.STORE)}
        for number, (step, uses) in enumerate(zip(self._steps, self._uses, strict=True)):
            start = int(self._starts[number])
            base = self._earlier(number, uses.rows[:1])
            counts.append(sum(len(loads.due) for loads in step.loads))
            for loads in step.loads:
                count = len(loads.due)
                words.append(loads.words)
                due.append(loads.due + start)
                first.append(loads.first + start)
                mine: dict[int, int | np.ndarray] = dict(base)
                freer = Engine.STORE if step.freed_by_store else step.computes.engine
                shift = (
                    self._store_starts[number]
                    if step.freed_by_store
                    else self._before[freer][number]
                )
                own = np.where(loads.freed >= 0, loads.freed + shift, -1)
                mine[freer] = np.maximum(own, mine[freer])
                if loads.operand != CONSTANT and loads.needs is not None:
                    producer = uses.operands[loads.operand]
                    if producer >= 0:
                        need = self._written[producer].latest(loads.needs)
                        need = need + self._store_starts[producer]
                        mine[Engine.STORE] = np.maximum(mine[Engine.STORE], need)
                for e, value in mine.items():
                    needs[e].append(np.broadcast_to(value, count))
        self._due = np.concatenate(due)
        order = np.argsort(self._due, kind="stable")
        self._due, self._first = self._due[order], np.concatenate(first)[order]
        self._load_words = np.concatenate(words, axis=1)[:, order]
        self._load_needs = {e: np.concatenate(needs[e])[order] for e in needs}
        # Where LOADs are now, in the order of steps.
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._load_ends = np.cumsum(counts)

    def _collect_computes(self) -> None:
        sources = (*_ENGINES, Engine.STORE)
        needs: dict[int, list[np.ndarray]] = {e: [] for e in sources}
        early, loaded = [], 0
        for number, (step, uses) in enumerate(zip(self._steps, self._uses, strict=True)):
            computes = step.computes
            count = computes.words.shape[1]
            mine: dict[int, int | np.ndarray] = dict(self._earlier(number, uses.rows))
            mine[computes.engine] = -1  # an engine's writes follow its own reads and writes
            if computes.freed is not None:
                own = np.where(computes.freed >= 0, computes.freed + self._store_starts[number], -1)
                mine[Engine.STORE] = np.maximum(own, mine[Engine.STORE])
            for operand, needed in computes.reads.items():
                producer = uses.operands[operand]
                engine = self._steps[producer].computes.engine
                need = self._written[producer].latest(needed) + self._before[engine][producer]
                mine[engine] = np.maximum(mine[engine], need)
            for e, value in mine.items():
                needs[e].append(np.broadcast_to(value, count))
            if computes.early is None:
                early.append(np.full(count, len(self._due)))
            else:
                early.append(self._place[computes.early + loaded])
            loaded += sum(len(loads.due) for loads in step.loads)
        self._words = np.concatenate([s.computes.words for s in self._steps], axis=1)
        self._needs = {e: np.concatenate(needs[e]) for e in sources}
        self._early = np.concatenate(early)

    def _earlier(self, number: int, rows: tuple[tuple[int, int], ...]) -> dict[int, int]:
        """Return the latest commands of earlier steps that have to do with some rows."""
        latest = {int(e): -1 for e in (*_ENGINES, Engine.STORE)}
        missing = set(latest)
        for other in range(number - 1, -1, -1):
            uses = self._uses[other]
            if not any(
                low < high_too and low_too < high
                for low, high in rows
                for low_too, high_too in (*uses.rows, *uses.also)
            ):
                continue
            engine = int(self._steps[other].computes.engine)
            if engine in missing:
                latest[engine] = self._before[Engine(engine)][other + 1] - 1
                missing.discard(engine)
            if Engine.STORE in missing and len(self._steps[other].stores.after):
                latest[Engine.STORE] = int(self._store_starts[other + 1]) - 1
                missing.discard(Engine.STORE)
            if not missing:
                break
        return latest

    def _find_tokens(self) -> list["_Tokens"]:
        """Turn needs into tokens: who gives them to whom."""
        tokens, total = [], self._words.shape[1]
        # What LOADs need; ``behind`` is the computation that each must follow in the program.
        behind = np.full(len(self._due), -1)
        for e, need in self._load_needs.items():
            position = self._after if e == Engine.STORE else self._members[e]
            needed, waits = _growth(need)
            if waits.any():
                tokens.append(_Tokens(e, Engine.LOAD, needed[waits], np.flatnonzero(waits)))
                behind = np.maximum(behind, np.where(needed >= 0, position[needed], -1))
        self._behind = behind
        # What computations need.
        latest = np.full(total, -1)
        latest[self._first] = np.arange(len(self._due))
        for engine in _ENGINES:
            mine = self._members[engine]
            if not len(mine):
                continue
            arrived, waits = _growth(latest[mine])
            tokens.append(_Tokens(Engine.LOAD, engine, arrived[waits], np.flatnonzero(waits)))
            if engine == Engine.MXU:
                there = self._early[mine[1:]] <= arrived[:-1]
                self._words[0, mine[1:]] |= there.astype(np.int64) << PREFETCH
            for e, need in self._needs.items():
                needed, waits = _growth(need[mine])
                if waits.any():
                    tokens.append(_Tokens(e, engine, needed[waits], np.flatnonzero(waits)))
        # What STOREs need: each of one computation, and what they overwrite has been read.
        for engine in _ENGINES:
            stores = np.flatnonzero(self._engine[self._after] == engine)
            if len(stores):
                givers = np.searchsorted(self._members[engine], self._after[stores])
                tokens.append(_Tokens(engine, Engine.STORE, givers, stores))
        need = np.full(len(self._after), -1)
        for number, uses in enumerate(self._uses):
            if uses.read_before >= 0:
                mine = slice(self._store_starts[number], self._store_starts[number + 1])
                need[mine] = self._load_ends[uses.read_before] - 1
        needed, waits = _growth(need)
        if waits.any():
            tokens.append(_Tokens(Engine.LOAD, Engine.STORE, needed[waits], np.flatnonzero(waits)))
        return tokens

    def _merge(self, lead: int, tokens: Sequence["_Tokens"]) -> Linked:
        """Order all commands, and write tokens into them."""
        behind, count, total = self._behind, len(self._due), self._words.shape[1]
        if count > lead:
            behind = behind.copy()
            behind[lead:] = np.maximum(behind[lead:], self._due[:-lead] - 1)
        behind = np.maximum.accumulate(behind)
        keys = np.concatenate([4 * behind + 4, 4 * np.arange(total) + 2, 4 * self._after + 3])
        merged = np.argsort(keys, kind="stable")
        words = np.concatenate([self._load_words, self._words, self._store_words], axis=1)
        words = words[:, merged]
        place = np.empty(len(merged), np.int64)
        place[merged] = np.arange(len(merged))
        places = {e: place[count + self._members[e]] for e in _ENGINES}
        places |= {Engine.LOAD: place[:count], Engine.STORE: place[count + total :]}
        for pair in tokens:
            givers, takers = pair.placed(places)
            words[0, givers] |= 1 << pair.taker << SIGNAL
            words[0, takers] |= 1 << pair.giver << WAIT
        words = np.concatenate([words, END_WORD], axis=1)
        return Linked(words, place[count : count + total], self._starts)


@dataclass(frozen=True)
class _Tokens:
    """Tokens from one engine to another.

    Parameters
    ----------
    giver, taker : int
        The engines.
    given, taken : array of int
        The commands of both, in the order of the tokens.
    """

    giver: int
    taker: int
    given: Indices
    taken: Indices

    def placed(self, places: Mapping[int, Indices]) -> tuple[Indices, Indices]:
        """Return where the commands are that give and take, so that no counter overflows.

        Where a counter would be full, the taker of the latest token waits for what the next one
        stands for, too.
        """
        givers, takers = places[self.giver][self.given], places[self.taker][self.taken]
        room = TOKEN_MAX - 1
        if len(givers) <= room or (takers[:-room] < givers[room:]).all():
            return givers, takers
        kept: list[tuple[int, int]] = []
        for giver, taker in zip(givers.tolist(), takers.tolist(), strict=True):
            if len(kept) >= room and kept[-room][1] > giver:
                kept[-1] = giver, kept[-1][1]
            else:
                kept.append((giver, taker))
        pairs = np.array(kept)
        return pairs[:, 0], pairs[:, 1]


class _Written:
    """How far commands of a step have written its output."""

    def __init__(self, step: Step) -> None:
        self._begins, self._blocks = step.begins, step.blocks
        self._all: tuple[Indices, Indices] | None = None
        self._each: tuple[Indices, Indices] | None = None

    def latest(self, needs: Needs) -> Indices:
        """Return the latest command that writes what is needed."""
        if needs.blocks is not None and self._blocks is not None:
            if self._each is None:
                self._each = _sort(self._blocks * _FAR + self._begins)
            keys, latest = self._each
            return latest[np.searchsorted(keys, needs.blocks * _FAR + needs.stop) - 1]
        if self._all is None:
            keys, order = _sort(self._begins)
            self._all = keys, np.maximum.accumulate(order)
        keys, latest = self._all
        return latest[np.searchsorted(keys, needs.stop) - 1]


def _sort(keys: Indices) -> tuple[Indices, Indices]:
    """Return keys in order, and the numbers that they had."""
    if len(keys) < 2 or (keys[1:] >= keys[:-1]).all():
        return keys, np.arange(len(keys))
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _growth(needs: Indices) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the largest need so far, and where it grows."""
    needed = np.maximum.accumulate(needs)
    grows = np.empty(len(needed), bool)
    grows[:1] = needed[:1] >= 0
    np.greater(needed[1:], needed[:-1], out=grows[1:])
    return needed, grows
