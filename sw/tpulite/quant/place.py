"""Where each node of a graph runs, and why; those of the machine are lowered on the way."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from tpulite.graph.graph import Graph, Node, Source
from tpulite.graph.layers import Conv, Depthwise, MatMul, Transpose, TransposedConv
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.network import lower_node
from tpulite.quant.macs import macs_of
from tpulite.quant.own import is_own
from tpulite.quant.tensors import UnsupportedError

__all__ = ["NATURAL_HOST", "NodePlacement", "Placed", "place"]

NATURAL_HOST = frozenset(
    {
        *("softmax", "argmax", "quantize", "dequantize", "transpose", "cast", "reshape"),
        *("shape", "gather", "pack", "unpack", "pick", "strided_slice", "slice", "split", "concat"),
        *("squeeze", "unsqueeze", "flatten", "identity", "log_softmax", "topk", "topk_v2"),
    }
)
"""Operators that a user expects on the host: of floats, of shapes, or of a network's last step."""

_ALWAYS_HOST = ("argmax", "quantize", "dequantize", "transpose")

_PRODUCTS = Conv | Depthwise | MatMul | Transpose | TransposedConv

_FEW = 100
"""Part of the machine's MACs that the host takes along to save crossings."""

_ENLARGED = 4
"""Times that a result must be larger than what it is made of to be cheaper to make than to move."""

_RESIZES = ("resize_bilinear", "resize_nearest")

_TINY = 1 << 15
"""MACs that cost no more than to start a program: not worth two crossings."""


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
    follows : bool
        Whether it is the host's only because others are.
    """

    engine: str
    reason: str = ""
    natural: bool = False
    follows: bool = False


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
    libraries : frozenset of int
        Segments of the host that a library must run, as numpy lacks an operator of them.
    along : mapping of str to str
        Nodes that the machine could run and the host takes along, and why.
    """

    graph: Graph
    exactness: Exactness
    placements: Mapping[str, NodePlacement]
    levels: Mapping[str, int]
    contexts: Mapping[int, GraphContext]
    libraries: frozenset[int]
    along: Mapping[str, str]


def place(
    graph: Graph,
    exactness: Exactness,
    along: Mapping[str, str] = MappingProxyType({}),
    *,
    lacking: Mapping[str, str] = MappingProxyType({}),
    strict: bool = False,
) -> Placed:
    """Place and lower every node; every node of any kind has an answer.

    A node goes into the first segment of the machine in which its inputs are known. If it cannot
    be lowered there, it is the host's. Changes of shape or of scale stay where their input is.

    Beside segments that a library runs the host takes along what saves crossings and costs little:
    segments of the machine, as long as they have a hundredth of its MACs together, and any of at
    most 32,768 MACs between two of a library's. What stands between a library and the machine
    goes along, too, if the file has no such tensor. A resize that makes a tensor at least four
    times larger, for nobody but the host, is the host's, unless it may do only what it must: the
    small one crosses.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        Whose bits.
    along : mapping of str to str
        Nodes that the host takes along in any case, and why.
    lacking : mapping of str to str
        Nodes that this machine lacks the operations for, and why.
    strict : bool
        Whether the host may do only what it must.
    """
    while True:
        placed = _place(graph, exactness, along, lacking)
        more = _taken_along(placed) if strict else _enlarged(placed) | _taken_along(placed)
        if not more:
            return placed
        along = {**along, **more}


def _place(
    graph: Graph, exactness: Exactness, along: Mapping[str, str], lacking: Mapping[str, str]
) -> Placed:
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    placements: dict[str, NodePlacement] = {}
    levels: dict[str, int] = {}
    contexts: dict[int, GraphContext] = {}
    for node in graph.nodes:
        before = [levels[producer[name]] for name in node.inputs if name in producer]
        level = max(before, default=0)
        behind_host = bool(before) and level > 0 and level % 2 == 0
        if node.name in lacking:
            placement = NodePlacement("host", lacking[node.name])
        elif node.name in along:
            placement = NodePlacement("host", along[node.name], follows=True)
        elif behind_host and node.op == "requantize":
            placement = NodePlacement("host", "its input is the host's", True, follows=True)
        else:
            moves = behind_host and node.op == "reshape"  # the host's, though it has an answer
            new = GraphContext(graph, exactness)
            context = new if moves else contexts.setdefault(level + (level % 2 == 0), new)
            placement = _lower(node, context)
        on_host = placement.engine == "host" or (behind_host and placement.engine == "none")
        placements[node.name] = placement
        levels[node.name] = level + (level % 2 == on_host)
    libraries = {
        levels[node.name]
        for node in graph.nodes
        if levels[node.name] % 2 == 0 and not is_own(node, graph, exactness)
    }
    return Placed(graph, exactness, placements, levels, contexts, frozenset(libraries), along)


