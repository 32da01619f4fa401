"""Many commands at once: fields of constants and of arrays, encoded as 256-bit words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, HEADER, Engine, Opcode
from tpulite.compiler.plan.segments import Segments

Words = NDArray[np.int64]
"""Commands [4, n]: lane i holds bits 64 i to 64 i + 63 of each."""

Numbers = NDArray[np.int64]

_Place = tuple[Field, list[tuple[int, int, int]]]
"""A field, and its parts: offset, width, and which of its bits is the first."""

_LANES, _LANE_BITS = COMMAND_BYTES // 8, 64


def _place(layout: Layout, field: Field) -> _Place:
    width = field.width - field.behind
    parts = [(layout.offsets()[field.name], width, 0)]
    if field.behind:
        parts.append((layout.grown[field.name], field.behind, width))
    return field, parts


_FIELDS: dict[Opcode, dict[str, _Place]] = {
    opcode: {field.name: _place(layout, field) for field in layout.fields}
    for opcode, layout in COMMANDS.items()
}

WAIT, SIGNAL = (sum(f.width for f in HEADER[:i]) for i in (1, 2))
"""Bit offsets in lane 0 of the fields that order engines."""

PREFETCH = COMMANDS[Opcode.CONV].offsets()["prefetch"]
"""Bit offset in lane 0 of CONV."""

END_WORD = np.array([[int(Opcode.END)], [0], [0], [0]])


class Origin(IntEnum):
    """What fields are counted from, so that the commands of equal layers are equal.

    The rows that a layer works in, where its constants, output and inputs begin, and zero points.
    """

    TILES = 0
    CONSTANTS = 1
    TARGET = 2
    SOURCE = 3
    SECOND_SOURCE = 4
    INPUT_ZERO = 5
    WEIGHT_ZERO = 6


Counted = Origin | NDArray[np.int64]
"""What a field is counted from, in all commands or in each; -1: from 0."""


@dataclass(frozen=True)
class Batch:
    """Commands of one opcode, not yet encoded."""

    opcode: Opcode  #: What they all do.
    count: int  #: How many.
    #: Mapping of str to int or array of int64. Fields that all have in common, and fields of each.
    #: What is not named is 0.
    fields: Mapping[str, int | Numbers]
    #: What fields are counted from; without one, from 0.
    origins: Mapping[str, Counted] = field(default_factory=dict)
    start: int = 0  #: Where in the arrays they begin: they may be part of a longer batch.

    def part(self, some: slice) -> "Batch":
        """Return some of the commands."""
        start, count = self.start + some.start, some.stop - some.start
        return Batch(self.opcode, count, self.fields, self.origins, start)


def commands(
    opcode: Opcode,
    count: int,
    origins: Mapping[str, Counted] = MappingProxyType({}),
    **fields: int | NDArray[np.int64],
) -> Batch:
    """Return ``count`` commands of one opcode."""
    return Batch(opcode, count, fields, origins)


def encode(batches: Sequence[Batch], places: Sequence[Sequence[int]] = ()) -> Words:
    """Encode commands, batch after batch: a field of all of them at once.

    Parameters
    ----------
    batches : sequence of Batch
        The commands.
    places : sequence of sequence of int
        Where the origins of each batch are.

    Raises
    ------
    ValueError
        If a value does not fit its field.

    Examples
    --------
    >>> words = encode([commands(Opcode.LOAD, 2, lines=1, rows=16, row=np.array([0, 16]))])
    >>> [hex(word) for word in words[1]]
    ['0x80008000', '0x400080008000']
    """
    counts = np.array([batch.count for batch in batches])
    parts = Segments.of(counts)
    # Column -1 is that of fields that are counted from 0.
    origins = np.array([(*place, 0) for place in places or [()] * len(batches)], np.int64)
    groups: dict[int, list[int]] = {}  # parts of one long batch
    for number, batch in enumerate(batches):
        if batch.count:
            groups.setdefault(id(batch.fields), []).append(number)
    words = np.zeros((_LANES, len(parts.owner)), np.int64)
    for numbers in groups.values():
        batch, first = batches[numbers[0]], numbers[0]
        here: slice | Numbers = parts.at(first)
        there: slice | Numbers = slice(batch.start, batch.start + batch.count)
        owner: int | Numbers = first
        if len(numbers) > 1:
            mine = Segments.of(counts[numbers])
            here = parts.starts[numbers][mine.owner] + mine.number
            starts = np.array([batches[i].start for i in numbers])
            if (starts == mine.starts[:-1]).all():  # all of the batch, in order
                there = slice(0, len(mine.owner))
            else:
                there = starts[mine.owner] + mine.number
            owner = np.array(numbers)[mine.owner]
        found = np.zeros((_LANES, int(counts[numbers].sum())), np.int64)
        found[0] = int(batch.opcode)
        for name, value in batch.fields.items():
            column = value[there] if isinstance(value, np.ndarray) else value
            counted = batch.origins.get(name)
            if counted is not None:
                origin = counted[there] if isinstance(counted, np.ndarray) else counted
                column = column + origins[owner, origin]
            problem = _insert(found, column, _FIELDS[batch.opcode][name])
            if problem is not None:
                raise ValueError(f"{batch.opcode.name}.{name} {problem}")
        words[:, here] = found
    return words


def _insert(words: Words, column: int | Numbers, place: _Place) -> str | None:
    """Write a field into words, or return why it does not fit."""
    layout, parts = place
    if isinstance(column, np.ndarray):
        problem = _problem(layout, column)
    else:
        column = int(column)  # looked up at once in a range, as a number of numpy is not
        problem = layout.problem(column)
    if problem is None and (isinstance(column, np.ndarray) or column):
        for offset, width, start in parts:
            lane, shift = divmod(offset, _LANE_BITS)
            bits = column
            if layout.signed or layout.behind:
                bits = column >> start & ((1 << width) - 1)
            words[lane] |= np.left_shift(bits, shift, dtype=np.int64)
            if shift + width > _LANE_BITS:
                words[lane + 1] |= bits >> (_LANE_BITS - shift)
    return problem


def _problem(layout: Field, column: Numbers) -> str | None:
    """Say why the first illegal value is, or return None if all are legal."""
    # As unsigned numbers, those below zero are beyond every field.
    values = column if layout.signed else column.view(np.uint64)
    legal = np.maximum.reduce(values) <= layout.range[-1]
    if layout.signed or layout.minimum is not None:
        least = layout.range[0] if layout.minimum is None else layout.minimum
        legal &= np.minimum.reduce(column) >= least
    if layout.multiple > 1:
        legal &= not np.bitwise_or.reduce(column) & (layout.multiple - 1)
    return None if legal else next(filter(None, map(layout.problem, column.tolist())))


Indices = NDArray[np.int64]

CONSTANT = -1
"""Number of the operand of LOADs that no layer computes."""


class Needs(NamedTuple):
    """What commands need of a tensor."""

    stop: Indices  #: Vectors of each block, from its first one on.
    blocks: Indices | None = None  #: The last channel block; without it, all.
    #: The first channel block; without it, the last one is the only one.
    first: Indices | None = None

    def part(self, some: slice) -> "Needs":
        """Return what some of the commands need."""
        blocks, first = (None if x is None else x[some] for x in (self.blocks, self.first))
        return Needs(self.stop[some], blocks, first)


class Loads(NamedTuple):
    """LOADs, in any order."""

    words: Batch  #: The commands without tokens.
    #: The computation of the layer that each should be ahead of; the LOADs are executed in this
    #: order.
    due: Indices
    first: Indices  #: The first computation that needs it, at ``due`` or later.
    #: The computation, or the STORE, that must be complete before; -1: none. It belongs to a
    #: computation before ``due``.
    freed: Indices | None = None
    operand: int = CONSTANT  #: Number of the layer's input that they read; ``CONSTANT``: none.
    needs: Needs | None = None  #: What of that input must be there.

    def part(self, some: slice) -> "Loads":
        """Return some of the LOADs."""
        freed, needs = self.freed, self.needs
        return Loads(
            self.words.part(some),
            self.due[some],
            self.first[some],
            None if freed is None else freed[some],
            self.operand,
            None if needs is None else needs.part(some),
        )


@dataclass(frozen=True)
class Computes:
    """Computations of one engine, in order."""

    engine: Engine  #: MXU or VPU.
    words: Batch  #: The commands without tokens.
    freed: Indices | None = None  #: The STORE that must be complete before each; -1: none.
    #: The LOAD, in the order of ``Step.loads``, of what each may read ahead of its start.
    early: Indices | None = None
    #: What must be there of each input that is in the buffer.
    reads: dict[int, Needs] = field(default_factory=dict)


class Stores(NamedTuple):
    """STOREs, in order; each after the computation ``after``, no two after the same one."""

    words: Batch
    after: Indices


@dataclass(frozen=True)
class Step:
    """A layer of known extents."""

    loads: tuple[Loads, ...]  #: What it loads.
    computes: Computes  #: What it computes.
    stores: Stores  #: What it stores; nothing, if its output stays in the buffer.
    #: The first vector of the output that each STORE writes, or each computation, if there are no
    #: STOREs.
    begins: Indices
    blocks: Indices | None = None  #: The one channel block of each.
    #: Whether ``freed`` of LOADs counts STOREs instead of computations.
    freed_by_store: bool = False


class Maker(NamedTuple):
    """A layer that computes channel blocks of a tensor."""

    step: int  #: Its number.
    #: The first block, and how many.
    block: int
    blocks: int

    def behind(self, blocks: int) -> "Maker":
        """Return the same of a tensor in which so many blocks come before these."""
        return self._replace(block=self.block + blocks)

    def part(self, needs: Needs) -> tuple[Needs, NDArray[np.bool_] | bool]:
        """Return what is needed of these blocks, and by which commands."""
        if needs.blocks is None or not self.block:
            return needs, True
        first = needs.blocks if needs.first is None else needs.first
        mine = (needs.blocks >= self.block) & (first < self.block + self.blocks)
        block = np.minimum(needs.blocks - self.block, self.blocks - 1)
        return Needs(needs.stop, np.where(mine, block, 0)), mine

    def later(self, steps: int) -> "Maker":
        """Return the same of the layers so many steps later."""
        return self._replace(step=self.step + steps)


def no_stores() -> Stores:
    """Return the STOREs of a layer whose output stays."""
    return Stores(Batch(Opcode.STORE, 0, {}), np.empty(0, np.int64))
