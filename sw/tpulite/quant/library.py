"""Networks as the library runs them whose results are promised."""

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness, default_exactness

__all__ = ["as_library", "chosen_numerics"]


def chosen_numerics(graph: Graph, exact: str | None = None) -> Exactness:
    """Return the numerics of a network: those that were chosen, else those of its format.

    A file that clips int8 activations (Q-Clip-DQ, as brevitas writes fewer values than the type
    has) is for integers, and an ordinary session of ONNX Runtime computes all of its products in
    floats: its numerics are ``ort-int8`` by default.

    Parameters
    ----------
    graph : Graph
        What was read from a file.
    exact : str, optional
        What the user has chosen.
    """
    if exact is not None:
        return Exactness(exact)
    clips = any(
        node.op == "clip" and graph.tensors[node.inputs[0]].dtype == "int8" for node in graph.nodes
    )
    return (
        Exactness.ORT_INT8 if graph.format == "onnx" and clips else default_exactness(graph.format)
    )


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
