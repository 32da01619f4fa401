"""Segments of a network: what the host runs, and what the machine runs."""

from dataclasses import dataclass

from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import LayerGraph
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower import lower
from tpulite.quant.support import Placement, macs_of, where

__all__ = ["HostSegment", "MachineSegment", "RefusedError", "Segment", "partition"]


class RefusedError(ValueError):
    """The host would have to run nodes, and may not.

    Parameters
    ----------
    network : str
        Its name.
    nodes : int
        How many it has.
    refused : tuple of (Node, str)
        Nodes that the machine cannot run, and why.
    """

    def __init__(self, network: str, nodes: int, refused: tuple[tuple[Node, str], ...]) -> None:
        self.network = network
        self.nodes = nodes
        self.refused = refused
        lines = [
            f"node {node.name!r} ({node.source or node.op}): {reason}" for node, reason in refused
        ]
        super().__init__(
            f"The machine cannot run {len(refused)} of {nodes} nodes of {network!r}: "
            + "; ".join(lines)
        )


@dataclass(frozen=True)
class Segment:
    """Nodes that run on one side, in order.

    Parameters
    ----------
    nodes : tuple of Node
        The nodes.
    inputs, outputs : tuple of str
        Tensors that come from before it (not constants), and that others, or the user, need.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class HostSegment(Segment):
    """Nodes of the host.

    Parameters
    ----------
    reasons : tuple of str
        For each node, why.
    macs : int
        Multiplications of its convolutions and dense layers.
    """

    reasons: tuple[str, ...]
    macs: int


@dataclass(frozen=True)
class MachineSegment(Segment):
    """Nodes of the machine, and their integer layers."""

    layers: LayerGraph


def partition(
    graph: Graph, exactness: Exactness, *, host_fallback: bool = False
) -> tuple[Segment, ...]:
    """Cut a network into segments that run one after the other, host and machine in turn.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        Whose bits.
    host_fallback : bool
        Whether the host may run what the machine cannot. Without it, only operators that are
        naturally the host's, before the machine's first node or after its last, may stay there.

    Raises
    ------
    RefusedError
        If the host would have to run others; the message lists them all with their reasons.
    """
    placements = {node.name: where(node, graph, exactness) for node in graph.nodes}
    levels = _levels(graph, placements)
    if not host_fallback:
        _check_host(graph, placements, levels)
    segments = []
    for level in sorted(set(levels.values())):
        nodes = tuple(node for node in graph.nodes if levels[node.name] == level)
        inputs, outputs = _borders(graph, nodes)
        if level % 2:
            tensors = {
                name: graph.tensors[name]
                for node in nodes
                for name in (*node.inputs, *node.outputs)
                if name
            }
            name = f"{graph.name}/{len(segments)}"
            part = Graph(name, nodes, tensors, inputs, outputs, graph.format)
            segments.append(MachineSegment(nodes, inputs, outputs, lower(part, exactness)))
        else:
            reasons = tuple(placements[node.name].reason or "between the host's" for node in nodes)
            macs = sum(macs_of(node, graph) for node in nodes)
            segments.append(HostSegment(nodes, inputs, outputs, reasons, macs))
    return tuple(segments)


def _levels(graph: Graph, placements: dict[str, Placement]) -> dict[str, int]:
    """Return the segment of each node; those of the host are even, those of the machine odd."""
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    levels: dict[str, int] = {}
    for node in graph.nodes:
        before = [levels[producer[name]] for name in node.inputs if name in producer]
        level = max(before, default=0)
        placement = placements[node.name]
        host = placement.engine == "host"
        if placement.engine == "none" and before and level % 2 == 0 and level > 0:
            host = True  # a change of shape stays where its input is
        levels[node.name] = level + (level % 2 == host)
    return levels


def _check_host(graph: Graph, placements: dict[str, Placement], levels: dict[str, int]) -> None:
    machine = [level for level in levels.values() if level % 2]
    first, last = min(machine, default=0), max(machine, default=0)
    refused = []
    for node in graph.nodes:
        placement, level = placements[node.name], levels[node.name]
        if placement.engine != "host":
            continue
        if not placement.natural:
            refused.append((node, placement.reason))
        elif first < level < last:
            refused.append((node, "it lies between nodes of the machine"))
    if refused:
        raise RefusedError(graph.name, len(graph.nodes), tuple(refused))


def _borders(graph: Graph, nodes: tuple[Node, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    inside = {name for node in nodes for name in node.outputs}
    own = {node.name for node in nodes}
    inputs = [
        name
        for node in nodes
        for name in node.inputs
        if name and name not in inside and graph.tensors[name].data is None
    ]
    wanted = {name for node in graph.nodes if node.name not in own for name in node.inputs}
    wanted |= set(graph.outputs)
    outputs = [name for node in nodes for name in node.outputs if name in wanted]
    return tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(outputs))
