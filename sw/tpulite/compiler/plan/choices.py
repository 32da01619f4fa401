"""Choices: what can be varied in the plan of a convolution, and a first guess."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from random import Random

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.timing import row_cycles
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.plan.alone import Surroundings, alone_cycles
from tpulite.compiler.plan.conv import ConvExtents, ConvPlan
from tpulite.compiler.plan.conv_facts import CHUNK_STYLES, MOST_BLOCKS, chunks

_TAILS = {"one": (1,), "half": (1, 1), "quarter": (3, 1), "sixth": (3, 2, 1)}
"""Relative sizes of the pieces of the last n-block."""

_MANY_CHUNKS = 8

_STARTS, _CLIMBS = 12, 4
"""Starts that are estimated, and those of them that are improved."""

_LONGER = 1.1
"""What a layer alone may take longer by a change that may pay in the program."""

VARIATIONS = 5
"""Respects in which choices can be varied."""

_CUTS = 4
"""How often the first chunks are drawn, for each time that something else is varied."""

_DOCUMENTED = 4
"""Accumulators side by side, at least, in the order of the source document."""

_MANY_COMMANDS = 2000
"""Plans of more commands are judged by a closed form."""


@dataclass(frozen=True)
class Choice:
    """The free variables of a plan; most are those of :class:`ConvPlan`.

    ``parts`` is the number of parts of the output; ``tail`` names an entry of a table.
    """

    parts: int
    group: int
    head: tuple[int, ...]
    body: tuple[int, ...]
    whole_k: bool
    keep_weights: bool
    tail: str


class LayerChoices:
    """One layer: its legal choices, and what they cost by the closed form."""

    def __init__(self, extents: ConvExtents, around: Surroundings, config: Config) -> None:
        self.extents, self._around, self._config = extents, around, config
        # Choices come again and again.
        self.cycles, self.fits, self.plan = cache(self.cycles), cache(self.fits), cache(self.plan)
        self.varied = cache(self.varied)

    def ranked(self) -> list[Choice]:
        """Return start choices, the cheapest of the layer alone first; all fit by their sizes."""
        starts = dict.fromkeys(map(self._canonical, self._starts()))
        starts = sorted(filter(self.fits, starts), key=self._closed_form)
        best = [self._climb(start, all_parts=True) for start in self._best(starts[:_STARTS])]
        kinds: dict[int, Choice] = {}
        for start in sorted(starts[: 2 * _STARTS], key=self.cycles):
            kinds.setdefault(start.parts, start)
        others = [self._climb(start) for start in [*kinds.values()][:_CLIMBS]]
        ordered = (sorted(each, key=self.cycles) for each in (best, others))
        return list(dict.fromkeys([*chain(*ordered), *starts]))

    def _best(self, choices: list[Choice]) -> list[Choice]:
        return sorted(choices, key=self.cycles)[:_CLIMBS]

    def ordered(self, order: str) -> list[Choice]:
        """Return choices of an order that was asked for, the largest first; all fit."""
        orders = {"document": self._documented, "panels": self._panels}
        return list(filter(self.fits, orders[order]()))

    def _documented(self) -> Iterator[Choice]:
        """Yield choices of the order for i in blocks, for j in n-blocks: acc[j] += A[i] @ W[i, j].

        First with as many accumulators side by side as there are, then with the four that the order
        asks for and ever smaller parts.
        """
        extents, ones = self.extents, chunks(self.extents.blocks, "ones")
        for parts in self._parts():
            vectors = max(map(len, split(extents.rows, parts, extents.grain))) * extents.width
            side_by_side = max(1, min(extents.n_blocks, self._config.acc_rows // vectors))
            for group in dict.fromkeys((side_by_side, min(side_by_side, _DOCUMENTED))):
                if group >= min(_DOCUMENTED, extents.n_blocks):
                    for whole_k, keep in ((True, True), (True, False), (False, False)):
                        yield Choice(parts, group, ones, ones, whole_k, keep, "one")

    def _panels(self) -> Iterator[Choice]:
        """Yield choices of the order for i in rows, for j in n-blocks, for k: C[i, j] += A[i] B[j].

        A block of C is as high as the array if rows of the output can be cut so; what is done of K
        at a time is all, or as much as there is room for.
        """
        extents = self.extents
        parts = -(-extents.rows * extents.width // self._config.array_size)
        whole = chunks(extents.blocks, "whole")
        for keep in (True, False):
            yield Choice(parts, 1, whole, whole, True, keep, "one")
        size = max(whole)
        while size:
            sizes = tuple(map(len, split(extents.blocks, -(-extents.blocks // size), 1)))
            yield Choice(parts, 1, sizes, sizes, False, False, "one")
            size //= 2

    def cycles(self, choice: Choice) -> float:
        """Return estimated cycles of the layer alone; see :func:`alone_cycles`."""
        plan = self.plan(choice)
        if plan.commands(self.extents) > _MANY_COMMANDS:
            return math.inf
        return alone_cycles(plan, self.extents, self._around, self._config)

    def bound(self, choice: Choice) -> int:
        """Return cycles that the array needs at least."""
        extents, size = self.extents, tile_rows(self.extents.int4, self._config)
        parts = split(extents.rows, choice.parts, extents.grain)
        vectors = sum(max(len(part) * extents.width, size) for part in parts)
        return extents.blocks * extents.taps * extents.n_blocks * vectors

    def _climb(self, best: Choice, *, all_parts: bool = False) -> Choice:
        """Vary one respect at a time as long as the layer alone gets faster; parts if asked for."""
        before = None
        while best != before:
            before = best
            for number in range(VARIATIONS):
                others = self.varied(best, number)
                fixed = [x for x in others if all_parts or x.parts == best.parts]
                best = min([best, *fixed], key=self.cycles)
        return best

    def plan(self, choice: Choice) -> ConvPlan:
        """Turn a choice into a plan."""
        parts = split(self.extents.rows, choice.parts, self.extents.grain)
        return ConvPlan(
            parts=parts,
            group=choice.group,
            head=choice.head,
            body=choice.body,
            tail=self._tail(len(parts[-1]), _TAILS[choice.tail]),
            whole_k=choice.whole_k,
            keep_weights=choice.keep_weights,
        )

    def promising(self, choice: Choice, number: int) -> list[Choice]:
        """Return those of :meth:`varied` that alone would not take much longer, the best first."""
        found = (x for x in self.varied(choice, number) if self._hopeful(x, choice))
        return sorted(found, key=self.cycles)

    def drawn(self, choice: Choice, random: Random) -> Choice:
        """Return a choice that differs from another one at random; or the same."""
        kind = random.randrange(VARIATIONS + _CUTS)
        if kind < VARIATIONS:
            found = self.promising(choice, kind)
            return random.choice(found) if found else choice
        blocks = self.extents.blocks
        cuts = sorted(random.sample(range(1, blocks), min(random.randint(0, 3), blocks - 1)))
        sizes = tuple(b - a for a, b in pairwise([0, *cuts, blocks]))
        if max(sizes) > MOST_BLOCKS or not choice.whole_k:
            return choice
        other = self._canonical(replace(choice, head=sizes))
        return other if self.fits(other) and self._hopeful(other, choice) else choice

    def _hopeful(self, other: Choice, choice: Choice) -> bool:
        return self.cycles(other) <= self.cycles(choice) * _LONGER

    def varied(self, choice: Choice, number: int) -> list[Choice]:
        """Return choices that fit and differ from another one in one respect."""
        found = map(self._canonical, self._variations[number](choice))
        return [other for other in dict.fromkeys(found) if other != choice and self.fits(other)]

    @property
    def _variations(self) -> list[Callable[[Choice], Iterator[Choice]]]:
        """Functions from a choice to those that differ from it in one respect."""
        return [self._tails, self._borders, self._heads, self._with_parts, self._bodies]

    def _canonical(self, choice: Choice) -> Choice:
        """Return the one of all choices with the same plan that stands for them."""
        alone = choice.parts == 1 or self.extents.rows <= self.extents.grain
        keep = choice.whole_k if alone else choice.keep_weights
        body = choice.body
        if alone and choice.whole_k and choice.group >= self.extents.n_blocks:
            body = chunks(self.extents.blocks, "whole")
        tail = choice.tail if self._around.stored else "one"
        return replace(choice, keep_weights=keep, body=body, tail=tail)

    def _heads(self, choice: Choice) -> Iterator[Choice]:
        blocks = self.extents.blocks
        body = choice.body if choice.whole_k else chunks(blocks, "whole")
        for group in self._groups():
            for style in CHUNK_STYLES:
                head = chunks(blocks, style)
                yield replace(choice, group=group, head=head, body=body, whole_k=True)

    def _with_parts(self, choice: Choice) -> Iterator[Choice]:
        for count in self._parts():
            yield replace(choice, parts=count, keep_weights=choice.whole_k)
            if count > 1 and self._around.weights_in_dram:
                yield replace(choice, parts=count, keep_weights=False)

    def _bodies(self, choice: Choice) -> Iterator[Choice]:
        for style in ("whole", "last", "halves", "quarters") if choice.whole_k else ():
            yield replace(choice, body=chunks(self.extents.blocks, style))

    def _tails(self, choice: Choice) -> Iterator[Choice]:
        for tail in _TAILS:
            yield replace(choice, tail=tail)

    def _borders(self, choice: Choice) -> Iterator[Choice]:
        if choice.whole_k:
            yield from (replace(choice, head=head) for head in _moved_borders(choice.head))
            yield from (replace(choice, body=body) for body in _moved_borders(choice.body))

    def fits(self, choice: Choice) -> bool:
        """Whether accumulators and the buffer have room for a choice, as far as sizes tell."""
        extents, around, config = self.extents, self._around, self._config
        plan = self.plan(choice)
        rows = max(map(len, plan.parts))
        group = min(choice.group, extents.n_blocks)
        if group * rows * extents.width > config.acc_rows:
            return False
        held = extents.blocks if plan.whole_k else max(plan.head)
        needed = around.record_rows * (extents.n_blocks if plan.keep_weights else group)
        if around.input_in_dram:
            needed += held * extents.read(rows)
        if around.output_in_dram:
            needed += rows * extents.width * around.vector_rows
        if around.weights_in_dram:
            blocks = extents.n_blocks if plan.keep_weights else group if plan.whole_k else 1
            needed += held * extents.taps * tile_rows(extents.int4, config) * blocks
        return needed <= around.free_rows

    def _starts(self) -> Iterator[Choice]:
        blocks = self.extents.blocks
        head, whole = chunks(blocks, "grow"), chunks(blocks, "whole")
        streams = []
        for size in (1 << i for i in range(min(blocks, 64).bit_length())):
            streams.append(tuple(map(len, split(blocks, -(-blocks // size), 1))))
        vectors = self.extents.rows * self.extents.width
        for parts in self._parts():
            # Pieces of less than N vectors would cost more than they save.
            tail = "half" if vectors >= 2 * parts * self._config.array_size else "one"
            for group in self._groups():
                yield Choice(parts, group, head, whole, True, True, tail)
                if parts > 1:
                    yield Choice(parts, group, head, whole, True, False, tail)
                for sizes in streams:
                    yield Choice(parts, group, sizes, sizes, False, False, tail)

    def _parts(self) -> Iterator[int]:
        rows, grain = self.extents.rows, self.extents.grain
        parts = -(-rows * self.extents.width // self._config.acc_rows)
        while True:
            yield parts
            if rows <= parts * grain:
                return
            parts *= 2

    def _groups(self) -> Iterator[int]:
        group = 1
        while group < self.extents.n_blocks:
            yield group
            group *= 2
        yield self.extents.n_blocks

    def _tail(self, rows: int, weights: tuple[int, ...]) -> tuple[int, ...]:
        grain = self.extents.grain
        units, total = -(-rows // grain), sum(weights)
        bounds = [units * sum(weights[:i]) // total for i in range(len(weights) + 1)]
        edges = [min(rows, bound * grain) for bound in bounds]
        return tuple(b - a for a, b in pairwise(edges) if b > a)

    def _closed_form(self, choice: Choice) -> tuple[float, ...]:
        extents, around, config = self.extents, self._around, self._config
        plan = self.plan(choice)
        size = tile_rows(extents.int4, config)
        tiles = extents.blocks * extents.taps * extents.n_blocks
        compute = self.bound(choice)
        per_row = row_cycles(config)
        load = plan.loaded_rows(extents, config, inputs=around.input_in_dram)
        if around.loaded and not around.input_in_dram:
            load += extents.read(extents.rows) * extents.blocks
        if not around.weights_in_dram:
            load -= tiles * size
        rows = max(map(len, plan.parts))
        first = (extents.read(rows) if around.loaded else 0) + size
        last = rows * extents.width if around.stored else 0
        commands = plan.commands(extents)
        return (max(compute, load * per_row) + first + last + commands, not plan.whole_k, commands)


def _moved_borders(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield chunks with one border moved, removed or added; none where chunks are many."""
    if len(sizes) > _MANY_CHUNKS:
        return
    for i, (a, b) in enumerate(pairwise(sizes)):
        for step in (1, -1, 2, -2):
            if min(a - step, b + step) > 0:
                yield (*sizes[:i], a - step, b + step, *sizes[i + 2 :])
        if a + b <= MOST_BLOCKS:
            yield (*sizes[:i], a + b, *sizes[i + 2 :])
    for i, size in enumerate(sizes):
        if size > 1:
            yield (*sizes[:i], size - size // 2, size // 2, *sizes[i + 1 :])
