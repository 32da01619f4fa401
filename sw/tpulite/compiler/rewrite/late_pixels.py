"""Channels that become pixels behind layers of single pixels instead of before.

A layer of single pixels does the same to each part of the channels. Before they become pixels,
parts share vectors; and what becomes pixels in a result of the network, the host moves.
"""

from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.plan.layer_cost import compute_cycles, conv_cycles
from tpulite.compiler.rewrite.picks import has_blocks
from tpulite.compiler.rewrite.pixel_blocks import repeated_record
from tpulite.compiler.rewrite.results import can_be_left, tables_to_host
from tpulite.graph.layers import Activation, Conv, DepthToSpace, LayerGraph, Lut, Requantization

_LESS = 0.8
"""Part of the cycles that the layers may take in the other order."""

_MOST_WEIGHTS = 1 << 18
"""Weights, most of them zeros, of a convolution of all parts."""


def move_pixels_last(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with moves of channels to pixels as late as that saves cycles."""
    for name in [layer.name for layer in layers.layers if isinstance(layer, DepthToSpace)]:
        while (later := _later(layers, name, config)) is not None:
            layers = later
    return layers


def _later(layers: LayerGraph, name: str, config: Config) -> LayerGraph | None:
    """Return the network with a move behind the layer that reads what it makes, if that pays."""
    move = next(layer for layer in layers.layers if layer.name == name)
    assert isinstance(move, DepthToSpace)
    reader = layers.sole_reader(move.output)
    if not _can_be_parted(move, layers) or not isinstance(reader, Conv | Lut):
        return None
    parts, wide = len(move.order), f"{reader.output}/parts"
    first = replace(reader, inputs=move.inputs, output=wide)
    if isinstance(reader, Conv) and isinstance(first, Conv):
        found = _of_parts(reader, parts)
        if found is None:
            return None
        weight, record = found
        first = replace(first, weight=weight, requantization=record)
    source, target = layers.activations[move.inputs[0]], layers.activations[reader.output]
    channels = target.shape[2]
    last = replace(move, inputs=(wide,), output=reader.output, channels=channels)
    between = Activation((*source.shape[:2], parts * channels))
    images = {**layers.activations, wide: between}
    made = {move.name: first, reader.name: last}
    after = layers.with_layers([made.get(x.name, x) for x in layers.layers], images)
    pair = (layers.activations[move.output], target)
    before = _engines(layers, move, reader, pair, config)
    cycles = _engines(after, last, first, (source, between), config)
    less = all(of(cycles) <= _LESS * of(before) for of in (max, sum))
    return after if less else None


def _can_be_parted(move: DepthToSpace, layers: LayerGraph) -> bool:
    """Return whether all channels of a single input become pixels."""
    depth = layers.activations[move.inputs[0]].shape[2]
    return len(move.inputs) == 1 and depth == len(move.order) * move.channels


def _of_parts(layer: Conv, parts: int) -> tuple[np.ndarray, Requantization] | None:
    """Return weights and requantization of all parts; None of other layers than single pixels."""
    single = (*layer.weight.shape[:2], *layer.stride, *layer.padding) == (1, 1, 1, 1, 0, 0, 0, 0)
    if not single or layer.int16 or layer.requantization is None:
        return None
    if parts * parts * layer.weight.size > _MOST_WEIGHTS:
        return None
    channels, outputs = layer.weight.shape[2:]
    weight = np.full((parts, channels, parts, outputs), layer.weight_zero_point, np.int8)
    weight[range(parts), :, range(parts)] = layer.weight[0, 0]
    weight = weight.reshape(1, 1, parts * channels, parts * outputs)
    return weight, repeated_record(layer.requantization, parts)


def _engines(
    layers: LayerGraph,
    move: DepthToSpace,
    layer: Conv | Lut,
    images: tuple[Activation, Activation],
    config: Config,
) -> tuple[int, int]:
    """Return the cycles of a layer and a move on both engines.

    Vectors are copied; a product puts parts apart that do not begin at a block.
    """
    array, vectors, _ = compute_cycles(layer, images, images[1].shape[:2], config)
    result = layers.activations[move.output]
    if tables_to_host(layers, move.output) is None or not can_be_left(move, layers.activations):
        height, width, channels = result.shape
        vectors += compute_cycles(move, (result,), (height, width), config).vpu
        if not has_blocks(move, layers.activations, config):
            blocks = -(-channels // config.array_size)
            array += conv_cycles(blocks, channels, (height, width), config).mxu
    return array, vectors
