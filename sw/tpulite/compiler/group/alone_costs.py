"""What a layer costs that runs by itself, as its plan cuts it."""

from dataclasses import dataclass
from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.timing import LOAD_LATENCY, turnaround
from tpulite.compiler.geometry.cut import PARTS, STRIPS
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows
from tpulite.compiler.plan.layer_cost import DramRows, dram_cycles, transfer_cycles
from tpulite.compiler.plan.layer_plan import LayerPlan, plan_layer
from tpulite.compiler.plan.pointwise import PointwisePlan
from tpulite.compiler.plan.pool_cuts import PoolPlan
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.compiler.plan.space import Space
from tpulite.compiler.plan.strips import StripPlan


class Cost(NamedTuple):
    """What a group of layers costs."""

    cycles: int  #: Predicted cycles.
    #: Rows of the unified buffer that come from and go to DRAM.
    read: int
    written: int
    rows: int  #: Rows that the group takes beside images that are on chip as a whole.
    commands: int  #: Commands, more or less.
    #: Whether a convolution loads tiles, because strips do not fit or load too much.
    tiled: bool = False


def step_cycles(config: Config) -> int:
    """Return the cycles from the end of a step to the first ones of the next that needs it.

    Results go to the buffer and back. In small arrays that is quick; then a LOAD for which there
    was no room before takes longer.
    """
    return max(turnaround(config), LOAD_LATENCY)


_CONSTANTS = 4
"""Constants that do not stay take at most a quarter of the buffer at a time."""

_LEAST = 4
"""Strips take at least a quarter of the buffer, if anything goes to or comes from DRAM."""


