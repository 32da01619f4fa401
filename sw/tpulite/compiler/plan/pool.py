"""Tiles of pooling layers."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.timing import row_cycles, vector_overhead, vector_pace
from tpulite.compiler.geometry.axis import Axis1D, Number, both, ceil_div, least, most, pick, root
from tpulite.compiler.plan.pool_windows import MOST_VECTORS
from tpulite.compiler.plan.ring import TRANSFER_OVERHEAD, ring_cycles
from tpulite.compiler.plan.slabs import Room, Strategy, WindowedRows, slab_modes

_SLOTS = 3
"""Places of tiles of the input, and as many of the output: for what is loaded, computed, stored."""


@dataclass(frozen=True)
class PoolFacts:
    """What is known of a pooling layer before its shape is."""

    config: Config  #: The machine.
    #: Geometry.
    y: Axis1D
    x: Axis1D
    record_rows: int  #: Rows of the buffer for its records.
    operation: VectorOp  #: What is computed.


def pool_rows(
    facts: PoolFacts, batch: Number, height: Number, width: Number, room: Room
) -> WindowedRows:
    """Return the rows that are cut into slabs; what is in the buffer begins at any row."""
    axes = facts.y, facts.x
    return WindowedRows.under((batch, height, width), axes, facts.config.row_bytes, room)


def pool_strategies(
    facts: PoolFacts,
    extents: tuple[Number, Number, Number],
    blocks: Number,
    room: Room,
) -> tuple[Strategy, ...]:
    """Return all ways to cut up a batch of images.

    A tile is a slab of output rows of all channel blocks (``rows``) or of one (``block``), with
    the input rows that its windows cover; or, where a row is too long, part of its columns
    (``panel``). If the buffer is too small for several tiles, there is one at a time (``lone``).
    """
    batch, height, width = extents
    space, sourced, stored = room.rows - facts.record_rows, int(room.sources[0]), int(room.stored)
    rows = pool_rows(facts, batch, height, width, room)
    overhead = vector_overhead(facts.operation, facts.config)
    columns = facts.x.outputs(width)
    strategies = []
    kinds = (("rows", blocks, _SLOTS), ("block", 1, _SLOTS), ("lone block", 1, 1))
    if not sourced and not stored:
        kinds = kinds[:1]  # nothing is moved
    for name, tile_blocks, slots in kinds:
        # Where the fixed costs of a tile and the time to fill and drain the pipeline are equal.
        fill = tile_blocks * most(sourced * width * facts.y.stride + stored * columns, 1)
        commands = tile_blocks * (facts.x.clipped + 1)
        total = batch * rows.out_height * blocks // tile_blocks
        wanted = most(root(total * commands * overhead // fill), 1)
        for slabs in slab_modes(
            rows,
            in_cost=sourced * slots * tile_blocks * width,
            out_cost=stored * slots * tile_blocks * columns,
            room=space,
            limit=MOST_VECTORS,
            wanted=wanted,
        ):
            sizes = {
                **slabs.sizes,
                "slots": slots,
                "panels": 1,
                "groups": blocks // tile_blocks,
                "tile_blocks": tile_blocks,
                "in_columns": width,
                "out_columns": columns,
                "needed_rows": slabs.needed + facts.record_rows,
            }
            sizes |= _places(facts, sizes, room)
            strategies.append(
                Strategy(
                    f"{name}/{slabs.mode}",
                    both(slabs.feasible, columns <= MOST_VECTORS, tile_blocks <= MOST_VECTORS),
                    *_cost(facts, sizes, (batch, height, width), blocks),
                    sizes,
                )
            )
    if not (sourced and stored):
        return tuple(strategies)
    for name, slots in (("panel", _SLOTS), ("lone panel", 1)):
        panels = _panels(f"{name}/image", slots, facts, rows, (width, columns), blocks, room)
        strategies.append(panels)
    return tuple(strategies)


def _places(facts: PoolFacts, sizes: Mapping[str, Number], room: Room) -> dict[str, Number]:
    """Return the rows of a place of the input and of the output; of a tensor in the buffer, 0."""
    blocks, slots = sizes["tile_blocks"], sizes["slots"]
    inputs = room.sources[0] * blocks * sizes["in_rows"] * sizes["in_columns"]
    outputs = room.stored * blocks * sizes["slab_rows"] * sizes["out_columns"]
    return {
        "in_slot": inputs,
        "out_slot": outputs,
        "tile_rows": slots * (inputs + outputs) + facts.record_rows,
    }


def _panels(
    name: str,
    slots: int,
    facts: PoolFacts,
    rows: WindowedRows,
    widths: tuple[Number, Number],
    blocks: Number,
    room: Room,
) -> Strategy:
    """Cut rows along the width: a tile is part of one output row of one block."""
    width, columns = widths
    unit = BEAT_BYTES // min(BEAT_BYTES, facts.config.row_bytes)
    in_rows = least(facts.y.reach, rows.height)
    # A panel of c columns reads (c - 1) * stride + extent, and begins at a beat.
    fixed = facts.x.reach - facts.x.stride + unit - 1
    space = room.rows - facts.record_rows
    fit = (space // slots - in_rows * fixed) // (in_rows * facts.x.stride + 1)
    size = least(least(fit, MOST_VECTORS), columns)
    panels = ceil_div(ceil_div(columns, unit), most(size // unit, 1))
    out_columns = least(ceil_div(ceil_div(columns, unit), panels) * unit, columns)
    in_columns = least((out_columns - 1) * facts.x.stride + facts.x.reach + unit - 1, width)
    slabs = rows.batch * rows.out_height
    sizes = {
        "slots": slots,
        "slabs": slabs,
        "parts": rows.out_height,
        "slab_rows": 1,
        "in_rows": in_rows,
        "panels": panels,
        "groups": blocks,
        "tile_blocks": 1,
        "in_columns": in_columns,
        "out_columns": out_columns,
        "needed_rows": slots * (in_rows * (unit * facts.x.stride + fixed) + unit)
        + facts.record_rows,
    }
    sizes |= _places(facts, sizes, room)
    return Strategy(
        name,
        both(
            rows.in_bytes % BEAT_BYTES == 0,
            rows.out_bytes % BEAT_BYTES == 0,
            size >= least(unit, columns),
        ),
        *_cost(facts, sizes, (rows.batch, rows.height, width), blocks),
        sizes,
    )


def _cost(
    facts: PoolFacts, sizes: dict[str, Number], extents: tuple[Number, ...], blocks: Number
) -> tuple[Number, Number]:
    """Return the cycles of a pipeline of three stages, and the rows that it moves."""
    batch, height, width = extents
    out_height, columns = facts.y.outputs(height), facts.x.outputs(width)
    vectors = out_height * columns * vector_pace(facts.operation, facts.config)
    tiles = sizes["slabs"] * sizes["panels"] * sizes["groups"]
    # Pieces of both axes in which windows are alike.
    pieces = []
    for axis, size, outputs in ((facts.y, height, out_height), (facts.x, width, columns)):
        first, stop = axis.whole(size)
        pieces.append((outputs - stop + first, least(stop - first, 1), stop - first))
    down = batch * (pieces[0][0] + pieces[0][1]) + most(sizes["slabs"] - batch, 0)
    across = pieces[1][0] + pieces[1][1] + sizes["panels"] - 1
    rows_are_blocks = (sizes["slab_rows"] == 1) | (pieces[0][2] <= 1)
    commands = down * across * pick(rows_are_blocks, sizes["groups"], blocks)
    windows = most(facts.y.covered(height) * facts.x.covered(width), vectors)
    work = batch * blocks * windows + commands * vector_overhead(facts.operation, facts.config)
    rows_of_tile = sizes["tile_blocks"] * sizes["slab_rows"] * sizes["out_columns"]
    loads_of_tile = sizes["tile_blocks"] * sizes["in_rows"] * sizes["in_columns"]
    rows = row_cycles(facts.config)
    load, store = loads_of_tile * rows + TRANSFER_OVERHEAD, rows_of_tile * rows + TRANSFER_OVERHEAD
    cycles = ring_cycles(load, work // tiles, store, tiles, sizes["slots"])
    return cycles, tiles * (loads_of_tile + rows_of_tile)
