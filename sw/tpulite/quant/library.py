"""Networks as the library runs them whose results are promised."""

from tpulite.graph.graph import Graph
from tpulite.quant.apart import requantize_apart
from tpulite.quant.exactness import Exactness, default_exactness
from tpulite.quant.named import name_functions
from tpulite.quant.one_type import with_one_type


def chosen_numerics(graph: Graph, exact: str | None = None) -> Exactness:
    """Return the numerics of a network: those that were chosen, else those of its format.

    A file that clips int8 activations (Q-Clip-DQ, as brevitas writes fewer values than the type
    has) is for integers, and an ordinary session of ONNX Runtime computes all of its products in
    floats: its numerics are ``ort-int8`` by default. A file that names its numerics, as
    ``tpulite quantize`` writes transformers, has those. QONNX files are for integers, too, and
    ONNX Runtime knows no quantizers of QONNX: theirs are ``litert-ref``.

    Parameters
    ----------
    graph : Graph
        What was read from a file.
    exact : str, optional
        What the user has chosen.

    Raises
    ------
    ValueError
        If the file names numerics that there are not.
    """
    if exact is not None:
        return Exactness(exact)
    if graph.source is not None and graph.source.numerics:
        if graph.source.numerics not in [*Exactness]:
            raise ValueError(
                f"{graph.name}: the file asks for numerics {graph.source.numerics!r}, which are "
                "unknown; --exact chooses others"
            )
        return Exactness(graph.source.numerics)
    if graph.source is not None and graph.source.dialect == "qonnx":
        return Exactness.LITERT_REF
    clips = any(
        node.op == "clip" and graph.tensors[node.inputs[0]].dtype == "int8" for node in graph.nodes
    )
    return (
        Exactness.ORT_INT8 if graph.format == "onnx" and clips else default_exactness(graph.format)
    )


def is_named(graph: Graph, exactness: Exactness) -> bool:
    """Tell whether numerics are those that a network's file names."""
    return graph.source is not None and graph.source.numerics == exactness


def as_library(graph: Graph, exactness: Exactness) -> Graph:
    """Return what the library of some numerics makes of a network.

    ONNX Runtime decides which quantized products it computes with integers; other numerics define
    all of them so. For LiteRT, operators that mix types of 8 bits have int8, functions that a file
    writes with several operators are its own, and what keeps scales there is requantized apart.

    Parameters
    ----------
    graph : Graph
        What was read from a file.

    Raises
    ------
    ValueError
        If the library is not installed, or refuses the file.
    """
    if exactness.litert and graph.format == "onnx":
        return requantize_apart(name_functions(with_one_type(graph)))
    if not exactness.ort or graph.format != "onnx" or graph.source is None or graph.source.library:
        return graph
    from tpulite.frontend.onnx.file import load_as_library

    return load_as_library(graph, keep_int8=exactness == Exactness.ORT_INT8)