def alone_cost(table: GraphTable, index: int, resident: frozenset[str], limit: int) -> Cost:
    """Return what a layer costs that cuts itself: into strips, if its activations are not on chip.

    Layers whose activations are all on chip run into each other, so what the vector path computes
    hides behind the matrix unit's work on the layers beside it.

    Parameters
    ----------
    index : int
        Index of the layer.
    resident : frozenset of str
        Activations that stay on chip.
    limit : int
        Rows of the unified buffer that may be used.
    """
    layer = table.layers.layers[index]
    if layer.view:
        return Cost(0, 0, 0, 0, 0)
    plan = _plan(table, index, resident, limit)
    if isinstance(plan, RowsPlan) and plan.tiles is not None:
        return _tiled_cost(table, index, plan.tiles)
    config, batch = table.config, table.options.batch
    moved = _Moved.of(table, index, resident, plan)
    keep = not isinstance(plan, StripPlan) or plan.keep
    tiled = isinstance(plan, StripPlan) and plan.by_tiles
    constants = table.constants[index]
    at_once = constants if keep else table.at_once(index)
    strips = moved.strips * batch
    loaded = constants if keep else constants * strips
    height, width = (extents[table.outputs[index]] for extents in table.extents)
    engines = table.compute(index, height, width)
    steps = strips
    if isinstance(plan, DepthwiseRows):
        engines = engines._replace(mxu=plan.cycles)
        steps = 1 if plan.by_block else strips  # a block needs nothing of the one before
    read, written = moved.read * batch + loaded, moved.written * batch
    memory = table.options.timing
    load = transfer_cycles(moved.read * batch, config, memory)
    store = transfer_cycles(written, config, memory)
    commands = table.compute(index, -(-height * batch // strips), width).commands * strips
    dram = dram_cycles(DramRows(moved.read * batch, loaded, written, commands), config, memory)
    rows = min(at_once, limit // _CONSTANTS)
    cycles = engines.mxu * batch + step_cycles(config) * steps
    if moved.passes:
        rows += max(config.ub_rows // _LEAST, moved.at_a_time + at_once - rows)
        cycles = max(cycles, engines.vpu * batch, dram)
        if isinstance(plan, StripPlan) and plan.by_tiles:
            cycles = max(cycles, plan.cycles * batch)
        # No room for a second strip: each one is loaded while nothing is computed.
        alternate = 2 * moved.at_a_time + at_once > limit
        if steps == strips:  # else the first block is loaded while the layer before ends
            cycles += load if alternate else load // strips + store // (strips * PARTS)
    else:
        cycles = max(cycles + engines.vpu * batch // PARTS, dram)
    return Cost(cycles, read, written, rows, commands, tiled)


def streams(table: GraphTable, index: int, resident: frozenset[str]) -> bool:
    """Return whether a layer alone moves vectors from DRAM to DRAM, as a pointwise plan says.

    Vectors that are the same everywhere may be on chip.
    """
    images, output = table.layers.activations, table.outputs[index]
    names = {*table.sources[index], output}
    whole = {name for name in names if images[name].shape == images[output].shape}
    return table.layers.layers[index].in_place and not whole & resident


def _plan(table: GraphTable, index: int, resident: frozenset[str], limit: int) -> LayerPlan:
    """Return the plan that the layer has if nothing else is on chip."""
    names = (*table.sources[index], table.outputs[index])
    here = sum(table.rows(name) for name in {*names} & resident)
    space = Space(
        table.config,
        table.config.ub_rows // STRIPS,
        max(0, limit - here),
        block_start=table.options.block_start,
        interleaved=table.options.interleaved,
        prefetch=table.options.prefetch,
    )
    placed = [table.placed(name, resident=name in resident) for name in names]
    channels = [table.layers.activations[name].shape[2] for name in names]
    return plan_layer(table.layers.layers[index], placed[:-1], placed[-1], space, channels)


def _tiled_cost(table: GraphTable, index: int, plan: PointwisePlan) -> Cost:
    """Return the cost of a layer of which all activations are in DRAM, vector by vector."""
    batch, name = table.options.batch, table.outputs[index]
    written = table.row[name] * table.extents[0][name]
    read = plan.traffic - written + plan.common_rows
    rows = plan.slots * plan.slot_rows + table.constants[index]
    return Cost(plan.cycles * batch, read * batch, written * batch, rows, plan.commands * batch)


@dataclass
class _Moved:
    """What is moved: rows of the unified buffer, for one of a batch.

    ``passes``: whether it goes through the buffer strip by strip, ``strips`` of them; a strip of
    all that is not resident takes ``at_a_time``.
    """

    read: int
    written: int
    passes: bool
    strips: int
    at_a_time: int

    @classmethod
    def of(
        cls, table: GraphTable, index: int, resident: frozenset[str], plan: LayerPlan
    ) -> "_Moved":
        layer, output = table.layers.layers[index], table.outputs[index]
        assert not isinstance(plan, ConvPlan)
        strips = len(plan.strips)
        step = 1 if layer.windows is None else layer.windows.stride[0]
        reaches = table.reaches[0][index] or (None,) * len(table.sources[index])
        read = at_a_time = 0
        for name, reach in dict(zip(table.sources[index], reaches, strict=True)).items():
            whole, halo = table.row[name] * table.extents[0][name], 0
            if name not in resident:
                if reach is not None and reach.window.stride:
                    halo = table.row[name] * max(0, reach.window.kernel - reach.window.stride)
                read += whole + (strips - 1) * halo
                at_a_time += table.row[name] * step + halo
            elif table.enters(name, range(index, index + 1)):
                read += whole
        written = 0
        if output not in resident:
            at_a_time += table.row[output]
        if output not in resident or output in table.layers.outputs:
            written = table.row[output] * table.extents[0][output]
        passes = at_a_time > 0
        if isinstance(plan, StripPlan) and plan.by_tiles:
            read, at_a_time = plan.read_rows, 0
        if isinstance(plan, DepthwiseRows) and plan.by_block:
            strips *= table.placed(output, resident=True).blocks
            at_a_time //= table.placed(output, resident=True).blocks
        if isinstance(plan, PoolPlan) and plan.input_tiles is not None:
            at_a_time = 0
        return cls(read, written, passes, strips, at_a_time)
