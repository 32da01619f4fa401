"""Tiles that pass through a ring of places: loaded, computed and stored side by side."""

from tpulite.arch.timing import (
    COMMAND_BEATS,
    END,
    FIRST_ROW,
    LOAD_LATENCY,
    LOAD_TOKEN,
    STORE_ANSWER,
    STORE_REQUEST,
    STORE_TOKEN,
)
from tpulite.compiler.geometry.axis import Number, ceil_div, most

_STORED = STORE_REQUEST + STORE_ANSWER + STORE_TOKEN
"""Cycles from the start of a STORE to its token, beside its rows."""

START = FIRST_ROW + _STORED + END
"""Cycles of a program beside its tiles: before the first row comes, and after the last one."""

TRANSFER_OVERHEAD = COMMAND_BEATS + LOAD_TOKEN
"""Cycles of a LOAD or STORE beside its rows: commands come through the channel of LOADs."""

AROUND = LOAD_LATENCY + LOAD_TOKEN + _STORED - 2
"""Cycles of a tile beside its rows, from its place being free to that again; LOAD and STORE have
their first row in their latencies."""


def ring_cycles(
    load: Number,
    compute: Number,
    store: Number,
    tiles: Number,
    slots: int,
    *,
    in_place: bool = False,
) -> Number:
    """Return the cycles of a program of tiles that are alike.

    Parameters
    ----------
    load, compute, store : int or array of int
        Cycles of a tile on each engine, commands included.
    tiles : int or array of int
        How many.
    slots : int
        Places of tiles.
    in_place : bool
        Whether a tile is computed in its place; else results have as many places of their own.
    """
    held = load + store if in_place else most(load, store)
    around = ceil_div(held + compute + AROUND, slots)
    period = most(most(load, compute), most(store, around))
    return START + load + compute + store + (tiles - 1) * period
