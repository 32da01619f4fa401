"""Layers that another layer computes faster, or at all."""

from dataclasses import replace
from math import gcd

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV
from tpulite.compiler.grouping.costs import compute_cycles
from tpulite.graph.layers import Conv, Depthwise, Image, Layer, LayerGraph

__all__ = ["substitute_layers"]

_MOST_WEIGHTS = 1 << 28
"""Bytes of weights, most of them zeros, of a layer that is made here."""


def substitute_layers(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with convolutions instead of some depthwise ones.

    The array runs a dilated depthwise convolution phase by phase, and cannot run those with large
    strides, dilations or paddings. An ordinary convolution computes the same if its weights are
    zero but for those from a channel to itself; tiles of zeros are never multiplied.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    """

    def substitute(layer: Layer) -> Layer:
        if (
            not isinstance(layer, Depthwise)
            or layer.weight.size * layer.weight.shape[2] > _MOST_WEIGHTS
        ):
            return layer
        if _runs(layer) and max(layer.dilation) == 1:
            return layer
        images = (layers.images[layer.inputs[0]], layers.images[layer.output])
        conv = _diagonal(layer)
        if _runs(layer) and _cycles(layer, images, config) <= _cycles(conv, images, config):
            return layer
        return conv

    return replace(layers, layers=tuple(map(substitute, layers.layers)))


def _runs(layer: Depthwise) -> bool:
    """Whether the array can run a depthwise layer as it is."""
    steps = [s // gcd(s, d) * d for s, d in zip(layer.stride, layer.dilation, strict=True)]
    return max(*steps, *layer.dilation) <= CONV.limit("stride_y") and (
        # Of outputs that read nothing but padding behind the image, it is padding before it.
        max(layer.padding) <= CONV.limit("pad_top")
    )


def _cycles(layer: Layer, images: tuple[Image, Image], config: Config) -> int:
    return compute_cycles(layer, images, images[-1].shape[:2], config).mxu


def _diagonal(layer: Depthwise) -> Conv:
    channels = layer.weight.shape[2]
    weight = np.full((*layer.weight.shape, channels), layer.weight_zero_point, np.int8)
    every = np.arange(channels)
    weight[:, :, every, every] = layer.weight
    return Conv(
        name=layer.name,
        inputs=layer.inputs,
        output=layer.output,
        weight=weight,
        requantization=layer.requantization,
        input_zero_point=layer.input_zero_point,
        weight_zero_point=layer.weight_zero_point,
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
    )
