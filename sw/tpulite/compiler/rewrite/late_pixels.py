"""Channels that become pixels behind layers of single pixels instead of before.

A layer of single pixels does the same to each part of the channels. Before they become pixels,
parts share vectors; and what becomes pixels in a result of the network, the host moves.

Rectangles of pixels as channels of layers that see each element by itself.

Vectors of few channels, or of channels that are no multiple of a vector, are partly empty. Between
inputs and results of a network the host can fill them with more pixels.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.memory import Window
from tpulite.arch.timing import vector_overhead
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.compiler.plan.layer_cost import compute_cycles, conv_cycles, transfer_cycles
from tpulite.compiler.rewrite.picks import has_blocks
from tpulite.compiler.rewrite.results import can_be_left, tables_to_host
from tpulite.graph.layers import (
    Activation,
    Affine,
    DepthToSpace,
    Depthwise,
    Layer,
    LayerGraph,
    Lut,
    Requantization,
    is_pointwise,
)
from tpulite.program import Patches, TensorSpec

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
    parts = len(move.order)
    first = None if reader is None else _of_parts(reader, parts)
    if first is None or reader is None or not _can_be_parted(move, layers):
        return None
    wide = f"{reader.output}/parts"
    first = replace(first, inputs=move.inputs, output=wide)
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


def _of_parts(layer: Layer, parts: int) -> Layer | None:
    """Return the layer of all parts; None if it computes other than single pixels."""
    if isinstance(layer, Lut):
        return layer
    if not is_pointwise(layer) or layer.int16 or layer.requantization is None:
        return None
    if parts * parts * layer.weight.size > _MOST_WEIGHTS:
        return None
    channels, outputs = layer.weight.shape[2:]
    weight = np.full((parts, channels, parts, outputs), layer.weight_zero_point, np.int8)
    weight[range(parts), :, range(parts)] = layer.weight[0, 0]
    weight = weight.reshape(1, 1, parts * channels, parts * outputs)
    record = repeated_record(layer.requantization, parts)
    return replace(layer, weight=weight, requantization=record)


def _engines(
    layers: LayerGraph,
    move: DepthToSpace,
    layer: Layer,
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


_LEAST = 16
"""A sixteenth of the cycles must be saved, or the host has to move pixels for nothing."""

_MORE = 200
"""A larger rectangle must save such a part: its channels are more blocks, and so more commands."""

_Shape = tuple[int, int, int]


def fill_vectors(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with rectangles of pixels as channels, where that saves cycles.

    That is done for layers of single elements whose activations come from and go to the host.
    """
    for some in _together(layers):
        shape = layers.activations[some[0].output].shape
        if all(_of_elements(layer, layers, shape) for layer in some):
            names = _images(some, layers)
            if names is not None and (size := _rectangle(some, layers, config)) != (1, 1):
                layers = _filled(layers, some, names, size)
    return layers


def _together(layers: LayerGraph) -> list[list[Layer]]:
    """Return layers by the activations, other than known ones, that they share."""
    found: list[tuple[set[str], list[Layer]]] = []
    for layer in layers.layers:
        names = {layer.output, *layer.inputs} - layers.constants.keys()
        mine = [each for each in found if each[0] & names]
        found = [each for each in found if not each[0] & names]
        joined = [one for _, some in mine for one in some]
        found.append((names.union(*(known for known, _ in mine)), [*joined, layer]))
    return [some for _, some in found]


def _of_elements(layer: Layer, layers: LayerGraph, shape: _Shape) -> bool:
    """Return whether each element of a result depends on those in its place alone."""
    if not (layer.in_place or (isinstance(layer, Depthwise) and layer.windows.single)):
        return False
    names = (*layer.inputs, layer.output)
    return all(layers.activations[x].shape == shape or x in layers.constants for x in names)


def _images(some: Iterable[Layer], layers: LayerGraph) -> set[str] | None:
    """Return all activations of some layers, or None if the host has one in another form."""
    names = {name for layer in some for name in (*layer.inputs, layer.output)}
    return None if names & layers.packed.keys() else names


def _rectangle(some: list[Layer], layers: LayerGraph, config: Config) -> tuple[int, int]:
    """Return the smallest rectangle with which some layers take about the fewest cycles."""
    height, width, _ = layers.activations[some[0].output].shape
    cycles = _cycles(some, layers, (1, 1), config)
    least, best = cycles - cycles // _LEAST - 1, (1, 1)
    limit = config.array_size
    sizes = (
        (y, x) for y in range(1, min(height, limit) + 1) for x in range(1, min(width, limit) + 1)
    )
    for size in sorted(sizes, key=lambda size: (size[0] * size[1], size[0])):
        if size[0] * size[1] > limit:
            break
        cycles = _cycles(some, layers, size, config)
        if cycles < least:
            least, best = cycles - cycles // _MORE, size
    return best


