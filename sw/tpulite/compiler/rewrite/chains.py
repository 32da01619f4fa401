"""Layers that become chains of layers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from tpulite.graph.layers import Activation, Layer, LayerGraph


def replace_by_chains(
    layers: LayerGraph, chain_of: Callable[[Layer, Mapping[str, Activation]], Sequence[Layer]]
) -> LayerGraph:
    """Return the network with other layers in the place of each.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    chain_of : callable
        Returns what stands for a layer, perhaps the layer itself: the last one makes its output,
        the others make activations that are new. It is given the activations so far.
    """
    made: list[Layer] = []
    images = dict(layers.activations)
    for layer in layers.layers:
        chain = chain_of(layer, images)
        for one in chain[:-1]:
            images[one.output] = one._infer(*(images[name] for name in one.inputs))
        made += chain
    if len(made) == len(layers.layers) and all(map(is_, made, layers.layers)):
        return layers
    return replace(layers, layers=tuple(made), activations=images)
