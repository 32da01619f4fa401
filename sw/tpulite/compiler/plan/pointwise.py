"""Tiles of layers that compute each vector from the same vector of their inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpulite.arch.config import Config
from tpulite.arch.effects import parameter_rows
from tpulite.arch.isa import VECTOR, VectorOp
from tpulite.arch.timing import row_cycles, vector_interval, vector_overhead
from tpulite.compiler.geometry.axis import Number, both, ceil_div, cuts, least, most, root
from tpulite.compiler.plan.ring import TRANSFER_OVERHEAD, ring_cycles
from tpulite.compiler.plan.slabs import Room, Strategy, cost
from tpulite.graph.layers import Affine, Elementwise, Lut

Pointwise = Affine | Elementwise | Lut

SLOTS = 4
"""Places of tiles: one is loaded, one computed, one stored, and one makes up for latencies."""

_COLUMNS = VECTOR.limit("columns")

_SMALLEST = 64
"""Vectors of a slab, if there is room: less is hardly more than latency."""

_PARTS, _SHORTEST = 4, 80
"""Bands of what stays in the buffer, and vectors that each has at least."""


@dataclass(frozen=True)
class PointwiseFacts:
    """What is known of a layer before its shape is."""

    config: Config  #: The machine.
    operation: VectorOp  #: What is computed.
    operands: int  #: Activations that are read vector by vector.
    broadcast: bool  #: Whether there is another one, of one vector a block.
    #: Rows of the parameters of a channel block; each needs a command of its own. 0: all blocks
    #: have the same parameters.
    block_rows: int
    kept: bool  #: Whether those of a block stay for all slabs of it, in a place of their own.
    common_rows: int  #: Rows of the parameters of all blocks.

    @property
    def overhead(self) -> int:
        """Cycles of a VECTOR beside its vectors."""
        return vector_overhead(self.operation, self.config)

    @property
    def pace(self) -> int:
        """Cycles of a vector: a maximum reads its operands one after the other."""
        window = self.operands if self.operation == VectorOp.MAX else 1
        return vector_interval(self.operation, window, self.config)


def pointwise_facts(
    layer: Pointwise,
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
    kept : bool
        See :class:`PointwiseFacts`.
    """
    operation, broadcast = layer.vector_op, len({*shapes}) > 1
    rows = parameter_rows(operation, config)
    per_block = operation == VectorOp.AFFINE
    return PointwiseFacts(
        config=config,
        operation=operation,
        operands=len(shapes) - broadcast,
        broadcast=broadcast,
        block_rows=rows if per_block else 0,
        kept=kept,
        common_rows=0 if per_block else rows,
    )


@dataclass(frozen=True)
class PointwisePlan:
    """One way to cut ``blocks`` planes of ``pixels`` vectors each; numbers are in closed form.

    A tile is ``tile_blocks`` planes of ``tile_pixels`` vectors, with its parameters. It is loaded,
    computed in place, and stored, while tiles before and behind it are elsewhere on this way.
    """

    #: ``planes``: whole planes, one or several at a time; ``slabs``: parts of one plane; ``bands``:
    #: parts of all planes.
    name: str
    feasible: Number  #: Whether there is room.
    cycles: Number  #: What it costs; of no meaning where it is not feasible.
    traffic: Number  #: Rows that it moves between DRAM and the unified buffer.
    slots: int  #: Places of tiles.
    #: How many, of all planes and of one.
    tiles: Number
    parts: Number
    #: Most planes and vectors of a tile.
    tile_blocks: Number
    tile_pixels: Number
    slot_rows: Number  #: Rows of the unified buffer that a tile takes.
    #: Rows of all places with all parameters, and those that the smallest tiles would need.
    tile_rows: Number
    needed_rows: Number
    common_rows: int  #: Rows of the parameters of all blocks.
    commands: Number  #: VECTORs.

    @property
    def strategy(self) -> Strategy:
        """The plan as ranges of shapes choose among."""
        names = ("tiles", "parts", "tile_blocks", "tile_pixels", "slot_rows", "tile_rows")
        sizes = {name: getattr(self, name) for name in (*names, "needed_rows")}
        return Strategy(self.name, self.feasible, self.cycles, self.traffic, sizes)

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
    room: Room,
    slots: int = SLOTS,
) -> tuple[PointwisePlan, ...]:
    """Return all ways to cut up ``blocks`` planes of ``pixels`` vectors each.

    The size of a tile is where its fixed costs and the time to fill and drain the pipeline are
    equal, if the buffer permits. A layer by itself may be cut into planes or slabs; in chains tiles
    are bands, because readers go row by row, or slabs if there is little room.

    Parameters
    ----------
    pixels, blocks : int or array of int
        Vectors of a plane, and planes.
    grain : int
        Parts of planes begin at multiples of it.
    room : Room
        What may be taken.
    slots : int, optional
        Places of tiles.
    """
    job = _Job.of(facts, pixels, blocks, room, slots)
    if not room.chained:
        return _planes(job), _parts(job, "slabs", 1, grain)
    bands = _parts(job, "bands", blocks, grain)
    return (bands,) if bands.feasible else (_parts(job, "slabs", 1, grain),)


