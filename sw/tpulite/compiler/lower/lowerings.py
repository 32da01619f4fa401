"""Which lowering a layer has."""

from tpulite.compiler.lower.concat import ConcatLowering
from tpulite.compiler.lower.conv.chunks import ChunkedLowering
from tpulite.compiler.lower.conv.conv import ConvLowering
from tpulite.compiler.lower.depth_to_space import DepthToSpaceLowering
from tpulite.compiler.lower.depthwise import DepthwiseLowering
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.lower.matrices.matmul import MatMulLowering
from tpulite.compiler.lower.matrices.transpose import TransposeLowering
from tpulite.compiler.lower.pick import PickLowering
from tpulite.compiler.lower.pool.pool import PoolLowering
from tpulite.compiler.lower.rearrange import PadLowering, ReshapeLowering
from tpulite.compiler.lower.vector import (
    AffineLowering,
    ElementwiseLowering,
    LutLowering,
    MaximumLowering,
    SoftmaxLowering,
)
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.layer_plan import LayerPlan
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
    Pad,
    Pick,
    Pool,
    Reshape,
    Softmax,
    Transpose,
)

_LOWERINGS: dict[type[Layer | ConvPlan], type[Lowering]] = {
    ConvPlan: ChunkedLowering,
    Conv: ConvLowering,
    Depthwise: DepthwiseLowering,
    Elementwise: ElementwiseLowering,
    Pool: PoolLowering,
    Lut: LutLowering,
    Affine: AffineLowering,
    Pad: PadLowering,
    Pick: PickLowering,
    DepthToSpace: DepthToSpaceLowering,
    Concat: ConcatLowering,
    MatMul: MatMulLowering,
    Transpose: TransposeLowering,
    Reshape: ReshapeLowering,
    Softmax: SoftmaxLowering,
}

_MAXIMUM: type[Lowering] = MaximumLowering


def lowering_of(layer: Layer, context: LayerContext, plan: LayerPlan) -> Lowering:
    """Return the lowering of a layer that is cut as its plan says."""
    if isinstance(layer, Elementwise) and layer.op == "max":
        return _MAXIMUM(layer, context, plan)
    return _LOWERINGS[ConvPlan if isinstance(plan, ConvPlan) else type(layer)](layer, context, plan)
