"""Origins of tensors that are a tensor of the file but for their shape or the order of axes."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Origin, Tensor
from tpulite.graph.passes.rewrite import same_meaning

_MOVES = ("reshape", "transpose")


def trace_origins(graph: Graph) -> Graph:
    """Follow origins through reshapes and transposes, forwards and backwards.

    A tensor behind such a node has the elements of the one before it, so if one of them is a tensor
    of the file, the other one is the same tensor of the file, moved.
    """
    if graph.source is None:
        return graph
    origins = dict(graph.source.origins)
    moves = [node for node in graph.nodes if node.op in _MOVES and _keeps(graph, node)]
    for node in moves:
        _trace(graph, node, origins, backwards=False)
    for node in reversed(moves):
        _trace(graph, node, origins, backwards=True)
    return replace(graph, source=replace(graph.source, origins=origins))


def _trace(graph: Graph, node: Node, origins: dict[str, Origin], *, backwards: bool) -> None:
    """Give one end of a node the origin of the other end."""
    ends = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    known, new = reversed(ends) if backwards else ends
    if known.name not in origins or new.name in origins:
        return
    origin = origins[known.name]
    moves = origin.moves
    if node.op == "transpose":
        perm = tuple(node["perm"])
        undo = tuple(int(axis) for axis in np.argsort(perm))
        moves = (*moves, (known.shape, undo if backwards else perm))
    shape = known.shape if origin.shape is None else origin.shape
    origins[new.name] = replace(origin, shape=shape, moves=moves)


def _keeps(graph: Graph, node: Node) -> bool:
    """Tell whether a node only moves elements whose shape is known."""
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    return same_meaning(x, y) and x.dtype != "object" and x.data is None and _fixed(node, x)


def _fixed(node: Node, x: Tensor) -> bool:
    return node.op != "transpose" or sorted(node["perm"]) == list(range(len(x.shape)))
