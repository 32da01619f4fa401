"""From loads, computations and stores to a program: positions and tokens follow from indices."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import Engine
from tpulite.dynamic.words import END_WORD, PREFETCH, SIGNAL, WAIT, Words

__all__ = ["Computes", "Loads", "Stores", "order_commands"]

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Loads:
    """LOADs, in any order.

    Parameters
    ----------
    words : Words
        The commands without tokens.
    due : array of int
        The computation that each should be ahead of; the LOADs are executed in this order.
    first : array of int
        The first computation that needs it, at ``due`` or later.
    freed : array of int
        The computation, or the STORE, that must be complete before; -1: none. It belongs to a
        computation before ``due``.
    """

    words: Words
    due: Indices
    first: Indices
    freed: Indices

    @classmethod
    def join(cls, *parts: "Loads") -> "Loads":
        """Return all LOADs of several groups."""
        return cls(
            np.concatenate([part.words for part in parts], axis=1),
            np.concatenate([part.due for part in parts]),
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.freed for part in parts]),
        )


@dataclass(frozen=True)
class Computes:
    """Computations of one engine, in order.

    Parameters
    ----------
    engine : Engine
        MXU or VPU.
    words : Words
        The commands without tokens.
    freed : array of int, optional
        The STORE that must be complete before each; -1: none.
    early : array of int, optional
        The LOAD of what each may read ahead of its start.
    """

    engine: Engine
    words: Words
    freed: Indices | None = None
    early: Indices | None = None


@dataclass(frozen=True)
class Stores:
    """STOREs, in order; each after the computation ``after``, no two after the same one."""

    words: Words
    after: Indices


def order_commands(
    loads: Loads, computes: Computes, stores: Stores, *, lead: int, freed_by_store: bool = False
) -> tuple[Words, Indices]:
    """Merge commands into a program in a legal serial order, with tokens.

    An engine completes its commands in order. So what a command needs of an engine is one number,
    the latest command that must be complete; it waits exactly where the largest such number so far
    grows, and the command of that number gives the token. Every token is thus taken in the order in
    which it was given, and nothing is known here of the rows that commands touch.

    Parameters
    ----------
    loads, computes, stores : Loads, Computes, Stores
        The commands.
    lead : int
        LOADs that may be ahead of the computations in the program. Dispatch is in order, so the
        queue of LOADs must be able to take them.
    freed_by_store : bool
        Whether ``loads.freed`` counts STOREs instead of computations.

    Returns
    -------
    words : Words
        The program, END last.
    positions : array of int
        Where the computations are in it.
    """
    count, total = len(loads.due), computes.words.shape[1]
    order = np.argsort(loads.due, kind="stable")
    due, first, freed = loads.due[order], loads.first[order], loads.freed[order]
    load_words, words, store_words = loads.words[:, order], computes.words.copy(), stores.words
    load_bit, store_bit, bit = 1 << Engine.LOAD, 1 << Engine.STORE, 1 << computes.engine

    # Who frees the place of a LOAD.
    needed, waits = _growth(freed)
    if freed_by_store:
        store_words = store_words.copy()
        store_words[0, needed[waits]] |= load_bit << SIGNAL
        behind = np.where(needed >= 0, stores.after[needed], -1)
    else:
        words[0, needed[waits]] |= load_bit << SIGNAL
        behind = needed
    load_words[0] |= waits * ((store_bit if freed_by_store else bit) << WAIT)

    # What a computation needs of LOAD, and of STORE.
    latest = np.full(total, -1)
    latest[first] = np.arange(count)
    arrived, waits = _growth(latest)
    words[0] |= waits * (load_bit << WAIT)
    load_words[0, arrived[waits]] |= bit << SIGNAL
    if computes.early is not None:
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        words[0, 1:] |= (place[computes.early[1:]] <= arrived[:-1]).astype(np.int64) << PREFETCH
    if computes.freed is not None:
        needed, waits = _growth(computes.freed)
        words[0] |= waits * (store_bit << WAIT)
        store_words = store_words.copy()
        store_words[0, needed[waits]] |= bit << SIGNAL

    # What a STORE needs.
    words[0, stores.after] |= store_bit << SIGNAL
    store_words = store_words | np.array([[bit << WAIT], [0], [0], [0]])

    if count > lead:
        behind = behind.copy()
        behind[lead:] = np.maximum(behind[lead:], due[:-lead] - 1)
    keys = np.concatenate([4 * behind + 4, 4 * np.arange(total) + 2, 4 * stores.after + 3])
    merged = np.argsort(keys, kind="stable")
    program = np.concatenate([load_words, words, store_words], axis=1)[:, merged]
    positions = np.flatnonzero((merged >= count) & (merged < count + total))
    return np.concatenate([program, END_WORD], axis=1), positions


def _growth(needs: Indices) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the largest need so far, and where it grows."""
    needed = np.maximum.accumulate(needs)
    grows = np.empty(len(needed), bool)
    grows[:1] = needed[:1] >= 0
    np.greater(needed[1:], needed[:-1], out=grows[1:])
    return needed, grows
