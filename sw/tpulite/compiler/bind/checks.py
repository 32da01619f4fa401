"""Whether every shape of a range suits a network."""

from tpulite.arch.config import Config
from tpulite.arch.isa import LOAD, RAW_ROWS, VECTOR
from tpulite.compiler.bind.network import Network, Node
from tpulite.compiler.operators.shapes import ShapeRange, interval
from tpulite.graph.layers import Affine, Conv, Depthwise

_WINDOW_BYTES = LOAD.limit("offset") + 1
_BLOCKS = VECTOR.limit("rows")


def check_covering(network: Network, shapes: ShapeRange) -> None:
    """Check that kernels that are as large as their input in the file are so for all shapes.

    Such a layer is a dense one: slid over more, it would mean something else.

    Raises
    ------
    ValueError
        If one is not, or a window is too large for an extent of the range.
    """
    network.check_extents(shapes.height[0], shapes.width[0])
    least = network.extents(shapes.height[0], shapes.width[0])
    most = network.extents(shapes.height[1], shapes.width[1])
    if len(network.nodes) == 1:
        return  # its extents are without meaning
    for node in network.nodes:
        layer, name = node.layer, node.inputs[0]
        if not isinstance(layer, Conv | Depthwise) or name in network.packed:
            continue
        kernel = layer.weight.shape[:2]
        if kernel == (1, 1) or kernel != network.layers.activations[name].shape[:2]:
            continue
        for height, width in (least[name], most[name]):
            if (height, width) != kernel and not max(layer.padding):
                raise ValueError(
                    f"{layer.title} depends on the extents: it covers {kernel[0]} x {kernel[1]} "
                    f"positions, which is all that it reads, but may have to read "
                    f"{height} x {width}"
                )


def check_channels(node: Node, least: int, most: int, config: Config) -> None:
    """Check that a layer that is alone may have so many channels.

    Raises
    ------
    ValueError
        If it may not.
    """
    layer = node.layer
    allowed = range(_BLOCKS * config.array_size + 1)
    if isinstance(layer, Affine):
        allowed = range(len(layer.gain) + 1)
    if isinstance(layer, Conv | Depthwise):
        allowed = range(layer.weight.shape[2], layer.weight.shape[2] + 1)
    if least not in allowed or most not in allowed:
        raise ValueError(
            f"{layer.title} can have {interval(allowed[0], allowed[-1])} channels, not "
            f"{interval(least, most)}"
        )


def check_windows(network: Network, batch: int, height: int, width: int, channels: int) -> None:
    """Check that the largest tensors fit their DRAM windows.

    Raises
    ------
    ValueError
        If they do not.
    """
    layers, size = network.layers, network.config.array_size
    extents = network.extents(height, width)
    alone = len(network.nodes) == 1
    totals = {"inputs": 0, "an output": 0}
    for node in network.nodes:
        for name in dict.fromkeys((*node.inputs, node.output)):
            rows = RAW_ROWS if layers.activations[name].dtype == "int32" else 1
            depth = layers.activations[name].shape[2]
            if alone and not isinstance(node.layer, Conv):
                depth = channels
            needed = batch * extents[name][0] * extents[name][1] * rows * -(-depth // size) * size
            what = "an output" if name == node.output else "inputs"
            totals[what] = needed + (totals[what] if name in layers.inputs else 0)
            if totals[what] >= _WINDOW_BYTES:
                raise ValueError(
                    f"{node.layer.title}: {what} of {totals[what]} bytes do not fit a DRAM window, "
                    f"which has less than {_WINDOW_BYTES}"
                )
