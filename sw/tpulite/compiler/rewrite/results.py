"""Results whose pixels the host puts in place when it reads them."""

from collections.abc import Mapping
from dataclasses import replace

from tpulite.arch.memory import Window
from tpulite.graph.layers import Activation, DepthToSpace, LayerGraph, Lut
from tpulite.program import Patches, TensorSpec


def leave_patches(layers: LayerGraph) -> LayerGraph:
    """Return the network without moves of pixels that the host makes when it reads a result.

    Vectors of such a result hold rectangles of pixels. Tables may be between it and the move.
    """
    for layer in layers.layers:
        if isinstance(layer, DepthToSpace):
            layers = _left(layers, layer)
    return layers


def tables_to_host(layers: LayerGraph, name: str) -> list[Lut] | None:
    """Return the tables from an activation to a result of the network that nothing else reads."""
    found: list[Lut] = []
    while name not in layers.outputs:
        reader = layers.sole_reader(name)
        if not isinstance(reader, Lut):
            return None
        found.append(reader)
        name = reader.output
    return None if layers.readers[name] else found


def can_be_left(layer: DepthToSpace, images: Mapping[str, Activation]) -> bool:
    """Return whether channels of a single input are pixels in their order, and nothing else."""
    depth = images[layer.inputs[0]].shape[2]
    in_order = list(layer.order) == sorted(layer.order)
    return len(layer.inputs) == 1 and in_order and depth == len(layer.order) * layer.channels


def _left(layers: LayerGraph, layer: DepthToSpace) -> LayerGraph:
    """Return the network without a move of pixels, if the host can make it."""
    tables = tables_to_host(layers, layer.output)
    if tables is None or not can_be_left(layer, layers.activations):
        return layers
    (source,) = layer.inputs
    maker = layers.makers.get(source)
    if maker is None or layers.sole_reader(source) is None:
        return layers
    # The move goes behind the tables, and what is before it computes its output.
    wide, images = layers.activations[source], dict(layers.activations)
    images |= dict.fromkeys((layer.output, *(table.output for table in tables)), wide)
    chain = tuple(
        replace(other, output=layer.output) if other is maker else other
        for other in layers.layers
        if other is not layer
    )
    name = tables[-1].output if tables else layer.output
    height, width, channels = layers.activations[name].shape
    count = wide.shape[0], wide.shape[1]
    patches = Patches(count, size=layer.block, step=layer.block, pad=(0, 0), fill=0)
    spec = TensorSpec(
        name,
        Window.OUTPUT,
        0,
        m=count[0] * count[1],
        channels=channels,
        dtype="uint8" if name in layers.unsigned else "int8",
        image=(height, width),
        patches=patches,
    )
    left = layers.with_layers(chain, images)
    return replace(left, packed={**layers.packed, name: spec})
