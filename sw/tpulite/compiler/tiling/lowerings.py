"""Which lowering a layer has."""

from tpulite.compiler.tiling.concat import ConcatLowering
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.conv import ConvLowering
from tpulite.compiler.tiling.conv_chunks import ChunkedLowering
from tpulite.compiler.tiling.depthwise import DepthwiseLowering
from tpulite.compiler.tiling.lowering import Lowering
from tpulite.compiler.tiling.pool import PoolLowering
from tpulite.compiler.tiling.rearrange import PadLowering, ReshapeLowering
from tpulite.compiler.tiling.vector import AffineLowering, ElementwiseLowering, LutLowering
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    Lut,
    Pad,
    Pool,
    Reshape,
)

__all__ = ["lower"]

_LOWERINGS: dict[type[Layer], type[Lowering]] = {
    Conv: ConvLowering,
    Depthwise: DepthwiseLowering,
    Elementwise: ElementwiseLowering,
    Pool: PoolLowering,
    Lut: LutLowering,
    Affine: AffineLowering,
    Pad: PadLowering,
    Concat: ConcatLowering,
    Reshape: ReshapeLowering,
}


def lower(layer: Layer, context: Context) -> Lowering:
    """Return the lowering of a layer."""
    if isinstance(layer, Conv) and context.plan is not None:
        return ChunkedLowering(layer, context, context.plan)
    return _LOWERINGS[type(layer)](layer, context)
