"""Segments of a network: what the host runs, and what the machine runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite.counted import first_of
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import LayerGraph
from tpulite.graph.macs import macs_of
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.network import joined
from tpulite.quant.own import is_own
from tpulite.quant.placed import Placed

_ROUNDING = ("add", "dequantize", "mul", "quantize", "requantize", "softmax", "sub")
"""Operators that numpy computes with each library's rounding."""


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
    #: Whether the library of the file's format must run it, as numpy lacks an operator of it.
    library: bool


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
            segments += _host_segments(placed, nodes, library=level in placed.libraries)
    return tuple(segments)


def _host_segments(
    placed: Placed, nodes: tuple[Node, ...], *, library: bool
) -> Iterator[HostSegment]:
    """Yield segments of nodes that the host runs without the machine in between.

    If the library has other numerics, it runs none of the nodes whose rounding numpy knows: those
    are segments between its own.
    """
    graph, exactness = placed.graph, placed.exactness
    parts = [nodes]
    if library and not exactness.is_of_format(graph.format):
        parts = _by_definition(graph, exactness, nodes)
    for part in parts:
        inputs, outputs = _borders(graph, part)
        placements = (placed.placements[node.name] for node in part)
        reasons = tuple(each.reason or "between operators on the CPU" for each in placements)
        macs = sum(macs_of(node, graph) for node in part)
        foreign = len(parts) == 1 or not all(is_own(node, graph, exactness) for node in part)
        yield HostSegment(part, inputs, outputs, reasons, macs, library and foreign)


def _by_definition(
    graph: Graph, exactness: Exactness, nodes: tuple[Node, ...]
) -> list[tuple[Node, ...]]:
    """Part nodes into those that a library runs and those that round by definition, in turn."""
    origins = {} if graph.source is None else graph.source.origins
    turn: dict[str, int] = {}  # of each tensor; numpy has the odd ones
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        last = max((turn[name] for name in node.inputs if name in turn), default=0)
        if is_own(node, graph, exactness):
            ends = (*(name for name in node.inputs if name in turn), *node.outputs)
            named = all(name in origins for name in ends)
            own = last + (last % 2 == 0 and named and node.op in _ROUNDING)
        else:
            own = last + last % 2
        turn.update(dict.fromkeys(node.outputs, own))
        parts.setdefault(own, []).append(node)
    return [tuple(parts[own]) for own in sorted(parts)]


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