def _cycles(some: list[Layer], layers: LayerGraph, size: tuple[int, int], config: Config) -> int:
    """Return about the cycles of all engines for some layers with rectangles as channels.

    Each block of channels has records of its own, and each one of a product a command.
    """
    image = Activation(_patched(layers.activations[some[0].output].shape, size))
    blocks = -(-image.shape[2] // config.array_size)
    names = {name for layer in some for name in (*layer.inputs, layer.output)}
    whole = names & {*layers.inputs, *layers.outputs, *layers.constants}
    by_channel = {name for name in whole if layers.activations[name].shape[:2] == (1, 1)}
    rows = len(whole - by_channel) * activation_rows(image, config) + len(by_channel) * blocks
    cycles = 0
    for layer in some:
        one = _repeated(layer, size[0] * size[1])
        images = (image,) * (len(one.inputs) + 1)
        cycles += sum(compute_cycles(one, images, image.shape[:2], config)[:2])
        if isinstance(one, Affine | Depthwise):
            rows += blocks * config.record_rows
        if isinstance(one, Affine):
            cycles += (blocks - 1) * vector_overhead(VectorOp.AFFINE, config)
    return cycles + transfer_cycles(rows, config)


def _patched(shape: _Shape, size: tuple[int, int]) -> _Shape:
    """Return the shape with rectangles of pixels as channels."""
    height, width, channels = shape
    return -(-height // size[0]), -(-width // size[1]), size[0] * size[1] * channels


def _filled(
    layers: LayerGraph, some: list[Layer], names: set[str], size: tuple[int, int]
) -> LayerGraph:
    """Return the network with rectangles of pixels as channels of some layers."""
    pixels = size[0] * size[1]
    images, constants = dict(layers.activations), dict(layers.constants)
    known = {name: f"{name} for {some[0].output}" for name in names & constants.keys()}
    for name in names:
        if (value := constants.get(name)) is None:
            images[name] = replace(images[name], shape=_patched(images[name].shape, size))
            continue
        by_channel = value.shape[:2] == (1, 1)
        wide = np.tile(value, pixels) if by_channel else _patches(value, size)
        constants[known[name]], images[known[name]] = wide, Activation(wide.shape)
    mine = {}
    for layer in some:
        inputs = tuple(known.get(name, name) for name in layer.inputs)
        mine[layer.name] = replace(_repeated(layer, pixels), inputs=inputs)
    packed = {
        name: _host_form(name, layers, size)
        for name in (*layers.inputs, *layers.outputs)
        if name in names
    }
    filled = [mine.get(layer.name, layer) for layer in layers.layers]
    read = {name for layer in filled for name in layer.inputs}
    return replace(
        layers,
        layers=tuple(filled),
        activations={n: x for n, x in images.items() if n in read or n not in known},
        constants={name: x for name, x in constants.items() if name in read},
        packed={**layers.packed, **packed},
    )


def _patches(value: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return a known activation with rectangles of pixels as channels; what is missing is 0."""
    rows, columns, depth = _patched(value.shape, size)
    more = (rows * size[0] - value.shape[0], columns * size[1] - value.shape[1])
    whole = np.pad(value, ((0, more[0]), (0, more[1]), (0, 0)))
    parts = whole.reshape(rows, size[0], columns, size[1], -1)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3, 4).reshape(rows, columns, depth))


def _repeated(layer: Layer, pixels: int) -> Layer:
    """Return a layer that does to each pixel of a rectangle what it did to a pixel."""
    if isinstance(layer, Affine):
        record = repeated_record(layer.requantization, pixels)
        return replace(layer, gain=np.tile(layer.gain, pixels), requantization=record)
    if isinstance(layer, Depthwise) and layer.requantization is not None:
        record = repeated_record(layer.requantization, pixels)
        return replace(layer, weight=np.tile(layer.weight, pixels), requantization=record)
    return layer


def repeated_record(record: Requantization, pixels: int) -> Requantization:
    """Return how the channels of a pixel are requantized, once for each pixel."""
    names = ("multiplier", "shift", "bias", "rounding", "low", "high")
    arrays = {name: getattr(record, name) for name in names}
    return replace(record, **{n: np.tile(x, pixels) for n, x in arrays.items() if np.size(x) > 1})


def _host_form(name: str, layers: LayerGraph, size: tuple[int, int]) -> TensorSpec:
    """Return how the host has an input or a result."""
    height, width, channels = layers.activations[name].shape
    rows, columns, _ = _patched((height, width, channels), size)
    return TensorSpec(
        name,
        Window.INPUT if name in layers.inputs else Window.OUTPUT,
        0,
        m=rows * columns,
        channels=channels,
        dtype="uint8" if name in layers.unsigned else "int8",
        image=(height, width),
        patches=Patches((rows, columns), size=size, step=size, pad=(0, 0), fill=0),
    )
