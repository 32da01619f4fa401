"""Which tensors of a graph are tensors of its ONNX file, and in which order of axes."""

from collections.abc import Mapping
from dataclasses import replace

from tpulite.frontend.onnx.read.model import OnnxModel
from tpulite.graph.graph import Graph, Origin, Source
from tpulite.graph.passes.trace_origins import trace_origins


def origins(
    graph: Graph, orders: Mapping[str, Origin], in_file_order: Graph, model: OnnxModel
) -> dict[str, Origin]:
    """Return the origin of each tensor that has one.

    Parameters
    ----------
    graph : Graph
        What was made of the file.
    orders : mapping of str to Origin
        In which order it has each tensor of what the file was translated to.
    in_file_order : Graph
        What the file was translated to; its own reshapes have other shapes of the file's tensors.
    """
    known = {name: Origin(name) for name in in_file_order.tensors if name in model.computed}
    traced = trace_origins(replace(in_file_order, source=Source(model.file, known)))
    assert traced.source is not None
    found = {}
    for name, origin in orders.items():
        first = traced.source.origins.get(str(origin.key))
        if name not in graph.tensors or first is None:
            continue
        tensor = in_file_order.tensors[str(first.key)]
        dtype, shape = model.types.get(tensor.name, ("object", None))
        if shape is None or (graph.tensors[name].dtype, tensor.shape) == (dtype, shape):
            same = first.key == origin.key
            size = origin.shape if same else tensor.shape
            found[name] = Origin(first.key, size, (*first.moves, *origin.moves))
    return found
