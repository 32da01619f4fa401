"""Plans of convolutions of any shape: slabs and tiles in rings of places."""

from collections.abc import Mapping
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Drain
from tpulite.arch.timing import (
    COMMAND_BEATS,
    DISPATCH,
    END,
    FIRST_ROW,
    STORE_ANSWER,
    STORE_REQUEST,
    STORE_TOKEN,
    conv_latency,
)
from tpulite.compiler.geometry.axis import (
    LARGEST_EXTENT,
    Number,
    both,
    ceil_div,
    least,
    most,
    pick,
    root,
)
from tpulite.compiler.geometry.cut import PARTS, SMALLEST_PART
from tpulite.compiler.plan.conv_cost import CONV_CYCLES, product_cycles, weights_latency
from tpulite.compiler.plan.conv_facts import ActivationExtents, ConvFacts
from tpulite.compiler.plan.ring import AROUND
from tpulite.compiler.plan.slabs import Room, Strategy, WindowedRows, slab_modes, unmet

STAYING = ("resident", "followed")
"""Kinds of strategies whose weights are loaded once."""

BY_TILE = (*STAYING, "streamed")
"""Kinds whose tiles have all channel blocks of their input."""

LARGE_UNITS = ("resident", "streamed")
"""Kinds that load weights in large units."""


class Slots(NamedTuple):
    """Places of slabs of the input, of their n-blocks of the output, and of units of weights."""

    inputs: int
    outputs: int
    weights: int


_SLOTS, _LONE = Slots(2, 3, 3), Slots(1, 1, 1)

_SHORTEST, _COVER = 40, 160
"""Of few outputs, vectors of a slab at least, and cycles of its products: less would not cover the
latencies of its LOAD and STOREs."""

_FEW = 320
"""Vectors up to which outputs are few: what is loaded first and last counts, and weights may come
block by block, because products wait for them."""

_STORE = STORE_REQUEST + STORE_ANSWER + STORE_TOKEN + END
"""From the last result to the end of a program, beside the rows of the last STORE."""


def slab_rows(facts: ConvFacts, extents: ActivationExtents, room: Room) -> WindowedRows:
    """Return the rows that are cut into slabs; what is in the buffer begins at any row."""
    size, y = facts.config.row_bytes, facts.y
    in_padding = y.reach <= max(y.before, y.after)
    return WindowedRows(
        extents.batch,
        extents.height,
        extents.out_height,
        y.stride,
        y.reach,
        extents.width * size if room.sources[0] else BEAT_BYTES,
        extents.out_width * size * facts.vector_rows if room.stored else BEAT_BYTES,
        y.before + y.after if in_padding else 0,
    )


