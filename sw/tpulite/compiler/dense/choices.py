"""Choices: what can be varied in the plan of a layer, and a first guess."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.dense.plan import (
    CHUNK_STYLES,
    MAX_K_TILES,
    LayerPlan,
    LayerShape,
    chunks,
    vector_align,
)
from tpulite.compiler.tiling.cut import split

__all__ = ["Choice", "Site", "Surroundings"]

_TAILS = {"one": (1,), "half": (1, 1), "quarter": (3, 1), "sixth": (3, 2, 1)}
"""Relative sizes of the pieces of the last n-block."""

_MANY_CHUNKS = 8


@dataclass(frozen=True)
class Surroundings:
    """What a layer finds around it.

    Parameters
    ----------
    free_rows : int
        Rows of the unified buffer beside tensors and constants that stay there.
    inputs_in_dram, outputs_in_dram : bool
        Whether they must be loaded and stored.
    weights_in_dram : bool
        Whether they must be loaded.
    vector_rows, record_rows : int
        Rows of an output vector and of the records of an n-block.
    """

    free_rows: int
    inputs_in_dram: bool
    outputs_in_dram: bool
    weights_in_dram: bool
    vector_rows: int
    record_rows: int


@dataclass(frozen=True)
class Choice:
    """The free variables of a plan; most are those of :class:`LayerPlan`.

    ``parts`` is the number of parts of M; ``tail`` names an entry of a table.
    """

    parts: int
    group: int
    head: tuple[int, ...]
    body: tuple[int, ...]
    whole_k: bool
    keep_weights: bool
    tail: str


class Site:
    """One layer: its legal choices, and what they cost by the closed form."""

    def __init__(self, shape: LayerShape, around: Surroundings, config: Config) -> None:
        self._shape, self._around, self._config = shape, around, config
        self._align = vector_align(config)

    def ranked(self) -> list[Choice]:
        """Return start choices, the cheapest first; those that need not fit are left out."""
        choices = [choice for choice in self._starts() if self.fits(choice)]
        ones = chunks(self._shape.k_tiles, "ones")
        smallest = Choice(self._shape.m, 1, ones, ones, False, False, "one")
        return [*sorted(choices, key=self._closed_form), smallest]

    def plan(self, choice: Choice) -> LayerPlan:
        """Turn a choice into a plan."""
        m_parts = split(self._shape.m, choice.parts, self._align)
        return LayerPlan(
            m_parts=m_parts,
            group=choice.group,
            head=choice.head,
            body=choice.body,
            tail=self._tail(len(m_parts[-1]), _TAILS[choice.tail]),
            whole_k=choice.whole_k,
            keep_weights=choice.keep_weights,
        )

    def variations(self) -> list[Callable[[Choice], Iterator[Choice]]]:
        """Return functions from a choice to those that differ from it in one respect."""
        around, k_tiles = self._around, self._shape.k_tiles
        whole = chunks(k_tiles, "whole")

        def heads(choice: Choice) -> Iterator[Choice]:
            body = choice.body if choice.whole_k else whole
            for group in self._groups():
                for style in CHUNK_STYLES:
                    head = chunks(k_tiles, style)
                    yield replace(choice, group=group, head=head, body=body, whole_k=True)

        def parts(choice: Choice) -> Iterator[Choice]:
            for count in self._parts():
                yield replace(choice, parts=count, keep_weights=choice.whole_k)
                if count > 1 and around.weights_in_dram:
                    yield replace(choice, parts=count, keep_weights=False)

        def bodies(choice: Choice) -> Iterator[Choice]:
            for style in ("whole", "last", "halves", "quarters") if choice.whole_k else ():
                yield replace(choice, body=chunks(k_tiles, style))

        def tails(choice: Choice) -> Iterator[Choice]:
            for tail in _TAILS if around.outputs_in_dram else ():
                yield replace(choice, tail=tail)

        def moves(choice: Choice) -> Iterator[Choice]:
            if choice.whole_k:
                yield from (replace(choice, head=head) for head in _moves(choice.head))
                yield from (replace(choice, body=body) for body in _moves(choice.body))

        return [heads, parts, bodies, tails, moves]

    def fits(self, choice: Choice) -> bool:
        """Whether accumulators and the buffer have room for a choice, as far as sizes tell."""
        shape, around, config = self._shape, self._around, self._config
        plan = self.plan(choice)
        m = max(map(len, plan.m_parts))
        group = min(choice.group, shape.n_blocks)
        if group * m > config.acc_rows:
            return False
        held = shape.k_tiles if plan.whole_k else max(plan.head)
        rows = around.record_rows * (shape.n_blocks if plan.keep_weights else group)
        if around.inputs_in_dram:
            rows += held * max(m, self._align)
        if around.outputs_in_dram:
            rows += m * around.vector_rows
        if around.weights_in_dram:
            blocks = shape.n_blocks if plan.keep_weights else group if plan.whole_k else 1
            rows += held * config.array_size * blocks
        return rows <= around.free_rows

    def _starts(self) -> Iterator[Choice]:
        k_tiles = self._shape.k_tiles
        head, whole = chunks(k_tiles, "grow"), chunks(k_tiles, "whole")
        streams = []
        for size in (1 << i for i in range(min(k_tiles, 64).bit_length())):
            streams.append(tuple(map(len, split(k_tiles, -(-k_tiles // size), 1))))
        for parts in self._parts():
            # Pieces of less than N vectors would cost more than they save.
            tail = "half" if self._shape.m >= 2 * parts * self._config.array_size else "one"
            for group in self._groups():
                yield Choice(parts, group, head, whole, True, True, tail)
                if parts > 1:
                    yield Choice(parts, group, head, whole, True, False, tail)
                for sizes in streams:
                    yield Choice(parts, group, sizes, sizes, False, False, tail)

    def _parts(self) -> Iterator[int]:
        m = self._shape.m
        parts = -(-m // self._config.acc_rows)
        while True:
            yield parts
            if m <= parts * self._align:
                return
            parts *= 2

    def _groups(self) -> Iterator[int]:
        group = 1
        while group < self._shape.n_blocks:
            yield group
            group *= 2
        yield self._shape.n_blocks

    def _tail(self, m: int, weights: tuple[int, ...]) -> tuple[int, ...]:
        units, total = -(-m // self._align), sum(weights)
        bounds = [units * sum(weights[:i]) // total for i in range(len(weights) + 1)]
        edges = [min(m, bound * self._align) for bound in bounds]
        return tuple(b - a for a, b in pairwise(edges) if b > a)

    def _closed_form(self, choice: Choice) -> tuple[float, ...]:
        shape, around, config = self._shape, self._around, self._config
        plan = self.plan(choice)
        size = config.array_size
        tiles = shape.k_tiles * shape.n_blocks
        compute = tiles * sum(max(len(part), size) for part in plan.m_parts)
        per_row = max(1, config.row_bytes // BEAT_BYTES)
        load = plan.loaded_rows(shape, config, inputs=around.inputs_in_dram)
        if not around.weights_in_dram:
            load -= tiles * size
        m = max(map(len, plan.m_parts))
        first = (m if around.inputs_in_dram else 0) + size
        last = m if around.outputs_in_dram else 0
        commands = plan.commands(shape)
        return (max(compute, load * per_row) + first + last + commands, not plan.whole_k, commands)


def _moves(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield chunks with one border moved, removed or added; none where chunks are many."""
    if len(sizes) > _MANY_CHUNKS:
        return
    for i, (a, b) in enumerate(pairwise(sizes)):
        for step in (1, -1, 2, -2):
            if min(a - step, b + step) > 0:
                yield (*sizes[:i], a - step, b + step, *sizes[i + 2 :])
        if a + b <= MAX_K_TILES:
            yield (*sizes[:i], a + b, *sizes[i + 2 :])
    for i, size in enumerate(sizes):
        if size > 1:
            yield (*sizes[:i], size - size // 2, size // 2, *sizes[i + 1 :])
