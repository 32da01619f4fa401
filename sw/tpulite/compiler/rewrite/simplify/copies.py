"""Layers whose result is their input."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.compiler.rewrite.simplify.ranges import Range
from tpulite.graph.layers import Layer, LayerGraph, Lut

__all__ = ["remove_copies"]


def remove_copies(
    layers: LayerGraph, ranges: Mapping[str, Range]
) -> tuple[LayerGraph, dict[str, str]]:
    """Remove tables that change nothing, such as those from uint8 to int8 of the same scale.

    Parameters
    ----------
    layers : LayerGraph
        The network. Its outputs stay.
    ranges : mapping of str to Range
        What the channels of its images can hold.

    Returns
    -------
    LayerGraph
        The network without the tables.
    dict of str to str
        Images that are gone, each with the one that equals it.
    """
    originals: dict[str, str] = {}
    kept = []
    for layer in layers.layers:
        inputs = tuple(originals.get(name, name) for name in layer.inputs)
        if layer.output not in layers.outputs and _copies(layer, ranges[layer.inputs[0]]):
            originals[layer.output] = inputs[0]
        else:
            kept.append(layer if inputs == layer.inputs else replace(layer, inputs=inputs))
    if not originals:
        return layers, {}
    images = {name: image for name, image in layers.activations.items() if name not in originals}
    return replace(layers, layers=tuple(kept), activations=images), originals


def _copies(layer: Layer, x: Range) -> bool:
    if not isinstance(layer, Lut):
        return False
    values = np.arange(x.low.min(), x.high.max() + 1)
    return np.array_equal(layer.table[values - INT8[0]], values)
