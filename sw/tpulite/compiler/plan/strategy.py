"""Choice among strategies: the cheapest that is feasible."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.compiler.geometry.closed_forms import Number, both, negate

_TRAFFIC = 32
"""Rows of traffic that count as a cycle: between strategies that are equally fast, it decides."""


class Room(NamedTuple):
    """What a strategy may take, and where the tensors are."""

    rows: int  #: Rows of the unified buffer for tiles, weights and parameters.
    sources: tuple[bool, ...] = (True, True)  #: Whether each input comes from DRAM.
    stored: bool = True  #: Whether the output goes there.
    chained: bool = False  #: Whether other layers wait for the output, row after row.


class Strategy(NamedTuple):
    """A way to cut an operator up, for one shape or for many at once."""

    name: str  #: Name: ``kind``, or ``kind/mode``.
    feasible: Number  #: Whether it fits the machine.
    cycles: Number  #: What it costs; of no meaning where it is not feasible.
    traffic: Number  #: Rows that it moves between DRAM and the unified buffer.
    #: Numbers and sizes of its tiles. ``needed_rows`` are the rows of the unified buffer that its
    #: smallest tiles need.
    sizes: Mapping[str, Number]

    @property
    def kind(self) -> str:
        """What stays and what passes: the name up to a slash."""
        return self.name.partition("/")[0]

    @property
    def mode(self) -> str:
        """How rows are cut, one of :mod:`tpulite.compiler.plan.slabs`: the name behind it."""
        return self.name.partition("/")[2]


def cost(cycles: Number, traffic: Number) -> Number:
    """Return what decides: cycles and, between what is equally fast, traffic."""
    return cycles + traffic // _TRAFFIC


def choose(strategies: Sequence[Strategy]) -> Strategy | None:
    """Return the cheapest feasible strategy of one shape, or None."""
    feasible = [strategy for strategy in strategies if strategy.feasible]
    return min(feasible, key=lambda x: cost(x.cycles, x.traffic)) if feasible else None


def unmet(strategies: Sequence[Strategy]) -> Number:
    """Return whether none of them is feasible: only there poorer ones are tried."""
    missing: Number = True
    for strategy in strategies:
        missing = both(missing, negate(strategy.feasible))
    return missing


def choose_all(strategies: Sequence[Strategy], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the index of the strategy that :func:`choose` takes for each shape, or -1."""
    best, cheapest = np.full(shape, -1), np.full(shape, np.iinfo(np.int64).max)
    for index, strategy in enumerate(strategies):
        price = np.broadcast_to(cost(strategy.cycles, strategy.traffic), shape)
        better = np.broadcast_to(strategy.feasible, shape) & (price < cheapest)
        best[better] = index
        cheapest = np.where(better, price, cheapest)
    return best
