"""Products by transposed matrices, on machines with transposed weight tiles."""

from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.graph.layers import Layer, LayerGraph, MatMul, Transpose


def join_transposes(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network without transposes that only second operands of products need.

    The array takes their weights as transposed tiles. That takes fewer cycles than a transpose,
    whatever the extents are; channels must fill whole blocks, since what lies behind the others is
    not known.
    """
    if not config.has_transposed_tiles:
        return layers
    sources = {
        layer.output: layer.inputs[0]
        for layer in layers.layers
        if isinstance(layer, Transpose) and _joins(layers, layer, config)
    }
    joined: list[Layer] = []
    for layer in layers.layers:
        if isinstance(layer, MatMul) and layer.inputs[1] in sources:
            inputs = layer.inputs[0], sources[layer.inputs[1]]
            joined.append(replace(layer, inputs=inputs, transposed=not layer.transposed))
        elif layer.output not in sources:
            joined.append(layer)
    return layers.with_layers(joined)


def _joins(layers: LayerGraph, transpose: Transpose, config: Config) -> bool:
    """Return whether only second operands of products read what a layer transposes."""
    source, name = transpose.inputs[0], transpose.output
    if name in layers.outputs or layers.activations[source].shape[2] % config.array_size:
        return False
    return all(
        isinstance(layer, MatMul) and not layer.transposed and layer.inputs[0] not in (name, source)
        for layer in layers.readers[name]
    )
