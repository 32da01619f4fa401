"""Which lowering a layer has."""

from tpulite.compiler.concat import ConcatLowering
from tpulite.compiler.context import Context
from tpulite.compiler.conv import ConvLowering
from tpulite.compiler.depthwise import DepthwiseLowering
from tpulite.compiler.lowering import Lowering
from tpulite.compiler.pool import PoolLowering
from tpulite.compiler.rearrange import PadLowering, ReshapeLowering
from tpulite.compiler.vector import AffineLowering, ElementwiseLowering, LutLowering
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
    return _LOWERINGS[type(layer)](layer, context)
