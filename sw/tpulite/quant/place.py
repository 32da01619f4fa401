"""Where each node of a graph runs, and why; those of the machine are lowered on the way."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tpulite.graph.graph import Graph, Node
from tpulite.quant.border import taken_along
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.network import lower_node
from tpulite.quant.placed import NodePlacement, Placed
from tpulite.quant.runners import runners_of
from tpulite.quant.tensors import UnsupportedError

NATURAL_HOST = frozenset(
    {
        *("softmax", "argmax", "quantize", "dequantize", "transpose", "cast", "reshape"),
        *("shape", "gather", "pack", "unpack", "pick", "strided_slice", "slice", "split", "concat"),
        *("squeeze", "unsqueeze", "flatten", "identity", "log_softmax", "topk", "topk_v2"),
    }
)
"""Operators that a user expects on the host: of floats, of shapes, or of a network's last step."""

_ALWAYS_HOST = {
    "argmax": "its result has 32 or 64 bits",
    "quantize": "the CPU makes integers of floats",
    "dequantize": "the CPU makes floats of integers",
}
"""Why operators run on the CPU that the machine does not have."""


def place(
    graph: Graph,
    exactness: Exactness,
    along: Mapping[str, str] = MappingProxyType({}),
    *,
    lacking: Mapping[str, str] = MappingProxyType({}),
    strict: bool = False,
    vector: int = 32,
    library: bool = True,
) -> Placed:
    """Place and lower every node; every node of any kind has an answer.

    A node goes into the first segment of the machine in which its inputs are known. If it cannot
    be lowered there, it runs on the CPU. Changes of shape, of order or of scale run where their
    input is. What else the CPU runs is the rule of :func:`tpulite.quant.border.taken_along`.

    Parameters
    ----------
    along : mapping of str to str
        Nodes that the host takes along in any case, and why.
    lacking : mapping of str to str
        Nodes that this machine lacks the operations for, and why.
    strict : bool
        Whether the host may do only what it must.
    vector : int
        Channels that move together on this machine, or on any.
    library : bool
        Whether operators are moved to the CPU beside those that a library runs there.
    """
    while True:
        placed = _place(graph, exactness, along, lacking, vector)
        alone = placed if library else replace(placed, runners={})
        more = taken_along(alone, strict=strict)
        if not more:
            return placed
        along = {**along, **more}


def _place(
    graph: Graph,
    exactness: Exactness,
    along: Mapping[str, str],
    lacking: Mapping[str, str],
    vector: int,
) -> Placed:
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    placements: dict[str, NodePlacement] = {}
    levels: dict[str, int] = {}
    contexts: dict[int, GraphContext] = {}
    for node in graph.nodes:
        before = [levels[producer[name]] for name in node.inputs if name in producer]
        level = max(before, default=0)
        made_by_cpu = bool(before) and level % 2 == 0
        behind_host = made_by_cpu and level > 0
        moves = behind_host and node.op == "reshape"  # runs there, though it has an answer
        if node.name in lacking:
            placement = NodePlacement("host", lacking[node.name], _is_natural(node))
        elif node.name in along:
            placement = NodePlacement("host", along[node.name], follows=True)
        elif (behind_host and _requantizes(node, graph, exactness)) or (
            made_by_cpu and node.op == "transpose"
        ):
            placement = NodePlacement(
                "host", "its input is computed on the CPU", True, follows=True
            )
        else:
            new = GraphContext(graph, exactness, vector)
            context = new if moves else contexts.setdefault(level + (level % 2 == 0), new)
            placement = _lower(node, context)
            if moves and placement.engine != "host":
                placement = NodePlacement("none")
        on_host = placement.engine == "host" or moves
        placements[node.name] = placement
        levels[node.name] = level + (level % 2 == on_host)
    runners = runners_of(graph, exactness, levels)
    return Placed(graph, exactness, placements, levels, contexts, runners, along)


def _requantizes(node: Node, graph: Graph, exactness: Exactness) -> bool:
    """Tell whether a node changes a scale beside a library that can hand its result over.

    A library of other numerics could only compute a tensor that is none of the file with its own.
    """
    if node.op != "requantize" or graph.source is None or exactness.is_of_format(graph.format):
        return node.op == "requantize"
    return node.outputs[0] in graph.source.origins


def _lower(node: Node, context: GraphContext) -> NodePlacement:
    count = len(context.layers)
    try:
        lower_node(node, context)
    except UnsupportedError as error:
        del context.layers[count:]
        reason = _ALWAYS_HOST.get(node.op, str(error))
        return NodePlacement("host", reason, _is_natural(node))
    if any(layer.on_array for layer in context.layers[count:]):
        return NodePlacement("MXU")
    return NodePlacement("none" if node.op == "reshape" else "VPU")


def _is_natural(node: Node) -> bool:
    return not NATURAL_HOST.isdisjoint((node.op, node.source.lower()))
