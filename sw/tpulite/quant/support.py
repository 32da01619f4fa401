"""Where each node of a graph runs, and why."""

import math
from dataclasses import dataclass

from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Conv, Depthwise
from tpulite.quant.context import Context
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower import lower_node
from tpulite.quant.tensors import UnsupportedError

__all__ = ["NATURAL_HOST", "Placement", "macs_of", "where"]

NATURAL_HOST = frozenset(
    {
        *("softmax", "argmax", "quantize", "dequantize", "transpose", "cast", "reshape"),
        *("shape", "gather", "pack", "unpack", "strided_slice", "slice", "split", "concat"),
        *("squeeze", "unsqueeze", "flatten", "identity", "log_softmax", "topk", "topk_v2"),
    }
)
"""Operators that a user expects on the host: of floats, of shapes, or of a network's last step."""

_ALWAYS_HOST = ("softmax", "argmax", "quantize", "dequantize", "transpose")


@dataclass(frozen=True)
class Placement:
    """Where a node runs.

    Parameters
    ----------
    engine : str
        ``MXU``, ``VPU``, ``none`` for a change of shape alone, or ``host``.
    reason : str
        Why the host must run it; empty for the others.
    natural : bool
        Whether it is an operator of :data:`NATURAL_HOST`, which at the ends of a network needs
        nobody's permission.
    """

    engine: str
    reason: str = ""
    natural: bool = False


def where(node: Node, graph: Graph, exactness: Exactness) -> Placement:
    """Return where a node runs; every node of any kind has an answer.

    The answer is found by lowering the node, so it cannot differ from what :func:`lower` does.
    """
    context = Context(graph, exactness)
    try:
        lower_node(node, context)
    except UnsupportedError as error:
        reason = f"{node.op} is the host's" if node.op in _ALWAYS_HOST else str(error)
        return Placement("host", reason, node.op in NATURAL_HOST)
    if any(isinstance(layer, Conv | Depthwise) for layer in context.layers):
        return Placement("MXU")
    return Placement("none" if node.op == "reshape" else "VPU")


def macs_of(node: Node, graph: Graph) -> int:
    """Return the multiplications of a convolution or dense layer, padding counted; else 0."""
    if node.op not in ("conv", "depthwise", "dense") or len(node.inputs) < 2:
        return 0
    weight, output = graph.tensors[node.inputs[1]].shape, graph.tensors[node.outputs[0]].shape
    if len(weight) < 2:
        return 0
    terms = math.prod(weight[:-1]) if node.op == "depthwise" else math.prod(weight[1:])
    return math.prod(output) * terms
