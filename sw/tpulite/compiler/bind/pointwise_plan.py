"""Tiles of vector layers in networks: their tensors are in DRAM or in the buffer."""

from dataclasses import dataclass

from tpulite.arch.isa import VECTOR
from tpulite.compiler.plan.closed_forms import Number, both, ceil_div, least, most, root
from tpulite.compiler.plan.pointwise import SLOTS, PointwiseFacts, pointwise_plans
from tpulite.compiler.plan.strategy import Room, Strategy

__all__ = ["Moved", "pointwise_strategies"]

_COLUMNS = VECTOR.limit("columns")

_SMALLEST = 256
"""Vectors of a slab, if there is room: less is hardly more than latency."""

_PARTS, _SHORTEST = 4, 80
"""Bands of what stays in the buffer, and vectors that each has at least."""

_START = 120  # cycles before anything can arrive
_LATENCY = 80  # of a tile beside its rows, from its place being free to that again
_LOAD, _STORE = 4, 4  # of a command beside its rows


def pointwise_strategies(
    facts: PointwiseFacts, pixels: Number, blocks: Number, grain: int, room: Room
) -> tuple[Strategy, ...]:
    """Return all ways to cut up ``blocks`` planes of ``pixels`` vectors each.

    A layer that is alone has the plans of :func:`pointwise_plans`. In chains tiles are ``bands``,
    parts of all planes, because readers go row by row; or ``slabs`` of one plane, if there is
    little room.

    Parameters
    ----------
    facts : PointwiseFacts
        The operator.
    pixels, blocks : int or array of int
        Vectors of a plane, and planes.
    grain : int
        Parts of planes begin at multiples of it.
    room : Room
        What may be taken.
    """
    if not room.chained:
        plans = pointwise_plans(facts, pixels, blocks, grain, room=room.rows)
        names = ("tiles", "parts", "tile_blocks", "tile_pixels", "slot_rows", "needed_rows")
        return tuple(
            Strategy(
                plan.name,
                plan.feasible,
                plan.cycles,
                plan.traffic,
                {name: getattr(plan, name) for name in names}
                | {"tile_rows": SLOTS * plan.slot_rows + facts.common_rows},
            )
            for plan in plans
        )
    slot = (room.rows - facts.common_rows) // SLOTS
    moved = Moved.of(facts, room)
    best = root(pixels * blocks * (facts.overhead + _LOAD) // 2)
    limits = slot, best, grain
    bands = _parts("bands", facts, moved, (pixels, blocks), blocks, limits)
    if bands.feasible:
        return (bands,)
    return (_parts("slabs", facts, moved, (pixels, blocks), 1, limits),)


@dataclass(frozen=True)
class Moved:
    """What of a tile takes rows of the buffer.

    Parameters
    ----------
    loaded, stored : int
        Tensors that come from DRAM, and that go there.
    per_block : int
        Rows of a channel block besides.
    """

    loaded: int
    stored: int
    per_block: int

    @classmethod
    def of(cls, facts: PointwiseFacts, room: Room) -> "Moved":
        """Return what a layer moves."""
        loaded = sum(room.sources[: facts.operands])
        fetched = facts.broadcast and room.sources[1]
        return cls(loaded, int(room.stored), facts.block_rows + fetched)

    @property
    def each(self) -> int:
        """Rows of a vector: results lie in the place of an operand, if one is loaded."""
        return max(self.loaded, self.stored)


def _parts(
    name: str,
    facts: PointwiseFacts,
    moved: Moved,
    extents: tuple[Number, Number],
    tile_blocks: Number,
    limits: tuple[Number, Number, int],
) -> Strategy:
    """Cut planes into parts; a tile is a part of some of them."""
    (pixels, blocks), (slot, best, grain) = extents, limits
    per_block, each = moved.per_block, moved.each
    fit = (slot - tile_blocks * per_block) // most(tile_blocks * each, 1)
    fit = least(fit, _COLUMNS) // grain * grain
    wanted = most(least(best // tile_blocks, fit), least(fit, _SMALLEST // tile_blocks))
    if name == "bands" and not each:  # nothing is moved, but the next layer waits
        wanted = ceil_div(pixels, most(least(_PARTS, pixels // _SHORTEST), 1))
    units = ceil_div(pixels, grain)
    parts = ceil_div(units, most(wanted // grain, 1))
    tile_pixels = least(ceil_div(units, parts) * grain, pixels)
    tiles = blocks // tile_blocks * parts
    slot_rows = tile_blocks * (tile_pixels * each + per_block)
    return Strategy(
        name,
        both(fit >= grain, tile_blocks <= _COLUMNS),
        _cycles(facts, moved, tiles, tile_blocks, tile_pixels),
        pixels * blocks * (moved.loaded + moved.stored) + tiles * tile_blocks * per_block,
        {
            "tiles": tiles,
            "parts": parts,
            "tile_blocks": tile_blocks,
            "tile_pixels": tile_pixels,
            "slot_rows": slot_rows,
            "needed_rows": SLOTS * tile_blocks * (grain * each + per_block) + facts.common_rows,
            "tile_rows": SLOTS * slot_rows + facts.common_rows,
        },
    )


def _cycles(
    facts: PointwiseFacts, moved: Moved, tiles: Number, blocks: Number, pixels: Number
) -> Number:
    """Return the cycles of a pipeline of three stages whose tiles are alike."""
    rows = blocks * pixels
    loads = moved.loaded + (moved.per_block > facts.block_rows) + (facts.block_rows > 0)
    load = rows * moved.loaded + blocks * moved.per_block + loads * _LOAD
    commands = blocks if facts.block_rows else 1
    vector = rows * facts.config.vector_cycles + commands * facts.overhead
    store = moved.stored * (rows + _STORE)
    around = ceil_div(load + vector + store + _LATENCY, SLOTS)
    period = most(most(load, vector), most(store, around))
    start = _START + facts.common_rows + load + vector + store
    return start + (tiles - 1) * period
