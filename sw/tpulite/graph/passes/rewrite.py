"""What the passes share: who computes and who uses a tensor, and new graphs from old ones."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor


def count_uses(graph: Graph) -> Counter[str]:
    """Return how often nodes and outputs of the graph use each tensor."""
    uses = Counter(name for node in graph.nodes for name in node.inputs if name)
    uses.update(graph.wanted)
    return uses


def rebuild(
    graph: Graph, nodes: Iterable[Node], tensors: Mapping[str, Tensor] | None = None
) -> Graph:
    """Return the graph with other nodes, and only the tensors that these and its ends name.

    Parameters
    ----------
    graph : Graph
        The graph, which keeps its inputs and outputs.
    nodes : iterable of Node
        The new nodes, in order.
    tensors : mapping of str to Tensor, optional
        Tensors to add, or to replace.
    """
    nodes = tuple(nodes)
    every = dict(graph.tensors) | dict(tensors or {})
    used = {*graph.given, *graph.wanted}
    for node in nodes:
        used.update(name for name in (*node.inputs, *node.outputs) if name)
    kept = {name: tensor for name, tensor in every.items() if name in used}
    return replace(graph, nodes=nodes, tensors=kept)


def same_meaning(a: Tensor, b: Tensor) -> bool:
    """Tell whether equal elements of two tensors stand for equal numbers."""
    p, q = a.quantization, b.quantization
    if a.dtype != b.dtype or p is None or q is None:
        return a.dtype == b.dtype and p is q
    return (
        p.axis == q.axis
        and np.array_equal(p.scale, q.scale)
        and np.array_equal(p.zero_point, q.zero_point)
    )


def unique_name(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, with a number behind it if it is taken.

    Examples
    --------
    >>> unique_name("w", {"w", "w.1"})
    'w.2'
    """
    taken, number, result = set(taken), 0, name
    while result in taken:
        number += 1
        result = f"{name}.{number}"
    return result


def remove_dead_nodes(graph: Graph) -> Graph:
    """Keep the nodes that outputs and states of the graph depend on.

    Inputs of the graph stay, even if nothing uses them: the user gives them.
    """
    needed, kept = set(graph.wanted), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return rebuild(graph, reversed(kept))
