"""Commands of the vector path as soon as what they read is made, not layer by layer.

Layers that follow the array block by block have a command for half of the blocks, a quarter, and so
on. Each can begin when the array has made its blocks, and so can those of the next such layer; in
the order of layers they would all wait for the last block.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import accumulate

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Buffer, Op
from tpulite.compiler.schedule.schedule import addressed
from tpulite.golden.effects.extents import Extents, Toucher
from tpulite.golden.effects.grids import view

_APART = 1 << 12
"""Rows between buffers: what a command touches may go on behind the buffer that it begins in."""


def put_vectors_early(ops: Sequence[Op], config: Config) -> tuple[Op, ...]:
    """Return commands in an order in which parts of a layer's VECTORs come as early as they can.

    A VECTOR that is one of several of its layer goes behind the last command that writes what it
    reads, or touches what it writes; LOADs of its constants, which come just before it, go with it.

    Parameters
    ----------
    ops : sequence of Op
        Commands in an order in which they could run one after the other.
    """
    counts = Counter(op.layer for op in ops if op.opcode is Opcode.VECTOR)
    moving = {op.layer for op in ops if _moves_activations(op)}
    several = {layer for layer, count in counts.items() if count > 1} - moving
    if not several:
        return tuple(ops)
    order = _Order(ops, several, config)
    loads: list[Op] = []
    for op in ops:
        if loads and not (op.layer == loads[0].layer and op.opcode in (Opcode.LOAD, Opcode.VECTOR)):
            order.add_all(loads)
            loads = []
        if op.opcode is Opcode.LOAD and op.layer in several:
            loads.append(op)
        elif op.opcode is Opcode.VECTOR and op.layer in several:
            order.add_early([*loads, op])
            loads = []
        else:
            order.add_all([op])
    order.add_all(loads)
    times = order.times
    return tuple(ops[i] for i in sorted(range(len(ops)), key=lambda i: (times[i], i)))


def _moves_activations(op: Op) -> bool:
    """Return whether a command moves other bytes between DRAM and buffer than constants."""
    constants = op.opcode is Opcode.LOAD and op.fields["window"] == Window.CONSTANTS
    return op.opcode in (Opcode.LOAD, Opcode.STORE) and not constants


class _Order:
    """Times of commands: twice the number of one that stays, one more of those behind it.

    Numbers begin with 1. Only buffers of layers whose commands change places have rows of their
    own, which are zeros that take no memory where nothing touches them.
    """

    def __init__(self, ops: Sequence[Op], layers: Set[int], config: Config) -> None:
        self.times: list[int] = []
        self._toucher = Toucher(config)
        own, others = (
            {_first(x.buffer): None for op in some for x in op.rows.values()}
            for some in ([op for op in ops if op.layer in layers], ops)
        )
        ends = list(accumulate((buffer.rows + _APART for buffer in own), initial=0))
        self._starts = dict(zip(own, ends, strict=False))
        self._others = ends[-1]  # where all other buffers are
        end = self._others + max(buffer.rows for buffer in others) + _APART
        self._written, self._touched = np.zeros((2, end), np.int32)

    def add_all(self, ops: Sequence[Op]) -> None:
        """Add commands that stay where they are."""
        for op in ops:
            touched = self._touches(op) if self._has_own(op) else Extents()
            self._add(self._next, touched)

    def add_early(self, ops: Sequence[Op]) -> None:
        """Add commands that go together behind the last one that they need."""
        if any(op.barrier or op.stays for op in ops):
            self.add_all(ops)
            return
        touched = [self._touches(op) for op in ops]
        before = max(max(self._before(each), default=0) for each in touched)
        for each in touched:
            self._add(before | 1 if before else self._next, each)

    @property
    def _next(self) -> int:
        return 2 * len(self.times) + 2

    def _has_own(self, op: Op) -> bool:
        return any(_first(region.buffer) in self._starts for region in op.rows.values())

    def _touches(self, op: Op) -> Extents:
        rows = {
            name: self._starts.get(_first(region.buffer), self._others) + region.row
            for name, region in op.rows.items()
        }
        return self._toucher.touched(Command.make(op.opcode, **addressed(op, rows)))

    def _before(self, touched: Extents) -> Iterator[int]:
        """Yield times of commands that must come before one that touches these rows."""
        for place in (*touched.early_reads, *touched.reads):
            yield int(view(self._written, place).max())
        for place in touched.writes:
            yield int(view(self._touched, place).max())

    def _add(self, time: int, touched: Extents) -> None:
        self.times.append(time)
        for place in (*touched.early_reads, *touched.reads, *touched.writes):
            some = view(self._touched, place)
            np.maximum(some, time, out=some)
        for place in touched.writes:
            view(self._written, place)[...] = time


def _first(buffer: Buffer) -> Buffer:
    """Return the buffer in whose place one may be made, or itself."""
    while buffer.over is not None:
        buffer = buffer.over
    return buffer
