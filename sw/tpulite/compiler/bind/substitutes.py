"""Layers that compute the same as others, faster at some shapes of a range."""

from collections.abc import Mapping, Sequence

from tpulite.compiler.plan.pool_array import suits_array
from tpulite.compiler.rewrite.chains import replace_by_chains
from tpulite.compiler.rewrite.maxima import separate_maximum
from tpulite.compiler.rewrite.substitute import repeat_channels
from tpulite.graph.layers import Activation, Conv, Layer, LayerGraph, Pool


def substitute_all(layers: LayerGraph) -> LayerGraph | None:
    """Return the network with all substitutes that it has, or None if there are none.

    Convolutions that are depthwise ones with a multiplier repeat channels first; maxima go along
    one axis, then along the other. Averages stay, to be computed on the array.

    Parameters
    ----------
    layers : LayerGraph
        The network at any shape.
    """
    found = replace_by_chains(layers, _substitutes)
    averages = any(
        isinstance(layer, Pool) and averages_on_array(layer, layers.activations)
        for layer in layers.layers
    )
    return found if averages or len(found.layers) > len(layers.layers) else None


def averages_on_array(layer: Pool, images: Mapping[str, Activation]) -> bool:
    """Return whether products with ones may compute a pool; not one that follows the extents."""
    return suits_array(layer) and layer.window != images[layer.inputs[0]].shape[:2]


def _substitutes(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
    """Return what stands for a layer: at least itself."""
    chain: Sequence[Layer] | None = None
    if isinstance(layer, Conv):
        chain = repeat_channels(layer)
    elif isinstance(layer, Pool) and layer.window != images[layer.inputs[0]].shape[:2]:
        chain = separate_maximum(layer, _first_axis(layer))
    if chain is None or any(one.output in images for one in chain[:-1]):
        return [layer]
    return chain


def _first_axis(layer: Pool) -> int:
    """Return the axis along which maxima are taken first: that with which fewer rows are read."""
    (wy, wx), (sy, sx) = layer.window, layer.stride
    return int(wy / sy + wx / (sy * sx) > wx / sx + wy / (sy * sx))
