"""The plan of a layer that no search has planned, whatever its kind."""

from collections.abc import Sequence

from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.conv_layer import conv_facts
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows, depthwise_rows
from tpulite.compiler.plan.pool_cuts import PoolPlan, pool_plan
from tpulite.compiler.plan.rows import (
    ConcatPlan,
    RowsPlan,
    concat_plan,
    depth_to_space_plan,
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
    return rows_plan(sources, target, space)
