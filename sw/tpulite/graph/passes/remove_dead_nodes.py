"""Removal of what nobody needs."""

from tpulite.graph.graph import Graph
from tpulite.graph.passes.rewrite import rebuild


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