def best_pointwise_plan(
    facts: PointwiseFacts, pixels: int, blocks: int, grain: int, *, room: int, slots: int = SLOTS
) -> PointwisePlan:
    """Return the cheapest plan for one shape, with fewer places where there is little room.

    All activations are in DRAM. The last resort is one place of the smallest tile, for which there
    may be no room either. Parameters are those of :func:`pointwise_plans`; ``slots`` are the most
    places.
    """
    plans = [
        plan
        for places in range(slots, 0, -1)
        for plan in pointwise_plans(facts, pixels, blocks, grain, Room(room), places)
    ]
    feasible = (plan for plan in plans if plan.feasible)
    return min(feasible, key=lambda plan: cost(plan.cycles, plan.traffic), default=plans[-1])


@dataclass(frozen=True)
class _Job:
    """What is cut, what of it moves, and the tile that would be best if there were room.

    ``loaded`` and ``stored`` are tensors, ``own`` rows of the parameters of a block in a tile,
    ``loads`` LOADs of a tile, ``best`` vectors.
    """

    facts: PointwiseFacts
    pixels: Number
    blocks: Number
    chained: bool
    room: int
    slots: int
    loaded: int
    stored: int
    fetched: int
    best: Number

    @classmethod
    def of(
        cls, facts: PointwiseFacts, pixels: Number, blocks: Number, room: Room, slots: int
    ) -> "_Job":
        loaded = sum(room.sources[: facts.operands])
        busy = loaded > facts.pace  # with LOADs
        fixed = TRANSFER_OVERHEAD * loaded if busy else facts.overhead + TRANSFER_OVERHEAD
        total = pixels * blocks
        return cls(
            facts=facts,
            pixels=pixels,
            blocks=blocks,
            chained=room.chained,
            room=max(room.rows - facts.common_rows, 0),
            slots=slots,
            loaded=loaded,
            stored=int(room.stored),
            fetched=int(facts.broadcast and room.sources[1]),
            best=root(total * fixed // 2) if slots > 1 else total,
        )

    @property
    def each(self) -> int:
        """Rows of a vector: results lie in the place of an operand, if one is loaded."""
        return max(self.loaded, self.stored)

    def plan(
        self, name: str, feasible: Number, sizes: tuple[Number, ...], own: int, needed: Number
    ) -> PointwisePlan:
        """Return a plan; ``own`` are the rows of a block beside its vectors in a tile."""
        facts, slots, (tiles, parts, tile_blocks, tile_pixels) = self.facts, self.slots, sizes
        paces = row_cycles(facts.config), facts.pace
        rows, once = tile_blocks * tile_pixels, self.fetched + facts.block_rows - own
        loads = self.loaded + self.fetched + (own > self.fetched)
        load = (rows * self.loaded + tile_blocks * own) * paces[0] + loads * TRANSFER_OVERHEAD
        compute = rows * paces[1] + (tile_blocks if facts.block_rows else 1) * facts.overhead
        store = self.stored * (rows * paces[0] + TRANSFER_OVERHEAD)
        slot_rows = tile_blocks * (tile_pixels * self.each + own)
        moved = self.pixels * self.blocks * (self.loaded + self.stored)
        return PointwisePlan(
            name,
            feasible,
            facts.common_rows + ring_cycles(load, compute, store, tiles, slots, in_place=True),
            moved + tiles * tile_blocks * own + self.blocks * once,
            slots,
            tiles,
            parts,
            tile_blocks,
            tile_pixels,
            slot_rows,
            slots * slot_rows + facts.common_rows,
            needed + facts.common_rows,
            facts.common_rows,
            tiles * (tile_blocks if facts.block_rows else 1),
        )


def _planes(job: _Job) -> PointwisePlan:
    """Cut into whole planes."""
    pixels, own = job.pixels, job.fetched + job.facts.block_rows
    plane = pixels * job.each + own
    fit = job.room // job.slots // plane
    wanted = most(job.best // pixels, 1)
    tile_blocks = most(least(least(fit, wanted), least(job.blocks, _COLUMNS)), 1)
    tiles = ceil_div(job.blocks, tile_blocks)
    feasible = both(fit >= 1, pixels <= _COLUMNS)
    sizes = tiles, 1, ceil_div(job.blocks, tiles), pixels
    return job.plan("planes", feasible, sizes, own, job.slots * plane)


def _parts(job: _Job, name: str, tile_blocks: Number, grain: int) -> PointwisePlan:
    """Cut planes into parts; a tile is a part of some of them."""
    pixels, slots, kept = job.pixels, job.slots, job.facts.kept
    own = job.fetched + (0 if kept else job.facts.block_rows)
    held = job.facts.block_rows * (1 if slots == 1 else least(job.blocks, 2)) if kept else 0
    fit = (job.room - held) // slots - tile_blocks * own
    fit = least(fit // most(tile_blocks * job.each, 1), _COLUMNS) // grain * grain
    wanted = most(least(job.best // tile_blocks, fit), least(fit, _SMALLEST // tile_blocks))
    if job.chained and not job.each:  # nothing is moved, but the next layer waits
        wanted = ceil_div(pixels, most(least(_PARTS, pixels // _SHORTEST), 1))
    units = ceil_div(pixels, grain)
    parts = ceil_div(units, most(wanted // grain, 1))
    tile_pixels = least(ceil_div(units, parts) * grain, pixels)
    feasible = both(fit >= grain, tile_blocks <= _COLUMNS)
    sizes = job.blocks // tile_blocks * parts, parts, tile_blocks, tile_pixels
    needed = slots * tile_blocks * (grain * job.each + own) + held
    return job.plan(name, feasible, sizes, own, needed)
