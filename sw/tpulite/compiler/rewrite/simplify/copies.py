"""Layers whose result is their input."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.compiler.rewrite.simplify.ranges import Range
from tpulite.graph.layers import Layer, LayerGraph, Lut, Reshape


def remove_copies(
    layers: LayerGraph, ranges: Mapping[str, Range]
) -> tuple[LayerGraph, dict[str, str]]:
    """Remove what changes nothing: tables from uint8 to int8 of the same scale, say, and reshapes.

    An output that is a copy is computed by the layer that computes the original.

    Parameters
    ----------
    layers : LayerGraph
        The network. Its outputs stay.
    ranges : mapping of str to Range
        What the channels of its images can hold.

    Returns
    -------
    LayerGraph
        The network without them.
    dict of str to str
        Images that are gone, each with the one that equals it.
    """
    originals: dict[str, str] = {}
    kept = []
    for layer in layers.layers:
        inputs = tuple(originals.get(name, name) for name in layer.inputs)
        copies = _copies(layer, layers, ranges[layer.inputs[0]])
        if copies and layer.output not in layers.outputs:
            originals[layer.output] = inputs[0]
        elif copies and kept and layers.sole_reader(kept[-1].output) is layer:
            # What the layer before it computes is the output, under another name.
            originals[inputs[0]] = layer.output
            kept[-1] = replace(kept[-1], output=layer.output)
        else:
            kept.append(layer if inputs == layer.inputs else replace(layer, inputs=inputs))
    if not originals:
        return layers, {}
    return layers.with_layers(kept), originals


def _copies(layer: Layer, layers: LayerGraph, x: Range) -> bool:
    if isinstance(layer, Reshape):
        images = layers.activations
        return images[layer.inputs[0]] == images[layer.output]
    if not isinstance(layer, Lut):
        return False
    values = np.arange(x.low.min(), x.high.max() + 1)
    return np.array_equal(layer.table[values - INT8[0]], values)
