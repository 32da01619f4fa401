"""What a layer costs that runs by itself."""

from dataclasses import dataclass
from math import gcd

from tpulite.arch.config import BEAT_BYTES
from tpulite.compiler.geometry.cut import PARTS, STRIPS, WINDOW_ROOM
from tpulite.compiler.geometry.extents import weight_tiles
from tpulite.compiler.group.costs import Cost, step_cycles, transfer_cycles
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.plan.conv_cost import weights_stay
from tpulite.compiler.plan.pointwise import POINTWISE, SLOTS, best_pointwise_plan, pointwise_facts
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW
from tpulite.graph.layers import Conv, Depthwise, Pool

__all__ = ["alone_cost", "streams"]


@dataclass
class _Rows:
    """Rows of the unified buffer: of all images in DRAM, and for each output row of a strip."""

    read: int = 0
    written: int = 0
    per_row: int = 0
    halo: int = 0


def alone_cost(table: GraphTable, index: int, resident: frozenset[str], limit: int) -> Cost:
    """Return what a layer costs that cuts itself: into strips, if its images are not on chip.

    Layers whose images are all on chip run into each other, so what the vector path computes
    hides behind the matrix unit's work on the layers beside it.

    Parameters
    ----------
    table : GraphTable
        The network.
    index : int
        Index of the layer.
    resident : frozenset of str
        Images that stay on chip.
    limit : int
        Rows of the unified buffer that may be used.
    """
    if streams(table, index, resident):
        return _pointwise_cost(table, index, limit)
    config, batch = table.config, table.options.batch
    output, constants = table.outputs[index], table.constants[index]
    height, width = (extents[output] for extents in table.extents)
    keep = not isinstance(table.layers.layers[index], Conv)
    keep = keep or weights_stay(constants, config)
    at_once = constants if keep else table.at_once(index)
    moved = _moved(table, index, resident)
    strips = 1
    if moved.per_row:
        budget = max(1, limit // STRIPS)
        if not keep:  # each strip loads all weights again: as few strips as possible
            budget = max(budget, limit // 2)
        budget -= min(budget // 2, moved.halo)
        strips = -(-height // max(1, budget // moved.per_row))
    read = (moved.read + (strips - 1) * moved.halo) * batch
    strips *= batch
    loaded = constants if keep else constants * strips
    engines = table.compute(index, height, width)
    load, store = transfer_cycles(read, config), transfer_cycles(moved.written * batch, config)
    weights = transfer_cycles(loaded, config)
    rows = min(at_once, limit // 4)
    cycles = engines.mxu * batch + step_cycles(config) * strips
    if moved.per_row:
        at_a_time = moved.per_row + moved.halo
        if _in_tiles(table, index, resident, limit):
            at_a_time = 0
        rows += max(config.ub_rows // 4, at_a_time + max(0, at_once - limit // 4))
        cycles = max(cycles, engines.vpu * batch, load + weights, store)
        # No room for a second strip: each one is loaded while nothing is computed.
        alternate = 2 * at_a_time + at_once > limit
        pieces = transfer_cycles(_read_by_tiles(table, index, resident) * batch, config)
        forced, bound = at_a_time + at_once > limit, 2 * (load + weights) > engines.mxu * batch
        if pieces and (forced or (bound and pieces < load)):
            cycles = max(engines.mxu * batch, pieces + weights // strips, store)
        else:
            cycles += load if alternate else load // strips + store // (strips * PARTS)
    else:
        cycles = max(cycles + engines.vpu * batch // PARTS, load + weights, store)
    commands = table.compute(index, -(-height * batch // strips), width).commands * strips
    return Cost(cycles, read + loaded, moved.written * batch, rows, commands)


def streams(table: GraphTable, index: int, resident: frozenset[str]) -> bool:
    """Return whether a layer alone moves vectors from DRAM to DRAM, as a pointwise plan says.

    Vectors that are the same everywhere may be on chip.
    """
    images, output = table.layers.activations, table.outputs[index]
    names = {*table.sources[index], output}
    whole = {name for name in names if images[name].shape == images[output].shape}
    return isinstance(table.layers.layers[index], POINTWISE) and not whole & resident


def _pointwise_cost(table: GraphTable, index: int, limit: int) -> Cost:
    """Return the cost of a layer of which all images are in DRAM, vector by vector."""
    layer, config, batch = table.layers.layers[index], table.config, table.options.batch
    assert isinstance(layer, POINTWISE)
    shapes = [table.layers.activations[name].shape for name in dict.fromkeys(layer.inputs)]
    height, width, channels = shapes[0]
    facts = pointwise_facts(layer, shapes, config)
    pixels, blocks = height * width, -(-channels // config.array_size)
    grain = BEAT_BYTES // gcd(BEAT_BYTES, config.row_bytes)
    slots = SLOTS if table.options.prefetch else 1
    plan = best_pointwise_plan(facts, pixels, blocks, grain, room=limit, slots=slots)
    written = pixels * blocks
    read = plan.traffic - written + facts.common_rows
    rows = plan.slots * plan.slot_rows + table.constants[index]
    commands = plan.tiles * (plan.tile_blocks if facts.block_rows else 1)
    return Cost(plan.cycles * batch, read * batch, written * batch, rows, commands * batch)


def _in_tiles(table: GraphTable, index: int, resident: frozenset[str], limit: int) -> bool:
    """Return whether windows of pooling are so large that they never lie in the buffer as a whole.

    It is a rough rule: :class:`tpulite.compiler.lower.pool.pool.PoolLowering` decides.
    """
    layer = table.layers.layers[index]
    if not isinstance(layer, Pool) or layer.inputs[0] in resident:
        return False
    height, width = (extents[layer.inputs[0]] for extents in table.extents)
    rows, columns = min(layer.window[0], height), min(layer.window[1], width)
    room = limit * WINDOW_ROOM[0] // WINDOW_ROOM[1]
    return max(rows, columns) > LARGEST_WINDOW or (
        rows * width > room and 2 * rows * columns > room
    )


def _read_by_tiles(table: GraphTable, index: int, resident: frozenset[str]) -> int:
    """Return the rows that a convolution loads whose passes load what they read; else 0.

    As :func:`tpulite.compiler.plan.strips.strip_plan` would cut it, more or less.
    """
    layer = table.layers.layers[index]
    if not isinstance(layer, Conv) or layer.inputs[0] in resident:
        return 0
    height, width = (extents[table.outputs[index]] for extents in table.extents)
    outputs = max(1, table.config.acc_rows // width)
    (kh, kw), stride, dilation = layer.weight.shape[:2], layer.stride[0], layer.dilation[0]
    once = (outputs - 1) * stride + (kh - 1) * dilation + 1
    rows = min(once, kh * ((outputs - 1) * stride + 1))
    pairs = weight_tiles(layer, table.config) // (kh * kw)  # of n-blocks and channel blocks
    at_once = max(1, table.config.acc_rows // (outputs * width))
    return -(-height // outputs) * rows * table.extents[1][layer.inputs[0]] * pairs // at_once


def _moved(table: GraphTable, index: int, resident: frozenset[str]) -> _Rows:
    layer, output = table.layers.layers[index], table.outputs[index]
    step = layer.stride[0] if isinstance(layer, Conv | Depthwise | Pool) else 1
    reaches = table.reaches[0][index] or (None,) * len(table.sources[index])
    moved = _Rows()
    for name, reach in dict(zip(table.sources[index], reaches, strict=True)).items():
        whole = table.row[name] * table.extents[0][name]
        if name not in resident:
            moved.read += whole
            moved.per_row += table.row[name] * step
            if reach is not None and reach.stride:
                moved.halo += table.row[name] * max(0, reach.size - reach.stride)
        elif table.enters(name, range(index, index + 1)):
            moved.read += whole
    if output not in resident:
        moved.per_row += table.row[output]
    if output not in resident or output in table.layers.outputs:
        moved.written = table.row[output] * table.extents[0][output]
    return moved
