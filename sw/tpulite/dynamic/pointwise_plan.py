"""Tiles of operators that compute each vector from the same vector of their inputs."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.arch.isa import VECTOR
from tpulite.compiler.plan.closed_forms import Number, both, ceil_div, least, most, root
from tpulite.dynamic.selector import Strategy

__all__ = ["SLOTS", "PointwiseFacts", "pointwise_strategies"]

SLOTS = 4
"""Places of tiles: one is loaded, one computed, one stored, and one makes up for latencies."""

_COLUMNS = next(field.range[-1] for field in VECTOR.fields if field.name == "columns")

_SMALLEST = 256
"""Vectors of a slab, if there is room: less is hardly more than latency."""

_START = 120  # cycles before anything can arrive
_LATENCY = 80  # of a tile beside its rows, from its place being free to that again
_LOAD, _STORE = 4, 4  # of a command beside its rows


@dataclass(frozen=True)
class PointwiseFacts:
    """What is known of an operator before its shape is.

    Parameters
    ----------
    config : Config
        The machine.
    operands : int
        Images that are loaded vector by vector.
    broadcast : bool
        Whether there is another one, of one vector a block.
    block_rows : int
        Rows of the parameters of a channel block; each needs a command of its own. 0: all blocks
        have the same parameters.
    common_rows : int
        Rows of the parameters of all blocks.
    overhead : int
        Cycles of a VECTOR beside its vectors.
    """

    config: Config
    operands: int
    broadcast: bool
    block_rows: int
    common_rows: int
    overhead: int


def pointwise_strategies(
    facts: PointwiseFacts, pixels: Number, blocks: Number, grain: int
) -> tuple[Strategy, ...]:
    """Return all ways to cut up ``blocks`` planes of ``pixels`` vectors each.

    A tile is ``tile_blocks`` planes of ``tile_pixels`` vectors, with its parameters. It is loaded,
    computed in place, and stored. The strategies are

    - ``planes``: whole planes, one or several at a time;
    - ``slabs``: parts of one plane.

    The size of a tile is where its fixed costs and the time to fill and drain the pipeline are
    equal, if the buffer permits.

    Parameters
    ----------
    facts : PointwiseFacts
        The operator.
    pixels, blocks : int or array of int
        Vectors of a plane, and planes.
    grain : int
        Parts of planes begin at multiples of it.
    """
    config = facts.config
    slot = (config.ub_rows - facts.common_rows) // SLOTS
    per_block = facts.block_rows + facts.broadcast
    total = pixels * blocks
    traffic = total * (facts.operands + 1) + blocks * per_block
    best = root(total * (facts.overhead + _LOAD) // 2)

    # Whole planes.
    plane = pixels * facts.operands + per_block
    fit = slot // plane
    wanted = most(best // pixels, 1)
    tile_blocks = least(least(fit, wanted), least(blocks, _COLUMNS))
    tiles = ceil_div(blocks, most(tile_blocks, 1))
    tile_blocks = ceil_div(blocks, tiles)
    planes = Strategy(
        "planes",
        both(fit >= 1, pixels <= _COLUMNS),
        _cycles(facts, tiles, tile_blocks, pixels),
        traffic,
        {
            "tiles": tiles,
            "tile_blocks": tile_blocks,
            "tile_pixels": pixels,
            "slot_rows": tile_blocks * plane,
            "needed_rows": SLOTS * plane + facts.common_rows,
        },
    )

    # Slabs of a plane.
    fit = min((slot - per_block) // facts.operands, _COLUMNS) // grain * grain
    wanted = most(least(best, fit), min(fit, _SMALLEST))
    units = ceil_div(pixels, grain)
    parts = ceil_div(units, most(wanted // grain, 1))
    tile_pixels = least(ceil_div(units, parts) * grain, pixels)
    slabs = Strategy(
        "slabs",
        fit >= grain,
        _cycles(facts, blocks * parts, 1, tile_pixels),
        traffic + blocks * (parts - 1) * facts.block_rows,
        {
            "tiles": blocks * parts,
            "parts": parts,
            "tile_blocks": 1,
            "tile_pixels": tile_pixels,
            "slot_rows": tile_pixels * facts.operands + per_block,
            "needed_rows": SLOTS * (grain * facts.operands + per_block) + facts.common_rows,
        },
    )
    return planes, slabs


def _cycles(facts: PointwiseFacts, tiles: Number, blocks: Number, pixels: Number) -> Number:
    """Return the cycles of a pipeline of three stages whose tiles are alike."""
    rows = blocks * pixels
    loads = facts.operands + facts.broadcast + (facts.block_rows > 0)
    load = rows * facts.operands + blocks * (facts.block_rows + facts.broadcast) + loads * _LOAD
    commands = blocks if facts.block_rows else 1
    vector = rows * facts.config.vector_cycles + commands * facts.overhead
    store = rows + _STORE
    around = ceil_div(load + vector + store + _LATENCY, SLOTS)
    period = most(most(load, vector), most(store, around))
    start = _START + facts.common_rows + load + vector + store
    return start + (tiles - 1) * period
