"""Layers that another layer computes faster, or at all."""

from dataclasses import replace
from math import gcd

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE
from tpulite.arch.isa import CONV
from tpulite.compiler.geometry.cut import STRIPS
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.compiler.plan.depthwise_plan import PHASES
from tpulite.compiler.plan.layer_cost import compute_cycles, transfer_cycles
from tpulite.graph.layers import Activation, Conv, Depthwise, Layer, LayerGraph, is_int8_conv
from tpulite.graph.requantization import IDENTITY

_MOST_WEIGHTS = 1 << 28
"""Bytes of weights, most of them zeros, of a layer that is made here."""


def substitute_layers(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with convolutions, or larger kernels, instead of some depthwise ones.

    The array runs a dilated depthwise convolution phase by phase, and cannot run those with large
    strides, dilations or paddings. An ordinary convolution computes the same if its weights are
    zero but for those from a channel to itself; tiles of zeros are never multiplied.

    A 5x5 kernel of stride 2 takes as long as a 6x6 one without delay lines, of which every second
    tap goes through them.
    """

    def substitute(layer: Layer) -> Layer:
        if (
            not isinstance(layer, Depthwise)
            or layer.weight.size * layer.weight.shape[2] > _MOST_WEIGHTS
        ):
            return layer
        if _runs(layer) and max(layer.dilation) == 1:
            return _with_even_kernel(layer, layers, config)
        images = (layers.activations[layer.inputs[0]], layers.activations[layer.output])
        conv = _diagonal(layer)
        extents = images[-1].shape[:2]
        if _runs(layer) and _cycles(layer, images, config) <= (
            compute_cycles(conv, images, extents, config).mxu
        ):
            return layer
        return conv

    layers = _with_multipliers(layers, config)
    return replace(layers, layers=tuple(map(substitute, layers.layers)))


def _with_multipliers(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with depthwise layers of repeated channels, where they are faster.

    A depthwise layer with a multiplier comes as a convolution whose weights are mostly zero.
    """
    found: list[Layer] = []
    activations = dict(layers.activations)
    for layer in layers.layers:
        pair = repeat_channels(layer)
        if pair is None or pair[0].output in activations:
            found.append(layer)
            continue
        source, target = activations[layer.inputs[0]], activations[layer.output]
        middle = replace(source, shape=(*source.shape[:2], target.shape[2]))
        images = (source, middle), (middle, target)
        cycles = [
            compute_cycles(each, some, some[1].shape[:2], config).mxu
            for each, some in zip(pair, images, strict=True)
        ]
        if sum(cycles) < _dense_cycles(layer, (source, target), config):
            activations[pair[0].output] = middle
            found += pair
        else:
            found.append(layer)
    return replace(layers, layers=tuple(found), activations=activations)


def repeat_channels(layer: Layer) -> tuple[Conv, Depthwise] | None:
    """Return layers that repeat channels and filter each, if that is what a convolution does."""
    if not is_int8_conv(layer):
        return None
    *kernel, inputs, outputs = layer.weight.shape
    times, rest = divmod(outputs, inputs)
    if times < 2 or rest or inputs == 1 or max(kernel) == 1 or layer.requantization is None:
        return None
    every = np.arange(outputs)
    weight = np.full_like(layer.weight, layer.weight_zero_point)
    weight[:, :, every // times, every] = layer.weight[:, :, every // times, every]
    if not np.array_equal(weight, layer.weight):
        return None
    repeat = np.zeros((1, 1, inputs, outputs), np.int8)
    repeat[0, 0, every // times, every] = 1
    first = Conv(
        name=f"{layer.name}/repeat",
        inputs=layer.inputs,
        output=f"{layer.output}/repeated",
        weight=repeat,
        requantization=IDENTITY,
    )
    second = Depthwise(
        name=layer.name,
        inputs=(first.output,),
        output=layer.output,
        weight=layer.weight[:, :, every // times, every],
        requantization=layer.requantization,
        input_zero_point=layer.input_zero_point,
        weight_zero_point=layer.weight_zero_point,
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
    )
    return (first, second) if _runs(second) and max(layer.dilation) == 1 else None


def _dense_cycles(layer: Layer, images: tuple[Activation, Activation], config: Config) -> int:
    """Return the cycles of a convolution, also if taps and channels are packed."""
    size, (height, width, outputs) = config.array_size, images[1].shape
    depth = layer.macs(*images) // (height * width * outputs)
    packed = -(-depth // size) * -(-outputs // size) * height * width
    return min(packed, compute_cycles(layer, images, (height, width), config).mxu)


def _with_even_kernel(layer: Depthwise, layers: LayerGraph, config: Config) -> Depthwise:
    """Return the layer with taps of zero, if its parts then go through delay lines, faster."""
    kh, kw = layer.weight.shape[:2]
    more = PHASES * LINE - kh, PHASES * LINE - kw
    if not config.has_delay_lines or layer.stride != (PHASES, PHASES) or set(more) - {0, 1}:
        return layer
    weight = np.pad(
        layer.weight,
        ((0, more[0]), (0, more[1]), (0, 0)),
        constant_values=layer.weight_zero_point,
    )
    top, left, bottom, right = layer.padding
    larger = replace(layer, weight=weight, padding=(top, left, bottom + more[0], right + more[1]))
    images = (layers.activations[layer.inputs[0]], layers.activations[layer.output])
    known = images, images[-1].shape[:2], config
    faster = compute_cycles(larger, *known).mxu < compute_cycles(layer, *known).mxu
    return larger if faster and _runs(larger) else layer


def _runs(layer: Depthwise) -> bool:
    """Whether the array can run a depthwise layer as it is; see :func:`read_window`."""
    steps = [s // gcd(s, d) * d for s, d in zip(layer.stride, layer.dilation, strict=True)]
    # Rows that are a dilation apart are neighbors for a pitch, columns are not.
    rows = layer.dilation[0]
    pads = [-(-pad // rows) for pad in layer.padding[::2]]
    return max(steps[0] // rows, steps[1], layer.dilation[1]) <= CONV.limit("stride_y") and (
        # Of outputs that read nothing but padding behind the image, it is padding before it.
        max(*pads, *layer.padding[1::2]) <= CONV.limit("pad_top")
    )


def _cycles(layer: Depthwise, images: tuple[Activation, Activation], config: Config) -> int:
    """Return the cycles of a depthwise layer whose image is perhaps too large to stay on chip.

    Then strips load their halos, too; as a convolution the layer would take the image by tiles.
    """
    (height, width), stride = images[1].shape[:2], layer.stride[0]
    source, target = (activation_rows(image, config) for image in images)
    if source + target <= config.ub_rows:
        return compute_cycles(layer, images, (height, width), config).mxu
    row, written = source // images[0].shape[0], target // height
    outputs = max(1, config.ub_rows // STRIPS // (row * stride + written))
    strips = -(-height // outputs)
    outputs = -(-height // strips)
    halo = (layer.weight.shape[0] - 1) * layer.dilation[0] + 1 - stride
    load = transfer_cycles((outputs * stride + halo) * row, config)
    return strips * max(load, compute_cycles(layer, images, (outputs, width), config).mxu)


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
