"""Networks without the channels that no result needs."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpulite.compiler.rewrite.simplify.needed import Mask, foldable
from tpulite.compiler.rewrite.simplify.ranges import Range
from tpulite.golden.ops import wrap32
from tpulite.graph.layers import (
    Activation,
    Conv,
    Layer,
    LayerGraph,
    Requantization,
)


def keep_channels(
    layers: LayerGraph, needed: Mapping[str, Mask], ranges: Mapping[str, Range]
) -> LayerGraph:
    """Return a network without the channels that are not needed.

    What such channels, if they are constant, add to the sums of a convolution goes into its bias.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    needed : mapping of str to ndarray of bool, [C]
        For each of its images, what
        :func:`tpulite.compiler.rewrite.simplify.needed.needed_channels` says.
    ranges : mapping of str to Range
        What its channels can hold.
    """
    return replace(
        layers,
        layers=tuple(_narrow(layer, needed, ranges[layer.inputs[0]]) for layer in layers.layers),
        activations={
            name: Activation((*image.shape[:2], int(needed[name].sum())), image.dtype)
            for name, image in layers.activations.items()
        },
        constants={name: value[..., needed[name]] for name, value in layers.constants.items()},
    )


def _narrow(layer: Layer, needed: Mapping[str, Mask], x: Range) -> Layer:
    inputs, outputs = needed[layer.inputs[0]], needed[layer.output]
    if inputs.all() and outputs.all():
        return layer
    if isinstance(layer, Conv):
        record = layer.requantization and _fold(layer, layer.requantization, ~inputs, x)
        layer = replace(layer, weight=layer.weight[:, :, inputs], requantization=record)
    return layer.of_channels(outputs)


def _fold(layer: Conv, record: Requantization, missing: Mask, x: Range) -> Requantization:
    """Add to the bias what constants that are not read add to the sums."""
    folded = missing & foldable(layer, x)
    centered = (x.low - layer.input_zero_point)[folded]
    if not centered.any():
        return record
    weight = layer.weight[:, :, folded].astype(np.int64) - layer.weight_zero_point
    added = centered @ weight.sum(axis=(0, 1))
    return replace(record, bias=wrap32(record.bias + added).astype(np.int32))
