"""Means, sums, maxima and minima of a file, whose numbers are those of its extents."""

from collections.abc import Mapping

from tpulite.cli.bind_shapes import AskedShape
from tpulite.compiler.bind import RangeProgram
from tpulite.compiler.bind.network import Network, Node
from tpulite.frontend.file_inputs import FileInput
from tpulite.frontend.given_shapes import shape_text
from tpulite.graph.graph import Graph
from tpulite.graph.layers import Conv, Pool

_OPS = ("mean", "sum", "reduce_max", "reduce_min")


def check_reductions(
    program: RangeProgram, graph: Graph, inputs: Mapping[str, FileInput], shape: AskedShape
) -> None:
    """Check that a network reduces as many positions at a shape as in its file.

    A mean's multiplier holds their number, a sum's bias so many zero points, and a window over
    some axes is as large as those of the file. Only maxima and minima over all positions follow.

    Parameters
    ----------
    program : RangeProgram
        The network, compiled.
    graph : Graph
        What it was compiled from.
    inputs : mapping of str to FileInput
        Images that the file has as inputs.
    shape : AskedShape
        A shape of the range, without a 0.

    Raises
    ------
    ValueError
        If one does not, with what reads the file at the shape.
    """
    network = program.network
    extents = network.extents(shape.height, shape.width)
    names = {node.name for node in graph.nodes if node.op in _OPS}
    for node in network.nodes:
        layer, name = node.layer, node.inputs[0]
        if (layer.name.rpartition("/step ")[0] or layer.name) not in names:
            continue
        sizes = (shape.height, shape.width) if name in network.packed else extents[name]
        there = network.layers.activations[name].shape[:2]
        window = _window(node)
        changed = any(k > 1 and a != b for k, a, b in zip(window, there, sizes, strict=True))
        if changed and not _follows(node, network, sizes):
            raise ValueError(
                f"{shape}: {layer.title} reduces {there[0]} x {there[1]} positions in the file, "
                f"not {sizes[0]} x {sizes[1]}; {_advice(graph, inputs, shape)}"
            )


def _window(node: Node) -> tuple[int, ...]:
    """Return height and width that become one."""
    match node.layer:
        case Pool(window=window):
            return window
        case Conv(weight=weight):
            return weight.shape[:2]
    return 1, 1


def _follows(node: Node, network: Network, sizes: tuple[int, int]) -> bool:
    """Return whether it is a maximum of all positions, however many they are."""
    if not isinstance(node.layer, Pool) or node.layer.op != "max":
        return False
    axes = node.operator.axes_of(*sizes)
    return tuple(axis.kernel for axis in axes) == sizes


def _advice(graph: Graph, inputs: Mapping[str, FileInput], shape: AskedShape) -> str:
    """Say how the file is read at a shape."""
    if graph.format != "tflite" or len(inputs) != 1:
        return "use a file whose dimensions have names"
    ((name, image),) = inputs.items()
    asked = {"height": shape.height, "width": shape.width}
    extents = [
        asked.get(axis, extent) for axis, extent in zip(image.axes, image.extents, strict=True)
    ]
    return f"give --shape {name}={shape_text(extents)}"
