"""Which tensors of a graph are tensors of its ONNX file, and in which order of axes."""

from collections.abc import Mapping

from tpulite.frontend.onnx.read.model import OnnxModel
from tpulite.graph.graph import Graph, Origin


def origins(graph: Graph, orders: Mapping[str, Origin], model: OnnxModel) -> dict[str, Origin]:
    """Return the origin of each tensor that has one.

    Parameters
    ----------
    graph : Graph
        What was made of the file.
    orders : mapping of str to Origin
        In which order it has each tensor of what the file was translated to.
    model : OnnxModel
        The file, which has some of those.
    """
    found = {}
    for name, origin in orders.items():
        if name not in graph.tensors or origin.key not in model.computed:
            continue
        dtype, shape = model.types.get(str(origin.key), ("object", None))
        if shape is None or (graph.tensors[name].dtype, origin.shape) == (dtype, shape):
            found[name] = origin
    return found
