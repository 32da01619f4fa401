"""Networks as the library runs them whose results are promised."""

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness

__all__ = ["as_library"]


def as_library(graph: Graph, exactness: Exactness) -> Graph:
    """Return what the library of some numerics makes of a network.

    ONNX Runtime decides which quantized products it computes with integers; other numerics define
    all of them so.

    Parameters
    ----------
    graph : Graph
        What was read from a file.
    exactness : Exactness
        The numerics.

    Raises
    ------
    ValueError
        If the library is not installed, or refuses the file.
    """
    if not exactness.ort or graph.format != "onnx" or graph.source is None or graph.source.library:
        return graph
    from tpulite.frontend.onnx.file import load_as_library

    return load_as_library(graph, keep_int8=exactness == Exactness.ORT_INT8)
