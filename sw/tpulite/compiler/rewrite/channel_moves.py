"""Moves of channels as orders of weights: a shuffle between two convolutions takes no cycle."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.numerics import INT8
from tpulite.golden.ops import requantize_sums
from tpulite.graph.layers import Conv, Depthwise, Layer, LayerGraph, Pick, is_pointwise

Order = NDArray[np.int64]


def fold_channel_moves(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with channels in another order instead of moves of channels.

    A convolution computes the channels that are moved where they go, or reads them where they come
    from, and so do layers by channel on the way. A move that this does not make cheaper stays.
    """
    for name in [layer.name for layer in layers.layers]:
        layer = next((each for each in layers.layers if each.name == name), None)
        order = None if layer is None else _moved(layer, layers)
        if layer is None or order is None:
            continue
        for changed in (_made_in_order(layer, order, layers), _read_in_order(layer, order, layers)):
            if changed and _pays(layer, order, changed, layers, config):
                layers = _replaced(layers, layer, changed)
                break
    return layers


def _moved(layer: Layer, layers: LayerGraph) -> Order | None:
    """Return which input channel each output channel of a layer is, if it does only that."""
    shape = layers.activations[layer.inputs[0]].shape
    if layer.output in layers.outputs:
        return None
    if isinstance(layer, Pick) and not layer.transposed:
        whole = (layer.rows, layer.columns) == (tuple(range(shape[0])), tuple(range(shape[1])))
        return np.array(layer.channels) if whole else None
    if is_pointwise(layer):
        weight = layer.weight[0, 0].astype(np.int16) - layer.weight_zero_point
        order = weight.argmax(axis=0)
        moves = (np.count_nonzero(weight, axis=0) == 1) & (weight.max(axis=0) == 1)
        if moves.all() and _keeps(layer):
            return order
    return None


def _keeps(layer: Conv) -> bool:
    """Return whether the requantization of a convolution makes each sum the integer it is of."""
    if layer.requantization is None:
        return False
    values = np.arange(INT8[0], INT8[-1] + 1)
    sums = np.repeat((values - layer.input_zero_point)[:, None], layer.weight.shape[3], axis=1)
    return bool((requantize_sums(sums, layer.requantization) == values[:, None]).all())


def _made_in_order(move: Layer, order: Order, layers: LayerGraph) -> dict[str, Layer] | None:
    """Return layers, by the name of the one that they replace, that make channels where they go."""
    changed: dict[str, Layer] = {}
    name, output = move.inputs[0], move.output
    while True:
        maker = layers.makers.get(name)
        if maker is None or layers.sole_reader(name) is None:
            return None
        new = replace(maker.of_channels(order), output=output)
        changed[maker.name] = new
        if isinstance(maker, Conv):
            return changed if maker.requantization is not None else None
        if not _is_by_channel(maker):
            return None
        name, output = maker.inputs[0], f"{maker.inputs[0]}/moved"
        changed[maker.name] = replace(new, inputs=(output,))


def _is_by_channel(layer: Layer) -> bool:
    return layer.by_channel and layer.operands == 1


def _read_in_order(move: Layer, order: Order, layers: LayerGraph) -> dict[str, Layer] | None:
    """Return layers, by the name of the one that they replace, that read channels where they are.

    Layers by channel compute all of them, so a move that leaves some out is not read by these.
    """
    count = layers.activations[move.inputs[0]].shape[2]
    if len(set(order.tolist())) < len(order):
        return None
    changed: dict[str, Layer] = {}
    names, left = {move.output: move.inputs[0]}, [move.output]
    while left:
        name = left.pop()
        for reader in layers.readers[name]:
            if (new := reader.reading(order, count)) is not None:
                changed[reader.name] = replace(new, inputs=(names[name],))
            elif _is_by_channel(reader) and len(order) == count:
                if reader.output in layers.outputs:
                    return None
                names[reader.output] = f"{reader.output}/moved"
                ends = {"inputs": (names[name],), "output": names[reader.output]}
                changed[reader.name] = replace(reader.of_channels(np.argsort(order)), **ends)
                left.append(reader.output)
            else:
                return None
    return changed


def _pays(
    move: Layer, order: Order, changed: dict[str, Layer], layers: LayerGraph, config: Config
) -> bool:
    """Return whether products and vectors, that of the move among them, do not become more."""
    size = config.array_size
    old = {layer.name: layer for layer in layers.layers}
    height, width, count = layers.activations[move.inputs[0]].shape
    weight = np.zeros((1, 1, count, len(order)), np.int8)
    weight[0, 0, order, np.arange(len(order))] = 1
    before = height * width * _tiles(weight, 0, size)
    if isinstance(move, Pick) and order[0] % size == 0 and not np.any(np.diff(order) != 1):
        before = 0  # whoever reads it reads a part
    after = 0
    for name, new in changed.items():
        pixels = int(np.prod(layers.activations[old[name].output].shape[:2]))
        before += pixels * _work(old[name], layers, size)
        after += pixels * _work(new, layers, size, channels=len(order))
    return after <= before


def _work(layer: Layer, layers: LayerGraph, size: int, channels: int = 0) -> int:
    """Return products of tiles for each pixel of a convolution, of others the vectors."""
    if isinstance(layer, Conv):
        return _tiles(layer.weight, layer.weight_zero_point, size)
    taps = layer.weight.shape[:2] if isinstance(layer, Depthwise) else (1, 1)
    channels = channels or layers.activations[layer.output].shape[2]
    return int(np.prod(taps)) * -(-channels // size)


def _tiles(weight: NDArray, zero_point: int, size: int) -> int:
    """Return how many tiles of weights have one that is not zero."""
    used = weight != zero_point
    return sum(
        int(used[:, :, block][..., columns].any(axis=(2, 3)).sum())
        for block in _blocks(weight.shape[2], size)
        for columns in _blocks(weight.shape[3], size)
    )


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _replaced(layers: LayerGraph, move: Layer, changed: dict[str, Layer]) -> LayerGraph:
    """Return the network without a move, and with other layers."""
    after = [changed.get(layer.name, layer) for layer in layers.layers if layer is not move]
    images = dict(layers.activations)
    for layer in after:
        if layer.name in changed:
            images[layer.output] = layer._infer(*(images[name] for name in layer.inputs))
    return layers.with_layers(after, images)
