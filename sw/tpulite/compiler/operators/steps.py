"""The commands of one layer, and what they need of each other and of other layers."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import Engine, Opcode
from tpulite.compiler.operators.words import Batch

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
