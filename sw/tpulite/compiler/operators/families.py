"""Which operator a layer has."""

from tpulite.arch.config import Config
from tpulite.compiler.operators.conv import Convolution
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.operator import Operator, ShapeRange
from tpulite.compiler.operators.pointwise import Pointwise
from tpulite.compiler.operators.pool import Pooling
from tpulite.graph.layers import Affine, Conv, Depthwise, Elementwise, Layer, LayerGraph, Lut, Pool


def operator_of(
    layer: Layer,
    layers: LayerGraph,
    shapes: ShapeRange,
    config: Config,
    *,
    packed_rows: bool = False,
    whole: bool = False,
    outputs: tuple[int, int] | None = None,
) -> Operator:
    """Return the operator of a layer.

    Parameters
    ----------
    packed_rows : bool
        Whether a convolution may have an input of packed rows.
    whole : bool
        Whether a window of pooling is the whole tensor, whatever its extents are.
    outputs : tuple of int, optional
        Height and width of the output, if they are known.

    Raises
    ------
    ValueError
        If there is none.
    """
    match layer:
        case Affine() | Elementwise(op="add" | "sub" | "mul") | Lut():
            return Pointwise(layer, layers, config)
        case Pool():
            return Pooling(layer, config, whole=whole)
        case Conv():
            return Convolution(layer, shapes, config, packed_rows=packed_rows)
        case Depthwise():
            return DepthwiseFilter(layer, config, outputs)
    raise ValueError(
        f"{layer.title} cannot have a range of shapes: it is {type(layer).__name__}; end the "
        "network before it with --outputs"
    )
