"""Layers that compute the same as others, faster at some shapes of a range."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tpulite.compiler.place.requantizations import pool_requantization
from tpulite.compiler.plan.pool_array import suits_array
from tpulite.compiler.rewrite.chains import replace_by_chains
from tpulite.compiler.rewrite.maxima import separate_maximum
from tpulite.compiler.rewrite.substitute import repeat_channels
from tpulite.graph.layers import Activation, Conv, Depthwise, Layer, LayerGraph, Pool

__all__ = ["substitute_all"]


def substitute_all(layers: LayerGraph) -> LayerGraph | None:
    """Return the network with all substitutes that it has, or None if there are none.

    Convolutions that are depthwise ones with a multiplier repeat channels first; maxima go along
    one axis, then along the other; averages without padding are products with ones.

    Parameters
    ----------
    layers : LayerGraph
        The network at any shape.
    """
    found = replace_by_chains(layers, _substitutes)
    kept = {id(layer) for layer in layers.layers}
    return None if all(id(layer) in kept for layer in found.layers) else found


def _substitutes(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
    """Return what stands for a layer: at least itself."""
    chain: Sequence[Layer] | None = None
    if isinstance(layer, Conv):
        chain = repeat_channels(layer)
    elif isinstance(layer, Pool) and layer.window != images[layer.inputs[0]].shape[:2]:
        if layer.op == "max":
            chain = separate_maximum(layer, _first_axis(layer))
        elif suits_array(layer) and not any(layer.padding):
            chain = [_with_ones(layer, images[layer.output].shape[2])]
    if chain is None or any(one.output in images for one in chain[:-1]):
        return [layer]
    return chain


def _first_axis(layer: Pool) -> int:
    """Return the axis along which maxima are taken first: that with which fewer rows are read."""
    (wy, wx), (sy, sx) = layer.window, layer.stride
    return int(wy / sy + wx / (sy * sx) > wx / sx + wy / (sy * sx))


def _with_ones(layer: Pool, channels: int) -> Depthwise:
    return Depthwise(
        name=layer.name,
        inputs=layer.inputs,
        output=layer.output,
        weight=np.ones((*layer.window, channels), np.int8),
        requantization=pool_requantization(layer, prod(layer.window)),
        stride=layer.stride,
    )
