"""What a network is rewritten to before it is compiled for a range of shapes."""

from dataclasses import replace

import numpy as np

from tpulite.compiler.bind.join import copy_of, find_parts, join_blocks
from tpulite.graph.layers import Concat, Depthwise, Layer, LayerGraph, Pad, Reshape
from tpulite.graph.requantization import IDENTITY


def normalize(layers: LayerGraph, size: int) -> LayerGraph:
    """Return a network without reshapes and frames whose outputs no layer reads.

    Its concatenations join whole blocks of ``size`` channels: see
    :func:`tpulite.compiler.bind.join.join_blocks`.

    Raises
    ------
    ValueError
        If a tensor is constant, an output is an input, or a layer reshapes what depends on the
        extents or joins anything but channels.
    """
    _check(layers)
    layers = _without_reshapes(layers)
    framed = tuple(_frame(layer, layers) for layer in layers.layers)
    return _with_copies(join_blocks(replace(layers, layers=framed), size), size)


def _frame(layer: Layer, layers: LayerGraph) -> Layer:
    """Return a depthwise layer of one tap that does the same, if a layer adds a frame."""
    if not isinstance(layer, Pad):
        return layer
    channels = layers.activations[layer.output].shape[2]
    return Depthwise(
        name=layer.name,
        inputs=layer.inputs,
        output=layer.output,
        weight=np.ones((1, 1, channels), np.int8),
        requantization=replace(IDENTITY, zero_point=layer.value),
        padding=layer.padding,
        input_zero_point=layer.value,
    )


def _check(layers: LayerGraph) -> None:
    for name in layers.constants:
        raise ValueError(
            f"Tensor {name!r} of {layers.name!r} is constant, so it cannot have a range of shapes"
        )
    for name in layers.outputs:
        if name in layers.inputs:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")


def _without_reshapes(layers: LayerGraph) -> LayerGraph:
    """Remove layers that leave one pixel as it is.

    Raises
    ------
    ValueError
        If a layer reshapes what depends on the extents.
    """
    names: dict[str, str] = {}
    for layer in layers.layers:
        if not isinstance(layer, Reshape):
            continue
        shapes = [layers.activations[name].shape for name in (layer.inputs[0], layer.output)]
        source = layer.inputs[0]
        needed = layer.output in layers.outputs and source in (*layers.outputs, *layers.inputs)
        if shapes[0] != shapes[1] or shapes[0][:2] != (1, 1) or needed:
            raise ValueError(
                f"{layer.title} depends on the extents: it makes {shapes[1]} of {shapes[0]}"
            )
        if layer.output in layers.outputs:
            names = {old: layer.output if new == source else new for old, new in names.items()}
            names[source] = layer.output
        else:
            names[layer.output] = names.get(source, source)
    kept = (layer for layer in layers.layers if not isinstance(layer, Reshape))
    return replace(
        layers,
        layers=tuple(
            replace(
                layer,
                inputs=tuple(names.get(name, name) for name in layer.inputs),
                output=names.get(layer.output, layer.output),
            )
            for layer in kept
        ),
    )


def _with_copies(layers: LayerGraph, size: int) -> LayerGraph:
    """Copy outputs that layers read: programs do not read the window of outputs."""
    parts = find_parts(layers, size)
    computing = (layer for layer in layers.layers if not isinstance(layer, Concat))
    read = {name for layer in computing for name in layer.inputs}
    read |= {parts[name][0] for name in read if name in parts}
    hidden = {name: f"{name} (inside)" for name in layers.outputs if name in read}
    rewritten: list[Layer] = []
    for layer in layers.layers:
        name = layer.output
        inputs = tuple(hidden.get(source, source) for source in layer.inputs)
        rewritten.append(replace(layer, inputs=inputs, output=hidden.get(name, name)))
        if name in hidden:
            rewritten.append(copy_of(hidden[name], name))
    images = {**layers.activations, **{new: layers.activations[old] for old, new in hidden.items()}}
    return replace(layers, layers=tuple(rewritten), activations=images)
