"""Tiles of layers that compute each vector from the same vector of their inputs, all in DRAM."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import VECTOR
from tpulite.compiler.plan.closed_forms import Number, both, ceil_div, cuts, least, most, root
from tpulite.graph.layers import Affine, Elementwise, Lut

__all__ = [
    "POINTWISE",
    "SLOTS",
    "PointwiseFacts",
    "PointwisePlan",
    "best_pointwise_plan",
    "pointwise_facts",
    "pointwise_plans",
]

POINTWISE = (Affine, Elementwise, Lut)
"""Layers whose output may be made in the place of an input, vector by vector."""

SLOTS = 4
"""Places of tiles: one is loaded, one computed, one stored, and one makes up for latencies."""

_COLUMNS = next(field.range[-1] for field in VECTOR.fields if field.name == "columns")

_SMALLEST = 64
"""Vectors of a slab, if there is room: less is hardly more than latency."""

_START = 120  # cycles before anything can arrive
_LATENCY = 80  # of a tile beside its rows, from its place being free to that again
_LOAD, _STORE = 4, 4  # of a command beside its rows
_OVERHEAD = 20  # of a VECTOR beside its vectors and parameters

_TRAFFIC = 32
"""Rows of traffic that count as a cycle: between plans that are equally fast, it decides."""


@dataclass(frozen=True)
class PointwiseFacts:
    """What is known of a layer before its shape is.

    Parameters
    ----------
    config : Config
        The machine.
    operands : int
        Activations that are loaded vector by vector.
    broadcast : bool
        Whether there is another one, of one vector a block.
    block_rows : int
        Rows of the parameters of a channel block; each needs a command of its own. 0: all blocks
        have the same parameters.
    kept : bool
        Whether those of a block stay for all slabs of it, in a place of their own.
    common_rows : int
        Rows of the parameters of all blocks.
    overhead : int
        Cycles of a VECTOR beside its vectors.
    """

    config: Config
    operands: int
    broadcast: bool
    block_rows: int
    kept: bool
    common_rows: int
    overhead: int


def pointwise_facts(
    layer: Affine | Elementwise | Lut,
    shapes: Sequence[tuple[int, int, int]],
    config: Config,
    *,
    kept: bool = True,
) -> PointwiseFacts:
    """Return the facts of a layer that reads activations of these shapes.

    Parameters
    ----------
    layer : Affine, Elementwise or Lut
        The layer.
    shapes : sequence of (int, int, int)
        Extents of what it reads, each activation once; the second one may be a vector a block.
    config : Config
        The machine.
    kept : bool
        See :class:`PointwiseFacts`.
    """
    affine = isinstance(layer, Affine)
    block_rows, common_rows = config.record_rows if affine else 0, 0
    if isinstance(layer, Lut):
        common_rows = ceil_div(len(layer.table), config.row_bytes)
    elif isinstance(layer, Elementwise):
        common_rows = 2 * ceil_div(RECORD_BYTES, config.row_bytes)
    broadcast = len({*shapes}) > 1
    return PointwiseFacts(
        config=config,
        operands=len(shapes) - broadcast,
        broadcast=broadcast,
        block_rows=block_rows,
        kept=kept,
        common_rows=common_rows,
        overhead=_OVERHEAD + block_rows + common_rows,
    )


@dataclass(frozen=True)
class PointwisePlan:
    """One way to cut ``blocks`` planes of ``pixels`` vectors each; numbers are in closed form.

    A tile is ``tile_blocks`` planes of ``tile_pixels`` vectors, with its parameters. It is loaded,
    computed in place, and stored, while tiles before and behind it are elsewhere on this way.

    Parameters
    ----------
    name : str
        ``planes``: whole planes, one or several at a time; ``slabs``: parts of one plane.
    feasible : bool or array of bool
        Whether there is room.
    cycles : int or array of int
        What it costs; of no meaning where it is not feasible.
    traffic : int or array of int
        Rows that it moves between DRAM and the unified buffer.
    slots : int
        Places of tiles.
    tiles, parts : int or array of int
        How many, of all planes and of one.
    tile_blocks, tile_pixels : int or array of int
        Most planes and vectors of a tile.
    slot_rows : int or array of int
        Rows of the unified buffer that a tile takes.
    needed_rows : int or array of int
        Rows that its smallest tiles need, all that are there at a time.
    """

    name: str
    feasible: Number
    cycles: Number
    traffic: Number
    slots: int
    tiles: Number
    parts: Number
    tile_blocks: Number
    tile_pixels: Number
    slot_rows: Number
    needed_rows: Number

    @property
    def cost(self) -> Number:
        """Cycles; between plans that are equally fast, traffic decides."""
        return self.cycles + self.traffic // _TRAFFIC

    def cuts(self, blocks: int, pixels: int, grain: int) -> tuple[tuple[range, range], ...]:
        """Return planes and vectors of each tile, in order, of the extents that it was made for."""
        planes = pairwise(cuts(blocks, self.tiles // self.parts, 1).tolist())
        parts = tuple(pairwise(cuts(pixels, self.parts, grain).tolist()))
        return tuple((range(*some), range(*part)) for some in planes for part in parts)


def pointwise_plans(
    facts: PointwiseFacts,
    pixels: Number,
    blocks: Number,
    grain: int,
    *,
    room: int | None = None,
    slots: int = SLOTS,
) -> tuple[PointwisePlan, ...]:
    """Return all ways to cut up ``blocks`` planes of ``pixels`` vectors each.

    The size of a tile is where its fixed costs and the time to fill and drain the pipeline are
    equal, if the buffer permits.

    Parameters
    ----------
    facts : PointwiseFacts
        The layer.
    pixels, blocks : int or array of int
        Vectors of a plane, and planes.
    grain : int
        Parts of planes begin at multiples of it.
    room : int, optional
        Rows of the unified buffer that there are; without, all.
    slots : int, optional
        Places of tiles.
    """
    config = facts.config
    room = config.ub_rows if room is None else room
    room = max(room - facts.common_rows, 0)
    slot = room // slots
    per_block = facts.block_rows + facts.broadcast
    total = pixels * blocks
    traffic = total * (facts.operands + 1) + blocks * per_block
    loads = facts.operands > config.vector_cycles
    fixed = _LOAD * facts.operands if loads else facts.overhead + _LOAD
    best = root(total * fixed // 2) if slots > 1 else total

    # Whole planes.
    plane = pixels * facts.operands + per_block
    fit = slot // plane
    wanted = most(best // pixels, 1)
    tile_blocks = most(least(least(fit, wanted), least(blocks, _COLUMNS)), 1)
    tiles = ceil_div(blocks, tile_blocks)
    tile_blocks = ceil_div(blocks, tiles)
    planes = PointwisePlan(
        "planes",
        feasible=both(fit >= 1, pixels <= _COLUMNS),
        cycles=_cycles(facts, slots, tiles, tile_blocks, pixels, per_block),
        traffic=traffic,
        slots=slots,
        tiles=tiles,
        parts=1,
        tile_blocks=tile_blocks,
        tile_pixels=pixels,
        slot_rows=tile_blocks * plane,
        needed_rows=slots * plane + facts.common_rows,
    )

    # Slabs of a plane.
    own = facts.broadcast if facts.kept else per_block
    held = (per_block - own) * (1 if slots == 1 else least(blocks, 2))  # beside the places
    fit = least((room - held) // slots - own, _COLUMNS * facts.operands) // facts.operands
    fit = fit // grain * grain
    wanted = most(least(best, fit), least(fit, _SMALLEST))
    units = ceil_div(pixels, grain)
    parts = ceil_div(units, most(wanted // grain, 1))
    tile_pixels = least(ceil_div(units, parts) * grain, pixels)
    slabs = PointwisePlan(
        "slabs",
        feasible=fit >= grain,
        cycles=_cycles(facts, slots, blocks * parts, 1, tile_pixels, own),
        traffic=traffic + (blocks * (parts - 1) * (own - facts.broadcast)),
        slots=slots,
        tiles=blocks * parts,
        parts=parts,
        tile_blocks=1,
        tile_pixels=tile_pixels,
        slot_rows=tile_pixels * facts.operands + own,
        needed_rows=slots * (grain * facts.operands + own) + held + facts.common_rows,
    )
    return planes, slabs


def best_pointwise_plan(
    facts: PointwiseFacts, pixels: int, blocks: int, grain: int, *, room: int, slots: int = SLOTS
) -> PointwisePlan:
    """Return the cheapest plan for one shape, with fewer places where there is little room.

    The last resort is one place of the smallest tile, for which there may be no room either.
    Parameters are those of :func:`pointwise_plans`; ``slots`` are the most places.
    """
    plans = [
        plan
        for places in range(slots, 0, -1)
        for plan in pointwise_plans(facts, pixels, blocks, grain, room=room, slots=places)
    ]
    return min(
        (plan for plan in plans if plan.feasible), key=lambda plan: plan.cost, default=plans[-1]
    )


def _cycles(
    facts: PointwiseFacts, slots: int, tiles: Number, blocks: Number, pixels: Number, own: Number
) -> Number:
    """Return the cycles of a pipeline of three stages whose tiles are alike.

    ``own`` are the rows that a tile loads for a block beside its activations.
    """
    rows = blocks * pixels
    loads = facts.operands + facts.broadcast + (own > facts.broadcast)
    load = rows * facts.operands + blocks * own + loads * _LOAD
    commands = blocks if facts.block_rows else 1
    vector = rows * facts.config.vector_cycles + commands * facts.overhead
    store = rows + _STORE
    around = ceil_div(load + vector + store + _LATENCY, slots)
    period = most(most(load, vector), most(store, around))
    start = _START + facts.common_rows + load + vector + store
    return start + (tiles - 1) * period
