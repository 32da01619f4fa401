"""From the steps of all layers to a program: positions and tokens follow from indices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import TOKEN_MAX, Engine
from tpulite.compiler.operators.words import (
    END_WORD,
    PREFETCH,
    SIGNAL,
    WAIT,
    Indices,
    Maker,
    Needs,
    Step,
    Words,
    encode,
)
from tpulite.compiler.plan.segments import FAR


@dataclass(frozen=True)
class Tokens:
    """Tokens from one engine to another."""

    #: The engines.
    giver: int
    taker: int
    #: The commands of both, in the order of the tokens.
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


class Written:
    """How far commands of a step have written its output."""

    def __init__(self, step: Step) -> None:
        self._begins, self._blocks = step.begins, step.blocks
        self._all: tuple[Indices, Indices] | None = None
        self._each: tuple[Indices, Indices] | None = None

    def latest(self, needs: Needs) -> Indices:
        """Return the latest command that writes what is needed."""
        if needs.blocks is not None and self._blocks is not None:
            if self._each is None:
                self._each = _sort(self._blocks * FAR + self._begins)
            keys, latest = self._each
            return latest[np.searchsorted(keys, needs.blocks * FAR + needs.stop) - 1]
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


def growth(needs: Indices) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the largest need so far, and where it grows."""
    needed = np.maximum.accumulate(needs)
    grows = np.empty(len(needed), bool)
    grows[:1] = needed[:1] >= 0
    np.greater(needed[1:], needed[:-1], out=grows[1:])
    return needed, grows


_ENGINES = (int(Engine.MXU), int(Engine.VPU))


class Uses(NamedTuple):
    """What a step has to do with the others."""

    operands: tuple[tuple[Maker, ...], ...]  #: The steps that compute each input.
    #: Ranges of rows of the buffer that are written: tiles, and an output that stays.
    rows: tuple[tuple[int, int], ...]
    also: tuple[tuple[int, int], ...]  #: Ranges that are only read.
    #: The step that has read what was in the output's place in DRAM; -1: none has.
    read_before: int = -1
    #: What the fields of its commands are counted from, by number of :class:`Origin`.
    origins: tuple[int, ...] = ()


