"""Picked rows, columns and channels as the machine can move them: views, copies, products."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.progressions import consecutive, progressions
from tpulite.compiler.rewrite.maxima import replace_by_chains
from tpulite.graph.layers import Activation, Conv, DepthToSpace, Layer, LayerGraph, Pick
from tpulite.graph.requantization import IDENTITY

_MANY = 8
"""Progressions along both axes that are worth an activation between rows and columns."""


def split_picks(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with layers that each pick along axes that go together.

    Channels that are not whole blocks are products with a matrix of zeros and ones. Rows and
    columns that both come in no order are picked one after the other.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> list[Layer]:
        if isinstance(layer, Pick):
            return _chain(layer, images[layer.inputs[0]], config)
        if isinstance(layer, DepthToSpace) and not has_blocks(layer, images, config):
            count = images[layer.inputs[0]].shape[2]
            if count > len(layer.order) * layer.channels:  # nobody reads the others
                return _filled(layer, count, config)
        return [layer]

    return replace_by_chains(layers, chain_of)


def fill_blocks(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with channels that begin at a block where they become pixels.

    Products with a matrix of zeros and ones put them there.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> list[Layer]:
        if isinstance(layer, DepthToSpace) and not has_blocks(layer, images, config):
            return _filled(layer, images[layer.inputs[0]].shape[2], config)
        return [layer]

    return replace_by_chains(layers, chain_of)


def has_blocks(layer: DepthToSpace, images: Mapping[str, Activation], config: Config) -> bool:
    """Return whether the channels of each pixel begin at a block; an input's first ones do."""
    if len(layer.inputs) == len(layer.order):
        return True
    depth = sum(images[name].shape[2] for name in layer.inputs)
    return depth // len(layer.order) % config.array_size == 0


def mark_views(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with those picks marked of which readers see a part of the input.

    A part is a box: consecutive rows, columns and channel blocks, which begin at beats. Results of
    the network are copied, and so is what is read as one run of pixels: by reshapes and pooling.
    """
    runs = {x for layer in layers.layers if layer.reads_runs for x in layer.inputs}
    copied = runs | {*layers.outputs}
    marked = (
        replace(layer, view=True)
        if isinstance(layer, Pick)
        and layer.output not in copied
        and _is_box(layer, layers.activations[layer.inputs[0]], config)
        else layer
        for layer in layers.layers
    )
    return replace(layers, layers=tuple(marked))


def _is_box(layer: Pick, source: Activation, config: Config) -> bool:
    whole = all(map(consecutive, (layer.rows, layer.columns, layer.channels)))
    if not whole or layer.transposed or not _is_block(layer.channels, config):
        return False
    pixels = layer.rows[0] * source.shape[1], source.shape[1], layer.columns[0]
    return not any(count * config.row_bytes % BEAT_BYTES for count in pixels)


def _is_block(channels: tuple[int, ...], config: Config) -> bool:
    return consecutive(channels) and channels[0] % config.array_size == 0


def _chain(layer: Pick, source: Activation, config: Config) -> list[Layer]:
    """Return layers that do the same one after the other."""
    (height, width, count), chosen = source.shape, layer.channels
    here = replace(layer, channels=tuple(range(count)))
    pixels = [here]
    if all(len(progressions(axis)) > _MANY for axis in (layer.rows, layer.columns)):
        rows = tuple(range(len(layer.rows)))
        first = replace(here, columns=tuple(range(width)), transposed=False)
        pixels = [first, replace(here, rows=rows)]
    if _is_block(chosen, config):
        if len(pixels) == 1:
            return [layer]
        return _named(layer, [*pixels[:-1], replace(pixels[-1], channels=chosen)])
    product = _product(layer, chosen, range(len(chosen)), (count, len(chosen)))
    every = tuple(range(height)), tuple(range(width))
    if (layer.rows, layer.columns) == every and not layer.transposed:
        return [product]
    if len(layer.rows) * len(layer.columns) <= height * width:
        return _named(layer, [*pixels, product])
    left = tuple(range(len(chosen)))
    return _named(layer, [product, *(replace(each, channels=left) for each in pixels)])


def _filled(layer: DepthToSpace, count: int, config: Config) -> list[Layer]:
    """Return layers that do the same, with channels of each pixel that begin at a block."""
    pixels = len(layer.order)
    each = count // pixels
    chosen = [i * each + c for i in range(pixels) for c in range(layer.channels)]
    return _apart(layer, chosen, count, config)


def _apart(layer: DepthToSpace, chosen: Sequence[int], count: int, config: Config) -> list[Layer]:
    """Return a product that puts chosen ones of ``count`` channels into blocks, and the layer."""
    pixels, size = len(layer.order), config.array_size
    apart = -(-layer.channels // size) * size
    places = [i * apart + c for i in range(pixels) for c in range(layer.channels)]
    filled = f"{layer.output}/apart"
    product = _product(layer, chosen, places, (count, pixels * apart))
    product = replace(product, name=f"{layer.name}/apart", output=filled)
    return [product, replace(layer, inputs=(filled,))]


def repeat_parts(
    layer: DepthToSpace, each: int, place: Sequence[int], config: Config
) -> list[Layer]:
    """Return layers that make pixels of parts of ``each`` channels, some of which are repeated.

    Parameters
    ----------
    layer : DepthToSpace
        What makes the pixels, in whose input channels are not repeated yet.
    place : sequence of int
        For each channel of a pixel the one of its part.
    """
    chosen = [i * each + c for i in range(len(layer.order)) for c in place]
    return _apart(layer, chosen, len(layer.order) * each, config)


def _product(
    layer: Layer, chosen: Sequence[int], places: Sequence[int], counts: tuple[int, int]
) -> Conv:
    """Return a layer that puts channels to places; ``counts`` are those of input and output."""
    weight = np.zeros((1, 1, *counts), np.int8)
    weight[0, 0, chosen, places] = 1
    ends = {"name": layer.name, "inputs": layer.inputs, "output": layer.output}
    return Conv(**ends, weight=weight, requantization=IDENTITY)


def _named(layer: Layer, steps: list[Layer]) -> list[Layer]:
    """Return layers that read each other; the last one computes what the layer did."""
    chain, inputs = [], layer.inputs
    for number, step in enumerate(steps[:-1]):
        name, output = f"{layer.name}/{number}", f"{layer.output}/{number}"
        chain.append(replace(step, name=name, inputs=inputs, output=output))
        inputs = (output,)
    return [*chain, replace(steps[-1], inputs=inputs)]