def conv_strategies(
    facts: ConvFacts, extents: ActivationExtents, room: Room
) -> tuple[Strategy, ...]:
    """Return all ways to cut up a batch of images.

    - ``resident``: slabs of output rows, one after the other; all weights stay in the buffer;
    - ``followed``: the same, and weights come a channel block at a time, for few outputs: products
      follow them closely;
    - ``streamed``: slabs again, but the weights pass by, again for each slab;
    - ``tiles``: slabs of one channel block of the input at a time, and its weights: input and
      weights pass by, again for each n-block;
    - ``chunks``: the same with several channel blocks at a time, which several n-blocks share; in
      networks of several layers, for which there is no selector in C;
    - ``panels``: the same with part of the columns, where a row is too long;
    - ``lone tiles``, ``lone panels``: one at a time, if the buffer is too small for more.

    Lone tiles and panels are for shapes for which none of the others is feasible. A slab has at
    most as many output vectors as there are accumulators, if DRAM permits. Only the first three are
    for inputs that are in the buffer.
    """
    rows, width, columns = slab_rows(facts, extents, room), extents.width, extents.out_width
    accumulators = facts.config.acc_rows
    limit = least(most(accumulators // columns, 1), facts.tallest)
    vectors = facts.vector_rows * columns
    # Where the fixed costs of a slab and the time to fill and drain the pipeline are equal.
    total = extents.batch * extents.out_height
    sourced, stored = room.sources[0], int(room.stored)
    fill = most(sourced * facts.blocks * facts.y.stride * width + stored * vectors, 1)
    short = root(total * facts.n_blocks * (CONV_CYCLES + STORE_REQUEST + DISPATCH) // fill)
    few = total * columns <= _FEW
    shortest = pick(few, max(_SHORTEST, _COVER // facts.tiles), SMALLEST_PART)
    short = most(short, ceil_div(shortest, columns))
    if not sourced and not stored:  # nothing is moved, but the next layer waits
        parts = least(least(PARTS, total * columns // SMALLEST_PART), total)
        short = ceil_div(total, most(parts, 1))
    strategies = []
    large, small = facts.large.largest, facts.small.largest
    passing = ("tiles", _SLOTS, 1, limit, _SLOTS.weights * small)
    if sourced and room.chained and facts.chunks:
        passing = _chunks(facts, rows, (width, columns), limit, room)
    kinds = (
        ("resident", _SLOTS, facts.blocks, short, facts.large.total),
        ("followed", _SLOTS, facts.blocks, short, facts.small.total),
        ("streamed", _SLOTS, facts.blocks, limit, _SLOTS.weights * large),
        passing,
        ("lone tiles", _LONE, 1, limit, _LONE.weights * small),
    )
    for name, slots, blocks, wanted, weight_rows in kinds if sourced else kinds[:3]:
        if name == "followed" and (facts.small is facts.large or few is False):
            continue
        spare = slots is _LONE or (not sourced and room.chained)
        tried = unmet(strategies) if spare else True
        if tried is False:
            return tuple(strategies)
        if name == "followed":
            tried = both(tried, few)
        for slabs in slab_modes(
            rows,
            in_cost=sourced * slots.inputs * blocks * width,
            out_cost=stored * slots.outputs * vectors,
            room=room.rows - weight_rows,
            limit=limit,
            wanted=wanted,
        ):
            sizes = {
                **slabs.sizes,
                "slots": slots,
                "panels": 1,
                "in_columns": width,
                "out_columns": columns,
                "weight_rows": weight_rows,
                "needed_rows": slabs.needed + weight_rows,
            }
            if name == "chunks":
                vectors_of_slab = slabs.sizes["slab_rows"] * columns
                sizes["chunk"] = blocks
                sizes["beside"] = least(facts.n_blocks, most(accumulators // vectors_of_slab, 1))
            sizes |= _places(facts, slots, sizes, (width, columns), blocks, room)
            strategies.append(
                Strategy(
                    f"{name}/{slabs.mode}",
                    both(slabs.feasible, width <= LARGEST_EXTENT, tried),
                    *_cost(facts, extents, name, sizes, room),
                    sizes,
                )
            )
    if sourced and not facts.byte_step:
        for name, slots in (("panels", _SLOTS), ("lone panels", _LONE)):
            tried = unmet(strategies)
            if tried is False:
                break
            panels = _panels(name, slots, facts, extents, room)
            strategies.append(panels._replace(feasible=both(panels.feasible, tried)))
    return tuple(strategies)


def _chunks(
    facts: ConvFacts,
    rows: WindowedRows,
    columns: tuple[Number, Number],
    limit: Number,
    room: Room,
) -> tuple[str, Slots, Number, Number, Number]:
    """Return the kind of strategy whose tiles have as many channel blocks as there is room for."""
    outputs = least(limit, rows.batch * rows.out_height)
    inputs = least((outputs - 1) * rows.stride + rows.extent, rows.batch * rows.height)
    weights = facts.y.kernel * facts.x.kernel * facts.tile_rows
    space = room.rows - _SLOTS.weights * facts.record_rows
    space -= room.stored * _SLOTS.outputs * outputs * columns[1] * facts.vector_rows
    fit = space // (_SLOTS.inputs * inputs * columns[0] + _SLOTS.weights * weights)
    chunks = ceil_div(facts.blocks, most(least(fit, facts.most_chunk), 1))
    blocks = ceil_div(facts.blocks, chunks)
    return "chunks", _SLOTS, blocks, limit, _SLOTS.weights * (blocks * weights + facts.record_rows)


def _places(
    facts: ConvFacts,
    slots: Slots,
    sizes: Mapping[str, Number],
    columns: tuple[Number, Number],
    blocks: int,
    room: Room,
) -> dict[str, Number]:
    """Return the rows of a place of the input and of the output; of a tensor in the buffer, 0."""
    inputs = room.sources[0] * blocks * sizes["in_rows"] * columns[0]
    outputs = room.stored * sizes["slab_rows"] * columns[1] * facts.vector_rows
    return {
        "in_slot": inputs,
        "out_slot": outputs,
        "weights_at": slots.inputs * inputs + slots.outputs * outputs,
        "tile_rows": slots.inputs * inputs + slots.outputs * outputs + sizes["weight_rows"],
    }


def _panels(
    name: str, slots: Slots, facts: ConvFacts, extents: ActivationExtents, room: Room
) -> Strategy:
    """Cut rows along the width: a tile is part of one output row."""
    rows = slab_rows(facts, extents, room)
    columns, size = extents.out_width, facts.config.row_bytes
    y, x = facts.y, facts.x
    unit = BEAT_BYTES // min(BEAT_BYTES, size)
    weight_rows = slots.weights * facts.small.largest
    space, stored = room.rows - weight_rows, int(room.stored)
    in_rows = least(y.reach, extents.height)
    # A panel of c columns reads (c - 1) * stride + extent, and begins at a beat.
    fixed = x.reach - x.stride + unit - 1
    fit = (space - slots.inputs * in_rows * fixed) // (
        slots.inputs * in_rows * x.stride + stored * slots.outputs * facts.vector_rows
    )
    size = least(least(fit, min(facts.widest, facts.config.acc_rows)), columns)
    panels = ceil_div(ceil_div(columns, unit), most(size // unit, 1))
    out_columns = least(ceil_div(ceil_div(columns, unit), panels) * unit, columns)
    sizes = {
        "slots": slots,
        "slabs": extents.batch * extents.out_height,
        "parts": extents.out_height,
        "slab_rows": 1,
        "in_rows": in_rows,
        "panels": panels,
        "in_columns": least((out_columns - 1) * x.stride + x.reach + unit - 1, extents.width),
        "out_columns": out_columns,
        "weight_rows": weight_rows,
        "needed_rows": weight_rows
        + slots.inputs * in_rows * (fixed + unit * x.stride)
        + stored * slots.outputs * facts.vector_rows * unit,
    }
    sizes |= _places(facts, slots, sizes, (sizes["in_columns"], out_columns), 1, room)
    return Strategy(
        f"{name}/image",
        both(
            rows.in_bytes % BEAT_BYTES == 0,
            rows.out_bytes % BEAT_BYTES == 0,
            size >= least(unit, columns),
        ),
        *_cost(facts, extents, name, sizes, room),
        sizes,
    )


def _cost(
    facts: ConvFacts, extents: ActivationExtents, name: str, sizes: dict[str, Number], room: Room
) -> tuple[Number, Number]:
    """Return the cycles of LOAD, MXU and STORE side by side, and the rows that they move."""
    config = facts.config
    columns, images = extents.out_width, extents.batch
    tiles = sizes["slabs"] * sizes["panels"]
    accumulators = config.acc_rows
    vectors = images * extents.out_height * columns
    # Regions, and the slots of a tile of weights in all of them.
    within = ceil_div(sizes["slab_rows"] * sizes["out_columns"], accumulators)
    regions = most(tiles * within, images)
    slots = vectors + bool(facts.byte_step) * images * extents.out_height
    units = facts.large if name in LARGE_UNITS else facts.small
    count, beside = len(units.output), 1
    if name == "chunks":
        count, beside = facts.n_blocks * ceil_div(facts.blocks, sizes["chunk"]), sizes["beside"]
    stays = name in STAYING
    fixed = CONV_CYCLES + (sizes["slots"] is _LONE) * weights_latency(config, int4=facts.int4)
    compute = product_cycles(facts.tiles, slots, regions, config, int4=facts.int4)
    compute += regions * count * fixed

    slab = room.sources[0] * sizes["in_rows"] * sizes["in_columns"]
    if stays:
        load = tiles * slab * facts.blocks + units.total
        first = slab * facts.blocks
    elif name == "streamed":
        load = tiles * (slab * facts.blocks + within * units.total)
        first = slab * facts.blocks
    elif name == "chunks":
        shared = ceil_div(facts.n_blocks, beside)
        load = tiles * within * (shared * slab * facts.blocks + units.total)
        first = slab * sizes["chunk"]
        # The place of a chunk is free again when it was multiplied.
        turns = tiles * within * shared * ceil_div(facts.blocks, sizes["chunk"])
        compute = most(compute, ceil_div(compute + turns * (first + AROUND), _SLOTS.inputs))
    else:
        load = tiles * within * (slab * count + units.total)
        first = slab
    stored = room.stored * sizes["slab_rows"] * sizes["out_columns"] * facts.vector_rows
    store = room.stored * tiles * facts.n_blocks * (stored + 2)
    begin = FIRST_ROW + first + int(units.buffer_rows[0])
    end = conv_latency(Drain.REQUANTIZE, config) + stored + _STORE
    if sizes["slots"] is _LONE:
        return begin + compute + load + store + end, load + store
    # What is loaded last is multiplied at the end: a unit of weights, or a slab if these stay.
    last = ceil_div(compute * int(units.weight_rows[-1]), int(units.weight_rows.sum()))
    last = pick(tiles == 1, last, compute // tiles) if stays else last // regions
    # Commands come by the way of loads, too.
    fetch = 2 * COMMAND_BEATS * count * (1 if stays else regions)
    loaded = FIRST_ROW + load + fetch + last
    work = most(begin + compute, most(loaded, begin + store))
    return work + end, load + store
