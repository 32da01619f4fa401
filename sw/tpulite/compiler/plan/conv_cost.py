"""What products cost, as closed forms on ints or arrays: the arithmetic of all plans of CONVs."""

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.timing import LOAD_TOKEN, REQUANTIZER, sum_latency, tile_cycles
from tpulite.compiler.geometry.axis import Number, most

CONV_CYCLES = 3
"""Cycles of a CONV beside its weight tiles, in the mean: none is lost if its operands and tokens
are there, which is not always so."""

_KEPT = 3
"""Weights stay if they take at most a third of the buffer: strips of input and output need room,
twice, as some are loaded while others are computed."""


def product_cycles(
    tiles: Number, slots: Number, regions: Number, config: Config, *, int4: bool = False
) -> Number:
    """Return the cycles in which the array multiplies.

    Parameters
    ----------
    tiles : int or array of int
        Weight tiles.
    slots : int or array of int
        Slots of each of them, in all regions: see :class:`tpulite.arch.streams.Stream`.
    regions : int or array of int
        Parts of the output, each of which takes a tile as long as the next one's weights at least.
    int4 : bool
        Whether tiles are int4, which take half of the time.

    Examples
    --------
    >>> product_cycles(9, slots=100, regions=2, config=Config())
    900
    """
    return tiles * most(slots, regions * tile_cycles(1, config, int4))


def weights_latency(config: Config, *, int4: bool = False) -> int:
    """Return the cycles from the last row of a CONV's weights to its first slot."""
    return LOAD_TOKEN + tile_rows(int4, config) + 1


def result_latency(config: Config) -> int:
    """Return the cycles from a vector's slot in the last tile to its result in the buffer."""
    return sum_latency(config) + REQUANTIZER


def weights_stay(rows: int, config: Config) -> bool:
    """Return whether weights of so many rows stay in the buffer for all strips of a layer alone."""
    return rows <= config.ub_rows // _KEPT
