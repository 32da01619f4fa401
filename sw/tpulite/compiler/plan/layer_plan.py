"""The plan of a layer that no search has planned, whatever its kind."""

from collections.abc import Sequence
from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.arch.isa import RecordForm
from tpulite.compiler.geometry.axis import Axis1D, axes_of, ceil_div
from tpulite.compiler.geometry.extents import int4_tiles, used_runs
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows, depthwise_rows
from tpulite.compiler.plan.pool_cuts import PoolPlan, pool_plan
from tpulite.compiler.plan.rows import (
    ConcatPlan,
    RowsPlan,
    concat_plan,
    depth_to_space_plan,
    matmul_plan,
    pick_plan,
    pointwise_plan,
    reshape_plan,
    rows_plan,
)
from tpulite.compiler.plan.space import Placed, Space
from tpulite.compiler.plan.strips import StripPlan, strip_plan
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Layer,
    Lut,
    MatMul,
    Pick,
    Pool,
    Reshape,
)

LayerPlan = StripPlan | ConvPlan | DepthwiseRows | PoolPlan | ConcatPlan | RowsPlan
"""Says how a layer is cut; lowering follows it."""


def plan_layer(
    layer: Layer,
    sources: Sequence[Placed],
    target: Placed,
    space: Space,
    channels: Sequence[int],
) -> LayerPlan:
    """Return how a layer is cut.

    Parameters
    ----------
    sources : sequence of Placed
        What it reads.
    target : Placed
        What it computes.
    space : Space
        What it may take.
    channels : sequence of int
        Channels of what it reads, and of what it computes.

    Raises
    ------
    ValueError
        If a window of pooling lies in the padding altogether.
    """
    source = sources[0]
    match layer:
        case Conv():
            return strip_plan(
                conv_facts(layer, source, target, space.config), source, target, space
            )
        case Depthwise():
            return depthwise_rows(layer, source, target, space)
        case DepthToSpace():
            return depth_to_space_plan(layer, sources, target, space)
        case Pick():
            return pick_plan(layer, source, target, space)
        case Pool():
            return pool_plan(layer, source, target, space)
        case Concat():
            return concat_plan(layer, sources, channels[:-1], target, space)
        case Affine() | Elementwise() | Lut():
            return pointwise_plan(layer, sources, target, space)
        case Reshape():
            return reshape_plan(source, target, space)
        case MatMul():
            return matmul_plan(sources, target, space)
    return rows_plan(sources, target, space)


def conv_facts(layer: Conv, source: Placed, target: Placed, config: Config) -> ConvFacts:
    """Return the facts of a convolution.

    Parameters
    ----------
    source, target : Placed
        What it reads and computes: perhaps packed rows, perhaps some of the columns.
    """
    depth, outputs = layer.weight.shape[2:]
    size, packed, form = config.array_size, source.packed, None
    y, x = axes_of(layer.windows._replace(padding=(*layer.padding[:2], 0, 0)))
    x = replace(x, before=x.before + source.column - target.column * x.stride)
    if transposed := packed is not None and packed.transposed:
        y, x = x, y
    if (requantization := layer.requantization) is not None:
        form = RecordForm.SHORT if requantization.uniform else RecordForm.FULL
    byte_step, blocks = 0, ceil_div(depth, size)
    if packed is not None:  # columns are bytes; padding before the first is in the packed row
        byte_step, blocks = x.stride * depth, 1
        x = Axis1D(ceil_div(x.kernel * depth, size))
    return ConvFacts(
        config=config,
        y=y,
        x=x,
        byte_step=byte_step,
        blocks=blocks,
        runs=tuple(
            (range(1),) if byte_step else tuple(used_runs(layer, size, n))
            for n in range(ceil_div(outputs, size))
        ),
        form=form,
        transposed=transposed,
        column_grain=layer.column_grain,
        int4=int4_tiles(layer, config, packed_rows=packed is not None),
    )
