"""Operators that a library is known to compute wrong."""

from collections.abc import Callable, Mapping

from tpulite.graph.graph import Graph, Node


def _sums_int8(graph: Graph, node: Node) -> bool:
    return node.op == "sum" and graph.tensors[node.inputs[0]].dtype == "int8"


_FAULTS: Mapping[str, tuple[Callable[[Graph, Node], bool], str]] = {
    "litert-ref": (
        _sums_int8,
        "LiteRT's reference SUM reads int8 as uint8; litert-opt and tflm sum int8 correctly",
    ),
}
"""For each oracle: which nodes it computes wrong, and how."""


def known_faults(oracle: str, graph: Graph) -> dict[str, str]:
    """Return the tensors that a library gets wrong, each with the reason.

    Parameters
    ----------
    graph : Graph
        The network. What is computed of a wrong tensor is wrong, too.
    """
    if oracle not in _FAULTS:
        return {}
    wrong, reason = _FAULTS[oracle]
    found: dict[str, str] = {}
    for node in graph.nodes:
        if wrong(graph, node) or any(name in found for name in node.inputs):
            found |= dict.fromkeys(node.outputs, reason)
    return found