class Linked(NamedTuple):
    """A program."""

    words: Words  #: Commands with tokens, END last.
    positions: Indices  #: Where the computations are in it, layer after layer.
    starts: Indices  #: The first computation of each layer, and their number.
    transfers: Indices  #: Where LOADs and STOREs are in it, layer after layer.
    transfer_starts: Indices  #: The first LOAD or STORE of each layer, and their number.

    def layers(self, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield computations and transfers of each of so many layers, all images together."""
        ends = (
            (self.positions, self.starts.tolist()),
            (self.transfers, self.transfer_starts.tolist()),
        )
        for layer in range(count):
            steps = range(layer, len(self.starts) - 1, count)
            yield tuple(
                tuple(i for step in steps for i in where[starts[step] : starts[step + 1]].tolist())
                for where, starts in ends
            )


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
        self._origins = [each.origins for each in uses]
        counts = np.array([step.computes.words.count for step in steps])
        engines = np.array([int(step.computes.engine) for step in steps])
        self._starts = np.append(0, np.cumsum(counts))
        stores = np.array([len(step.stores.after) for step in steps])
        self._store_starts = np.append(0, np.cumsum(stores))
        self._engine = np.repeat(engines, counts)
        # Of each engine: its computations in order, and how many commands are before each step.
        self._members = {e: np.flatnonzero(self._engine == e) for e in _ENGINES}
        self._before = {
            e: np.append(0, np.cumsum(np.where(engines == e, counts, 0))).tolist() for e in _ENGINES
        }
        self._before[int(Engine.STORE)] = self._store_starts.tolist()
        self._written = [Written(step) for step in steps]
        self._earlier = self._find_earlier(uses)

    def run(self, lead: int) -> Linked:
        self._collect_loads()
        self._collect_computes()
        self._after = np.concatenate(
            [
                s.stores.after + start
                for s, start in zip(self._steps, self._starts.tolist(), strict=False)
            ]
        )
        self._store_words = encode([s.stores.words for s in self._steps], self._origins)
        return self._merge(lead, self._find_tokens())

    def _collect_loads(self) -> None:
        """Put all LOADs in order, and find what each needs."""
        parts = [(i, loads) for i, step in enumerate(self._steps) for loads in step.loads]
        ends = np.cumsum([len(loads.due) for _, loads in parts])
        counts = np.bincount([i for i, _ in parts], [len(x.due) for _, x in parts]).astype(int)
        self._load_ends = np.cumsum(counts)
        owner = np.repeat(np.arange(len(counts)), counts)
        shift = self._starts[owner]
        due = np.concatenate([loads.due for _, loads in parts]) + shift
        first = np.concatenate([loads.first for _, loads in parts]) + shift
        needs = {e: latest[owner] for e, latest in self._earlier[0].items()}
        for (number, loads), end in zip(parts, ends.tolist(), strict=True):
            step, mine = self._steps[number], slice(end - len(loads.due), end)
            if loads.freed is not None:
                engine = int(Engine.STORE if step.freed_by_store else step.computes.engine)
                before = self._before[engine][number]
                need = needs[engine][mine]
                np.maximum(need, loads.freed + before, out=need, where=loads.freed >= 0)
            if loads.needs is not None:
                need = needs[Engine.STORE][mine]
                for maker in self._uses[number].operands[loads.operand]:
                    self._wait(need, maker, loads.needs, Engine.STORE)
        order = np.argsort(due, kind="stable")
        self._due, self._first = due[order], first[order]
        self._load_words = encode(
            [loads.words for _, loads in parts], [self._origins[i] for i, _ in parts]
        )[:, order]
        self._load_needs = {e: need[order] for e, need in needs.items()}
        self._load_owner = owner[order]
        # Where LOADs are now, in the order of steps.
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))

    def _collect_computes(self) -> None:
        """Find what computations need."""
        counts = np.diff(self._starts)
        owner = np.repeat(np.arange(len(counts)), counts)
        needs = {e: latest[owner] for e, latest in self._earlier[1].items()}
        for engine in _ENGINES:  # an engine's writes follow its own reads and writes
            needs[engine][self._engine == engine] = -1
        early = np.full(len(owner), len(self._due))
        for number, (step, uses) in enumerate(zip(self._steps, self._uses, strict=True)):
            computes, mine = step.computes, slice(*self._starts[number : number + 2])
            if computes.freed is not None:
                need, before = needs[Engine.STORE][mine], self._before[Engine.STORE][number]
                np.maximum(need, computes.freed + before, out=need, where=computes.freed >= 0)
            for operand, needed in computes.reads.items():
                for maker in uses.operands[operand]:
                    engine = self._steps[maker.step].computes.engine
                    self._wait(needs[engine][mine], maker, needed, engine)
            if computes.early is not None:
                loaded = self._load_ends[number - 1] if number else 0
                early[mine] = self._place[computes.early + loaded]
        self._words = encode([s.computes.words for s in self._steps], self._origins)
        self._needs, self._early = needs, early

    def _wait(self, need: Indices, maker: Maker, needed: Needs, engine: Engine) -> None:
        """Let commands wait for those of an engine that write what they need of one maker's."""
        before, (needed, mine) = self._before[engine][maker.step], maker.part(needed)
        latest = self._written[maker.step].latest(needed) + before
        np.maximum(need, latest, out=need, where=mine)

    def _find_earlier(self, uses: Sequence[Uses]) -> list[dict[int, Indices]]:
        """Return the latest commands of earlier steps that have to do with the rows of each.

        First of those that its tiles take, then of its output's, too, if that stays.
        """
        count = len(uses)
        touched = _bounds([(*each.rows, *each.also) for each in uses])
        meet, latest = np.zeros((count, count), bool), []
        before = np.tri(count, k=-1, dtype=bool)
        for low, high in _bounds([(*each.rows, (0, 0))[:2] for each in uses]):
            for low_too, high_too in touched:
                meet |= (low[:, None] < high_too) & (low_too < high[:, None])
            meet &= before
            latest.append({})
            for e in (*_ENGINES, int(Engine.STORE)):
                ends = np.array(self._before[e])
                last = np.where(ends[1:] > ends[:-1], ends[1:] - 1, -1)
                latest[-1][e] = np.where(meet, last, -1).max(axis=1)
        return latest

    def _find_tokens(self) -> list[Tokens]:
        """Turn needs into tokens: who gives them to whom."""
        tokens, total = [], self._words.shape[1]
        # What LOADs need; ``behind`` is the computation that each must follow in the program.
        behind = np.full(len(self._due), -1)
        for e, need in self._load_needs.items():
            position = self._after if e == Engine.STORE else self._members[e]
            needed, waits = growth(need)
            if waits.any():
                tokens.append(Tokens(e, Engine.LOAD, needed[waits], np.flatnonzero(waits)))
                behind = np.maximum(behind, np.where(needed >= 0, position[needed], -1))
        self._behind = behind
        # What computations need.
        latest = np.full(total, -1)
        latest[self._first] = np.arange(len(self._due))
        for engine in _ENGINES:
            mine = self._members[engine]
            if not len(mine):
                continue
            arrived, waits = growth(latest[mine])
            tokens.append(Tokens(Engine.LOAD, engine, arrived[waits], np.flatnonzero(waits)))
            if engine == Engine.MXU:
                there = self._early[mine[1:]] <= arrived[:-1]
                self._words[0, mine[1:]] |= there.astype(np.int64) << PREFETCH
            for e, need in self._needs.items():
                needed, waits = growth(need[mine])
                if waits.any():
                    tokens.append(Tokens(e, engine, needed[waits], np.flatnonzero(waits)))
        # What STOREs need: each of one computation, and what they overwrite has been read.
        for engine in _ENGINES:
            stores = np.flatnonzero(self._engine[self._after] == engine)
            if len(stores):
                givers = np.searchsorted(self._members[engine], self._after[stores])
                tokens.append(Tokens(engine, Engine.STORE, givers, stores))
        need = np.full(len(self._after), -1)
        for number, uses in enumerate(self._uses):
            if uses.read_before >= 0:
                mine = slice(self._store_starts[number], self._store_starts[number + 1])
                need[mine] = self._load_ends[uses.read_before] - 1
        needed, waits = growth(need)
        if waits.any():
            tokens.append(Tokens(Engine.LOAD, Engine.STORE, needed[waits], np.flatnonzero(waits)))
        return tokens

    def _merge(self, lead: int, tokens: Sequence[Tokens]) -> Linked:
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
        steps = np.arange(len(self._steps) + 1)
        owners = np.concatenate(
            [self._load_owner, np.repeat(steps[:-1], np.diff(self._store_starts))]
        )
        layered = np.argsort(owners, kind="stable")
        transfers = np.concatenate([place[:count], place[count + total :]])[layered]
        starts = np.searchsorted(owners[layered], steps)
        return Linked(words, place[count : count + total], self._starts, transfers, starts)


def _bounds(
    ranges: Sequence[tuple[tuple[int, int], ...]],
) -> list[tuple[Indices, Indices]]:
    """Return the first, second ... range of all steps: where they begin and end."""
    longest = max(map(len, ranges))
    filled = np.array([(*each, *[(0, 0)] * (longest - len(each))) for each in ranges])
    return [(filled[:, i, 0], filled[:, i, 1]) for i in range(longest)]
