"""Integer layers of graphs that the machine computes alone."""

from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import LayerGraph
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.network import joined, lower_node
from tpulite.quant.tensors import UnsupportedError

__all__ = ["lower_graph"]


def lower_graph(graph: Graph, exactness: Exactness) -> LayerGraph:
    """Return the integer layers of a graph whose nodes the machine can all compute.

    Parameters
    ----------
    graph : Graph
        A network, or a segment of one.
    exactness : Exactness
        The numerics.

    Returns
    -------
    LayerGraph
        Images have the names of the tensors that they hold. Layers that nobody needs, such as the
        flattening before a dense layer, are left out.

    Raises
    ------
    ValueError
        If the machine cannot compute nodes; the message names them all, with the reasons.
    """
    context = GraphContext(graph, exactness)
    refused = []
    for node in graph.nodes:
        try:
            lower_node(node, context)
        except UnsupportedError as error:
            refused.append(f"node {node.name!r} ({node.source or node.op}): {error}")
            _declare_outputs(node, context)
    if refused:
        raise ValueError(f"{graph.name!r} is not the machine's: " + "; ".join(refused))
    return joined(context, graph.name, graph.inputs, graph.outputs)


def _declare_outputs(node: Node, context: GraphContext) -> None:
    """Let nodes behind one that is refused be checked nevertheless."""
    for name in node.outputs:
        if name not in context.activations:
            try:
                context.write(name)
            except UnsupportedError:
                continue
