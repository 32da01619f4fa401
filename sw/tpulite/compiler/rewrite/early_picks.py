"""Pixels picked before layers of single pixels instead of behind them."""

from dataclasses import replace
from math import prod

from tpulite.graph.layers import (
    Affine,
    Concat,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pick,
    Softmax,
    has_int16,
    is_pointwise,
)


def pick_pixels_first(layers: LayerGraph) -> LayerGraph:
    """Return the network with picks of pixels as early as possible; its results are the same.

    What computes each pixel of pixels of its inputs at the same place need not compute those that
    nobody picks: a classifier that reads the first token of a transformer needs the last
    feed-forward network of that token alone.
    """
    if has_int16(layers):
        return layers
    for layer in reversed(layers.layers):
        layers = _picked_before(layers, layer)
    for name in layers.activations:
        layers = _once(layers, layers.readers.get(name, ()))
    return layers


def _picked_before(layers: LayerGraph, producer: Layer) -> LayerGraph:
    """Return the network with what all readers pick of a layer picked before it, if it can be."""
    layers = _once(layers, layers.readers[producer.output])
    pick = layers.sole_reader(producer.output)
    if not isinstance(pick, Pick) or not _fewer(pick, layers.activations[producer.output].shape):
        return layers
    operands = _operands(producer, pick, layers)
    if operands is None:
        return layers
    images = dict(layers.activations)
    for each in operands:
        images[each.output] = each._infer(images[each.inputs[0]])
    names = {each.inputs[0]: each.output for each in operands}
    inputs = tuple(names.get(name, name) for name in producer.inputs)
    moved = [*operands, replace(producer, inputs=inputs, output=pick.output)]
    chain: list[Layer] = []
    for layer in layers.layers:
        if layer is not pick:
            chain += moved if layer is producer else [layer]
    return layers.with_layers(chain, images)


def _once(layers: LayerGraph, readers: tuple[Layer, ...]) -> LayerGraph:
    """Return the network without readers that pick what another one has picked already."""
    first: dict[Layer, Pick] = {}
    names: dict[str, str] = {}
    for layer in readers:
        if isinstance(layer, Pick) and layer.output not in layers.outputs:
            kept = first.setdefault(replace(layer, name="", output=""), layer)
            if kept is not layer:
                names[layer.output] = kept.output
    if not names:
        return layers
    chain = [layer for layer in layers.layers if layer.output not in names]
    for index, layer in enumerate(chain):
        if not names.keys().isdisjoint(layer.inputs):
            inputs = tuple(names.get(name, name) for name in layer.inputs)
            chain[index] = replace(layer, inputs=inputs)
    return layers.with_layers(chain)


def _fewer(pick: Pick, shape: tuple[int, int, int]) -> bool:
    """Return whether whole pixels are picked, and fewer than there are."""
    whole = not pick.transposed and pick.channels == tuple(range(shape[2]))
    return whole and len(pick.rows) * len(pick.columns) < prod(shape[:2])


def _operands(layer: Layer, pick: Pick, layers: LayerGraph) -> list[Pick] | None:
    """Return what picks the pixels of the inputs that a layer needs; None if it needs others."""
    shapes = [layers.activations[name].shape for name in layer.inputs]
    rows, columns = pick.rows, pick.columns
    chosen = dict.fromkeys(layer.inputs, (rows, columns))
    match layer:
        case Elementwise():
            if shapes[0][:2] != shapes[1][:2]:  # the second one is the same for all pixels
                chosen.pop(layer.inputs[1])
        case MatMul():
            if layer.inputs[0] == layer.inputs[1]:
                return None
            chosen[layer.inputs[1]] = rows, tuple(range(shapes[1][1]))
        case Concat(axis=2) | Affine() | Lut() | Softmax():
            pass
        case _ if not is_pointwise(layer):
            return None
    whole = {
        name: tuple(tuple(range(n)) for n in shape)
        for name, shape in zip(layer.inputs, shapes, strict=True)
    }
    return [
        Pick(
            name=f"{layer.name}: pixels of {name}",
            inputs=(name,),
            output=f"{name} for {layer.name}",
            rows=some[0],
            columns=some[1],
            channels=whole[name][2],
        )
        for name, some in chosen.items()
        if some != whole[name][:2]
    ]
