"""Joined activations that fill blocks of channels: copies join them instead of products."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.graph.layers import Concat, Layer, LayerGraph, Pick, is_int8_conv

_COPIES = 4
"""Cycles of the vector path, which most networks leave idle, that one of the array is worth."""

Order = NDArray[np.int64]


def align_joins(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with activations that fill blocks of channels where they are joined.

    The layer that makes such an activation computes its last channel again until the block is full,
    and so does each layer by channel that follows. A convolution that reads the joined channels has
    weights of zero for those that were added. A join stays as it is where that would not save work
    of the array.
    """
    for layer in layers.layers:
        if isinstance(layer, Concat) and layer.axis == 2:
            filled = _filled(layer, layers, config.array_size)
            if filled is not None and _pays(layers, filled, config):
                layers = filled
    return layers


def _filled(join: Concat, layers: LayerGraph, size: int) -> LayerGraph | None:
    """Return the network with full blocks before a join; the last one as it is, if that will do."""
    counts = [layers.activations[name].shape[2] for name in join.inputs]
    whole = [-(-count // size) * size for count in counts]
    if whole[:-1] == counts[:-1]:
        return None
    for filled in ([*whole[:-1], counts[-1]], whole):
        orders = _orders(join, dict(zip(join.inputs, filled, strict=True)), layers)
        if orders is not None:
            return _changed(orders, layers)
    return None


def _orders(join: Concat, filled: Mapping[str, int], layers: LayerGraph) -> dict[str, Order] | None:
    """Return the channels of activations that have others then; None if a layer cannot do so.

    ``filled`` says how many channels those have that are joined.
    """
    fixed = {*layers.inputs, *layers.outputs, *layers.constants}
    found, start, joined = {}, 0, []
    left: list[tuple[str, Order]] = []
    for name in join.inputs:
        count = layers.activations[name].shape[2]
        order = np.minimum(np.arange(filled[name]), count - 1)
        joined.append(order + start)
        start += count
        if len(order) > count:
            left.append((name, order))
    left.append((join.output, np.concatenate(joined)))
    while left:
        name, order = left.pop()
        if name in found:
            if not np.array_equal(found[name], order):
                return None
            continue
        if name in fixed or len(order) != filled.get(name, len(order)):
            return None
        found[name] = order
        maker = layers.makers[name]
        if maker.by_channel:
            left += [(source, order) for source in maker.inputs]
        elif not (maker is join or _is_product(maker) or _extends(maker, order, layers)):
            return None
        for reader in layers.readers[name]:
            if reader is join or is_int8_conv(reader):
                continue
            if reader.by_channel:
                left.append((reader.output, order))
            elif not (isinstance(reader, Pick) and _appends(order, name, layers)):
                return None
    return found


def _is_product(layer: Layer) -> bool:
    """Return whether a convolution requantizes each channel to a byte."""
    return is_int8_conv(layer) and layer.requantization is not None


def _appends(order: Order, name: str, layers: LayerGraph) -> bool:
    """Return whether channels are only added behind those that there are."""
    count = layers.activations[name].shape[2]
    return np.array_equal(order[:count], np.arange(count))


def _extends(maker: Layer, order: Order, layers: LayerGraph) -> bool:
    """Return whether a pick of the first channels can take more of its input."""
    if not isinstance(maker, Pick) or not _appends(order, maker.output, layers):
        return False
    first = maker.channels == tuple(range(len(maker.channels)))
    return first and layers.activations[maker.inputs[0]].shape[2] >= len(order)


def _changed(orders: Mapping[str, Order], layers: LayerGraph) -> LayerGraph:
    """Return the network whose activations have these channels."""
    images = dict(layers.activations)
    for name, order in orders.items():
        images[name] = replace(images[name], shape=(*images[name].shape[:2], len(order)))

    def change(layer: Layer) -> Layer:
        order = orders.get(layer.output)
        if order is not None:
            if isinstance(layer, Pick):
                layer = replace(layer, channels=tuple(range(len(order))))
            layer = layer.of_channels(order)
        if (read := orders.get(layer.inputs[0])) is not None:
            _, first = np.unique(read, return_index=True)
            layer = layer.reading(first, len(read)) or layer
        return layer

    return replace(layers, layers=tuple(map(change, layers.layers)), activations=images)


def _pays(before: LayerGraph, after: LayerGraph, config: Config) -> bool:
    """Return whether the array has less to do, and the vector path not much more."""
    array, vectors = 0, 0
    for old, new in zip(before.layers, after.layers, strict=True):
        names = (*old.inputs, old.output)
        shapes = [tuple(graph.activations[name] for name in names) for graph in (before, after)]
        if old is new and shapes[0] == shapes[1]:
            continue
        costs = [
            compute_cycles(layer, images, images[-1].shape[:2], config)
            for layer, images in zip((old, new), shapes, strict=True)
        ]
        array, vectors = array + costs[0].mxu - costs[1].mxu, vectors + costs[1].vpu - costs[0].vpu
    return array > 0 and vectors <= _COPIES * array
