"""Maxima over large windows as maxima along one axis, then along the other.

The vector path reads each window: k * k rows of the buffer, but only k + k for two passes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from tpulite.arch.config import Config
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.graph.layers import Activation, Layer, LayerGraph, Pool

_LESS = 0.8
"""Part of the cycles of one pass that two may take: what is between them needs room."""


def separate_maxima(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with two maxima instead of one, where they take fewer cycles.

    What lies in the padding does not count, so a maximum over a clipped window is one of maxima
    over clipped rows.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> list[Layer]:
        if not isinstance(layer, Pool) or not _fits(layer, images[layer.inputs[0]], config):
            return [layer]
        one = _cycles([layer], images, config)
        pairs = [pair for first in (0, 1) if (pair := separate_maximum(layer, first))]
        if not pairs:
            return [layer]
        best = min(pairs, key=lambda pair: _cycles(pair, images, config))
        return best if _cycles(best, images, config) <= _LESS * one else [layer]

    return replace_by_chains(layers, chain_of)


def _fits(layer: Pool, source: Activation, config: Config) -> bool:
    """Return whether a quarter of the buffer holds the rows of a window.

    With less, what is between the two maxima leaves the buffer, and rows are read more than once.
    Windows that do not fit at all are read tile by tile, which half a maximum could not be.
    """
    _, width, channels = source.shape
    row = width * -(-channels // config.array_size)
    return 4 * (layer.window[0] + 1) * row <= config.ub_rows


def separate_maximum(layer: Pool, first: int) -> list[Layer] | None:
    """Return the maxima along an axis, and along the other one; None if a pool takes no such."""
    if layer.op != "max" or 1 in layer.window:
        return None
    (wy, wx), (sy, sx), (top, left, bottom, right) = layer.window, layer.stride, layer.padding
    rows = replace(layer, window=(wy, 1), stride=(sy, 1), padding=(top, 0, bottom, 0))
    columns = replace(layer, window=(1, wx), stride=(1, sx), padding=(0, left, 0, right))
    one, other = (rows, columns) if first == 0 else (columns, rows)
    middle = f"{layer.output}/{('rows', 'columns')[first]}"
    return [replace(one, name=middle, output=middle), replace(other, inputs=(middle,))]


def _cycles(chain: list[Layer], images: Mapping[str, Activation], config: Config) -> int:
    """Return the cycles of the vector path."""
    source, total = images[chain[0].inputs[0]], 0
    for layer in chain:
        target = layer._infer(source)
        total += compute_cycles(layer, (source, target), target.shape[:2], config).vpu
        source = target
    return total


def replace_by_chains(
    layers: LayerGraph, chain_of: Callable[[Layer, Mapping[str, Activation]], Sequence[Layer]]
) -> LayerGraph:
    """Return the network with other layers in the place of each.

    Parameters
    ----------
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