def _taken_along(placed: Placed) -> dict[str, str]:
    """Return nodes of the machine that the host should take along with a library's, and why."""
    if not placed.libraries or placed.graph.source is None:
        return {}
    return _cheap(placed) | _without_tensor(placed, placed.graph.source)


def _enlarged(placed: Placed) -> dict[str, str]:
    """Return the resizes of the machine whose results only the host reads, and are much larger."""
    graph, levels = placed.graph, placed.levels
    if graph.source is None:
        return {}
    wanted = set(graph.outputs)  # by the user, or by the machine
    wanted |= {name for node in graph.nodes if levels[node.name] % 2 for name in node.inputs}
    taken = {}
    for node in graph.nodes:
        if node.op not in _RESIZES or levels[node.name] % 2 == 0 or wanted & set(node.outputs):
            continue
        small, large = (
            prod(graph.tensors[name].shape) for name in (node.inputs[0], node.outputs[0])
        )
        if large >= _ENLARGED * small:
            times = f"{large / small:.0f} times its input"
            taken[node.name] = f"only the host reads its result, {times}"
    return taken


def _cheap(placed: Placed) -> dict[str, str]:
    """Return the nodes of small segments beside a library's."""
    graph, levels, placements = placed.graph, placed.levels, placed.placements
    macs, total, spent = Counter[int](), 0, 0
    for node in graph.nodes:
        count = macs_of(node, graph)
        if levels[node.name] % 2:
            macs[levels[node.name]] += count
            total += count
        elif placements[node.name].follows:
            total += count
            spent += count
    taken = set()
    for level in sorted(set(levels.values()), key=lambda level: macs[level]):
        if level % 2 == 0:
            continue
        beside = placed.libraries.intersection((level - 1, level + 1))
        if beside and total and (spent + macs[level]) * _FEW <= total:
            spent += macs[level]
            taken.add(level)
        elif len(beside) == 2 and macs[level] <= _TINY:
            taken.add(level)
    reason = "few MACs: the host takes it along, which saves crossings"
    return {node.name: reason for node in graph.nodes if levels[node.name] in taken}


def _without_tensor(placed: Placed, source: Source) -> dict[str, str]:
    """Return the nodes between which a library would have to begin or end, and cannot.

    If that is between two segments of the host, all nodes go there, so that there is one.
    """
    graph, levels = placed.graph, placed.levels
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    taken = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name not in producer or name in source.origins:
                continue
            level, before = levels[node.name], levels[producer[name]]
            if before == level or placed.libraries.isdisjoint((before, level)):
                continue
            reason = f"the file has no tensor {name!r} at which a library could begin or end"
            if level % 2 == before % 2:
                return {each.name: reason for each in graph.nodes if levels[each.name] % 2}
            taken[node.name if level % 2 else producer[name]] = reason
    return taken


def _lower(node: Node, context: GraphContext) -> NodePlacement:
    count = len(context.layers)
    try:
        lower_node(node, context)
    except UnsupportedError as error:
        del context.layers[count:]
        natural = not NATURAL_HOST.isdisjoint((node.op, node.source.lower()))
        reason = f"{node.op} is the host's" if node.op in _ALWAYS_HOST else str(error)
        return NodePlacement("host", reason, natural)
    if any(isinstance(layer, _PRODUCTS) for layer in context.layers[count:]):
        return NodePlacement("MXU")
    return NodePlacement("none" if node.op == "reshape" else "VPU")
