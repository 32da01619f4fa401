"""Activations that are parts of others."""

from tpulite.graph.layers import LayerGraph


def view_roots(layers: LayerGraph) -> dict[str, str]:
    """Return activations that are views, each with the one that is really there.

    Parameters
    ----------
    layers : LayerGraph
        The network, views marked.
    """
    roots: dict[str, str] = {}
    for layer in layers.layers:
        if layer.view:
            source = layer.inputs[0]
            roots[layer.output] = roots.get(source, source)
    return roots
