"""Segments of a network: what the host runs, and what the machine runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite.counted import first_of
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import LayerGraph
from tpulite.graph.macs import macs_of
from tpulite.quant.lower.network import joined
from tpulite.quant.placed import Placed
from tpulite.quant.runners import in_turn


class RefusedError(ValueError):
    """The host would have to run nodes, and may not.

    Parameters
    ----------
    refused : tuple of (Node, str)
        Nodes that the machine cannot run, and why.
    """

    def __init__(self, graph: Graph, refused: tuple[tuple[Node, str], ...]) -> None:
        self.graph = graph
        self.refused = refused
        lines = [
            f"node {node.name!r} ({node.source or node.op})"
            + "".join(f", tensor {_file_name(graph, name)!r}" for name in node.outputs[:1])
            + f": {reason}"
            for node, reason in refused
        ]
        super().__init__(
            f"The machine cannot run {len(refused)} of {len(graph.nodes)} nodes of "
            f"{graph.name!r}: {first_of(lines, separator='; ')}"
        )


@dataclass(frozen=True)
class Segment:
    """Nodes that run on one side, in order."""

    nodes: tuple[Node, ...]  #: The nodes.
    #: Tensors that come from before it (not constants), and that others, or the user, need.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class HostSegment(Segment):
    """Nodes of the host."""

    reasons: tuple[str, ...]  #: For each node, why.
    macs: int  #: Its multiplications.
    library: str  #: Format of the part that a library runs; empty if numpy runs the nodes.


@dataclass(frozen=True)
class MachineSegment(Segment):
    """Nodes of the machine, and their integer layers."""

    layers: LayerGraph


def partition(placed: Placed, *, strict: bool = False) -> tuple[Segment, ...]:
    """Cut a network into segments that run one after the other, host and machine in turn.

    Parameters
    ----------
    strict : bool
        Whether the host may run only operators that are naturally its own, before the machine's
        first node or after its last.

    Raises
    ------
    RefusedError
        If it may not, and would have to run others; the message lists the first with their reasons.
    """
    graph, levels = placed.graph, placed.levels
    if strict:
        _check_host(placed)
    segments = []
    for level in sorted(set(levels.values())):
        nodes = tuple(node for node in graph.nodes if levels[node.name] == level)
        if level % 2:
            inputs, outputs = _borders(graph, nodes)
            name = f"{graph.name}/{len(segments)}"
            layers = joined(placed.contexts[level], name, inputs, outputs)
            segments.append(MachineSegment(nodes, inputs, outputs, layers))
        else:
            segments += _host_segments(placed, nodes)
    return tuple(segments)


def _host_segments(placed: Placed, nodes: tuple[Node, ...]) -> Iterator[HostSegment]:
    """Yield segments of nodes that the host runs without the machine in between."""
    graph = placed.graph
    for library, part in in_turn(nodes, placed.runners):
        inputs, outputs = _borders(graph, part)
        placements = (placed.placements[node.name] for node in part)
        reasons = tuple(each.reason or "between operators on the CPU" for each in placements)
        macs = sum(macs_of(node, graph) for node in part)
        yield HostSegment(part, inputs, outputs, reasons, macs, library)


def _file_name(graph: Graph, name: str) -> str:
    """Return what the file calls a tensor."""
    origin = None if graph.source is None else graph.source.origins.get(name)
    return str(origin.key) if origin and isinstance(origin.key, str) else name


def crossings(segments: Sequence[Segment]) -> int:
    """Return how many tensors go from the host's segments to the machine's, or back."""
    writer = {name: type(segment) for segment in segments for name in segment.outputs}
    pairs = ((writer.get(name), type(segment)) for segment in segments for name in segment.inputs)
    return sum(before not in (None, after) for before, after in pairs)


def _check_host(placed: Placed) -> None:
    graph, placements, levels = placed.graph, placed.placements, placed.levels
    machine = [level for level in levels.values() if level % 2]
    first, last = min(machine, default=0), max(machine, default=0)
    refused = []
    for node in graph.nodes:
        placement, level = placements[node.name], levels[node.name]
        if placement.engine != "host" or placement.follows:
            continue
        if not placement.natural:
            refused.append((node, placement.reason))
        elif first < level < last:
            refused.append((node, "it is between nodes that run on the machine"))
    if refused:
        raise RefusedError(graph, tuple(refused))


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
    wanted |= set(graph.wanted)
    outputs = [name for node in nodes for name in node.outputs if name in wanted]
    return tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(outputs))
