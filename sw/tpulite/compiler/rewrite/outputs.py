"""Neighboring outputs of few channels as channels of one vector, so that no column is idle."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import LARGEST_KERNEL, LARGEST_STRIDE
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.compiler.plan.conv_cost import result_latency, weights_latency
from tpulite.compiler.plan.layer_cost import compute_cycles, conv_cycles, transfer_cycles
from tpulite.compiler.rewrite.maxima import replace_by_chains
from tpulite.compiler.rewrite.neighbors import conv_window, joined_outputs, transposed_window
from tpulite.compiler.rewrite.patches import alone_cycles
from tpulite.compiler.rewrite.picks import has_blocks, repeat_parts
from tpulite.compiler.rewrite.results import can_be_left, tables_to_host
from tpulite.graph.layers import Activation, Conv, DepthToSpace, Layer, LayerGraph, TransposedConv

_LEAST = 3
"""Joined outputs must save a third of the cycles by estimate, or the layer stays as it is: small
buffers overlap less of what moves pixels."""

_EXPOSED = 4
"""A quarter of the shorter of transfers and products does not overlap with the other one."""


def join_outputs(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with convolutions that compute several pixels of few channels at once.

    A column of the array computes a channel, so a convolution of at most half as many channels as
    there are columns wastes the others. With a larger kernel and stride it computes a rectangle of
    pixels instead, whose channels are put side by side afterwards. That is done where both
    together take fewer cycles. Channels that equal each other, as those of a map by which all
    channels of a pixel are multiplied, are computed once and repeated afterwards.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
        if isinstance(layer, Conv) and _may_join(layer, layers):
            return join_outputs_of(layer, [layer], layers, config)
        return [layer]

    return replace_by_chains(layers, chain_of)


def join_outputs_of(
    layer: Conv | TransposedConv, plain: Sequence[Layer], layers: LayerGraph, config: Config
) -> Sequence[Layer]:
    """Return a convolution of several outputs at once, and what moves their pixels, if that pays.

    Parameters
    ----------
    layer : Conv or TransposedConv
        The layer.
    plain : sequence of Layer
        What computes it otherwise, and is returned where that takes fewer cycles.
    """
    if (found := _different(layer, config.array_size // 2)) is None:
        return plain
    first, place = found
    repeated = len(first) < len(place)
    few = layer.of_channels(np.array(first)) if repeated else layer
    best, least = plain, _cycles(plain, layers, config) * (_LEAST - 1) // _LEAST
    for conv, counts in _joined(few, layers, config):
        shape = layers.activations[layer.output].shape
        crop = [-size % count for size, count in zip(shape, counts, strict=False)]
        pixels = DepthToSpace(
            name=f"{layer.name}/pixels",
            inputs=(f"{layer.output}/joined",),
            output=layer.output,
            block=counts,
            channels=len(place),
            crop=(crop[0], crop[1]),
        )
        chain: list[Layer] = [replace(conv, output=f"{layer.output}/joined")]
        chain += repeat_parts(pixels, len(first), place, config) if repeated else [pixels]
        cycles = _cycles(chain, layers, config)
        if cycles < least:
            best, least = chain, cycles
    return best


def _different(layer: Conv | TransposedConv, most: int) -> tuple[list[int], list[int]] | None:
    """Return the first of each set of equal channels, and which of these each channel equals.

    None if more than ``most`` are different.
    """
    count, record = layer.weight.shape[3], layer.requantization
    assert record is not None
    parameters = (record.multiplier, record.shift, record.bias, record.rounding, record.low)
    table = np.array([np.broadcast_to(each, count) for each in (*parameters, record.high)])
    first: dict[bytes, int] = {}
    place = []
    for channel in range(count):
        key = layer.weight[..., channel].tobytes() + table[:, channel].tobytes()
        first.setdefault(key, channel)
        if len(first) > most:
            return None
        place.append(list(first).index(key))
    return list(first.values()), place


def _may_join(layer: Conv, layers: LayerGraph) -> bool:
    """Return whether no reader sees windows of pixels: such a reader may join them itself."""
    if layer.requantization is None:
        return False
    readers = layers.readers[layer.output]
    return not any(other.windows or isinstance(other, DepthToSpace) for other in readers)


def _joined(
    layer: Conv | TransposedConv, layers: LayerGraph, config: Config
) -> Iterator[tuple[Conv, tuple[int, int]]]:
    """Yield convolutions that compute several outputs at once, and how many along each axis."""
    source, target = (layers.activations[x].shape for x in (layer.inputs[0], layer.output))
    least = layer.stride if isinstance(layer, TransposedConv) else (1, 1)
    most = max(config.array_size // layer.weight.shape[3], least[0] * least[1])
    axes: list[list[int]] = []
    for axis in (0, 1):
        last = min(most, target[axis] + least[axis] - 1)
        axes.append(
            [1] if layer.dilation[axis] > 1 else list(range(least[axis], last + 1, least[axis]))
        )
    for counts in product(axes[0], axes[1]):
        if counts[0] * counts[1] > most or counts == (1, 1):
            continue
        if isinstance(layer, TransposedConv):
            y, x = (transposed_window(layer, i, counts[i], source[i]) for i in (0, 1))
        else:
            each = zip((0, 1), counts, source, target, strict=False)
            y, x = (conv_window(layer, *known) for known in each)
        kernel = max(y.taps.shape[1], x.taps.shape[1])
        if kernel <= LARGEST_KERNEL and max(y.stride, x.stride) <= LARGEST_STRIDE:
            yield joined_outputs(layer, (y, x)), counts


def _cycles(chain: Sequence[Layer], layers: LayerGraph, config: Config) -> int:
    """Return the cycles of convolutions of one tensor, and of what moves their pixels, if any."""
    images, last = dict(layers.activations), chain[-1]
    convs = [layer for layer in chain if isinstance(layer, Conv)]
    read = convs[0].inputs[0]
    sole = sum(read in conv.inputs for conv in convs) == 1
    packed = sole and read in layers.inputs and len(layers.readers[read]) == 1
    cycles = 0
    for conv in convs:
        (name,) = conv.inputs
        images[conv.output] = conv._infer(images[name])
        ends = images[name], images[conv.output]
        cycles += alone_cycles(conv, ends, config, packed=packed and name == read)
    result, given = images[last.output], tables_to_host(layers, last.output) is not None
    if isinstance(last, DepthToSpace):
        if given and can_be_left(last, images):
            result = images[last.inputs[0]]
        else:  # most of that does not overlap with the convolution
            height, width, channels = result.shape
            cycles += compute_cycles(last, (result,), (height, width), config).vpu
            if not has_blocks(last, images, config):  # a product fills them
                blocks = -(-channels // config.array_size)
                cycles += conv_cycles(blocks, channels, (height, width), config).mxu
            # Both begin when what is before them has ended.
            cycles += 2 * (weights_latency(config) + result_latency(config))
    rows = activation_rows(result, config) if given else 0
    if read in layers.inputs and not packed:
        rows += activation_rows(images[read], config)
    transfers = transfer_cycles(rows, config)
    return max(cycles, transfers) + min(cycles, transfers) // _EXPOSED
