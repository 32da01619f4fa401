"""Where each node of a graph runs, and why; those of the machine are lowered on the way."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Conv, Depthwise
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.network import lower_node
from tpulite.quant.tensors import UnsupportedError

__all__ = ["NATURAL_HOST", "NodePlacement", "Placed", "macs_of", "place"]

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
class NodePlacement:
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


@dataclass(frozen=True, eq=False)
class Placed:
    """A network, each of its nodes in its place.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        Whose bits.
    placements : mapping of str to NodePlacement
        Of each node by name.
    levels : mapping of str to int
        Number of each node's segment: those of the host are even, those of the machine odd.
    contexts : mapping of int to GraphContext
        Layers of each segment of the machine.
    """

    graph: Graph
    exactness: Exactness
    placements: Mapping[str, NodePlacement]
    levels: Mapping[str, int]
    contexts: Mapping[int, GraphContext]


def place(graph: Graph, exactness: Exactness) -> Placed:
    """Place and lower every node once; every node of any kind has an answer.

    A node goes into the first segment of the machine in which its inputs are known. If it cannot
    be lowered there, it is the host's. Changes of shape or of scale stay where their input is.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        Whose bits.
    """
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    placements: dict[str, NodePlacement] = {}
    levels: dict[str, int] = {}
    contexts: dict[int, GraphContext] = {}
    for node in graph.nodes:
        before = [levels[producer[name]] for name in node.inputs if name in producer]
        level = max(before, default=0)
        behind_host = bool(before) and level > 0 and level % 2 == 0
        if behind_host and node.op == "requantize":
            placement = NodePlacement("host", "its input is the host's", natural=True)
        else:
            moves = behind_host and node.op == "reshape"  # the host's, though it has an answer
            new = GraphContext(graph, exactness)
            context = new if moves else contexts.setdefault(level + (level % 2 == 0), new)
            placement = _lower(node, context)
        on_host = placement.engine == "host" or (behind_host and placement.engine == "none")
        placements[node.name] = placement
        levels[node.name] = level + (level % 2 == on_host)
    return Placed(graph, exactness, placements, levels, contexts)


def _lower(node: Node, context: GraphContext) -> NodePlacement:
    count = len(context.layers)
    try:
        lower_node(node, context)
    except UnsupportedError as error:
        del context.layers[count:]
        reason = f"{node.op} is the host's" if node.op in _ALWAYS_HOST else str(error)
        return NodePlacement("host", reason, node.op in NATURAL_HOST)
    if any(isinstance(layer, Conv | Depthwise) for layer in context.layers[count:]):
        return NodePlacement("MXU")
    return NodePlacement("none" if node.op == "reshape" else "VPU")


def macs_of(node: Node, graph: Graph) -> int:
    """Return the multiplications of a convolution or dense layer, padding counted; else 0."""
    if node.op not in ("conv", "depthwise", "dense") or len(node.inputs) < 2:
        return 0
    weight, output = graph.tensors[node.inputs[1]].shape, graph.tensors[node.outputs[0]].shape
    if len(weight) < 2:
        return 0
    terms = math.prod(weight[:-1]) if node.op == "depthwise" else math.prod(weight[1:])
    return math.prod(output) * terms
