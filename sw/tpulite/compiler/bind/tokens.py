"""Who waits for whom: the latest command that is needed, and the tokens that say so."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import TOKEN_MAX
from tpulite.compiler.operators.steps import Indices, Needs, Step
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
