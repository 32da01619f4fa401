"""The layer of a network in C, and which layers have none."""

from tpulite.compiler.bind.network import Network
from tpulite.compiler.operators.conv import Convolution
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.pointwise import Pointwise
from tpulite.compiler.operators.pool import Pooling
from tpulite.compiler.operators.shapes import ShapeRange
from tpulite.export.ranges.conv_text import conv_text
from tpulite.export.ranges.depthwise_text import depthwise_text
from tpulite.export.ranges.operator_text import OperatorText
from tpulite.export.ranges.pointwise_text import pointwise_text
from tpulite.export.ranges.pool_text import pool_text


def operator_text(network: Network, shapes: ShapeRange) -> OperatorText:
    """Return a network of one layer in C, but for its selector.

    ValueError if there is more than one layer, or there is no C for the layer.
    """
    first, *others = network.nodes
    layer = first.layer
    if others:
        raise ValueError(
            f"{others[0].layer.title} follows {layer.title}, and C binds one layer to shapes; "
            "--inputs and --outputs cut one out"
        )
    match first.operator:
        case Pointwise() as operator:
            return pointwise_text(operator, network, shapes)
        case Pooling() as operator:
            return pool_text(operator, network)
        case Convolution() as operator:
            return conv_text(operator, network)
        case operator:
            assert isinstance(operator, DepthwiseFilter)
            return depthwise_text(operator, network)
