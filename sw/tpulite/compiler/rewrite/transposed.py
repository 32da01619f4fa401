"""Transposed convolutions as convolutions: each phase of the output sees part of the kernel.

Outputs whose distance is the stride form a phase. Phases that read the same window of the input
are channels of one convolution; their pixels are put side by side afterwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.rewrite.maxima import replace_by_chains
from tpulite.compiler.rewrite.neighbors import Window, joined_outputs
from tpulite.compiler.rewrite.outputs import join_outputs_of
from tpulite.graph.layers import (
    Activation,
    Conv,
    DepthToSpace,
    Layer,
    LayerGraph,
    Pick,
    TransposedConv,
)


def split_transposed(layers: LayerGraph, config: Config, *, joined: bool = True) -> LayerGraph:
    """Return the network with convolutions and moves of pixels instead of transposed ones.

    Parameters
    ----------
    joined : bool
        Whether phases and neighbors of few channels may be those of one vector.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
        if isinstance(layer, TransposedConv):
            shape = images[layer.inputs[0]].shape
            if layer.int16:
                return _pairs_by_phases(layer, shape, config)
            convs, pixels = _by_phases(layer, shape, config)
            phases = [*convs, pixels]
            return join_outputs_of(layer, phases, layers, config) if joined else phases
        return [layer]

    return replace_by_chains(layers, chain_of)


@dataclass(frozen=True)
class _Phases:
    """Phases of one axis that read the same window."""

    phases: tuple[int, ...]
    window: Window


def _axis_phases(kernel: int, stride: int, lost: int, size: int, extent: int) -> Iterator[_Phases]:
    """Yield the windows of an axis: ``lost`` is its padding, ``extent`` that of the input.

    Output q * stride + p is reached by input q + i if its tap is p + lost - i * stride.
    """
    outputs = -(-size // stride)
    reached: dict[tuple[int, int], list[int]] = {}
    for p in range(stride):
        last = (p + lost) // stride
        first = -((kernel - 1 - p - lost) // stride)
        # All of the input is read, as convolutions do; the first and the last are never padding.
        ends = min(first, last, 0), max(last, 0, extent - outputs)
        reached.setdefault(ends, []).append(p)
    for (first, last), phases in reached.items():
        taps = np.array(phases)[:, None] + lost - stride * np.arange(first, last + 1)
        taps[(taps < 0) | (taps >= kernel)] = -1
        yield _Phases(tuple(phases), Window(taps, 1, -first, outputs - 1 + last - (extent - 1)))


def _by_phases(
    layer: TransposedConv, shape: tuple[int, int, int], config: Config
) -> tuple[list[Conv], DepthToSpace]:
    """Return a convolution for each pair of windows, and what joins them."""
    axes = [
        tuple(
            _axis_phases(layer.weight.shape[i], layer.stride[i], layer.padding[i], size, shape[i])
        )
        for i, size in enumerate(layer.size)
    ]
    channels = layer.weight.shape[3]
    apart = _with_blocks(layer, config)
    convs, pixels = [], []
    for number, (y, x) in enumerate(product(*axes)):
        pixels += [i * layer.stride[1] + j for i, j in product(y.phases, x.phases)]
        conv = joined_outputs(apart, (y.window, x.window))
        ends = {"name": f"{layer.name}/{number}", "output": f"{layer.output}/{number}"}
        convs.append(replace(conv, **ends))
    crop = [-size % step for size, step in zip(layer.size, layer.stride, strict=True)]
    joined = DepthToSpace(
        name=layer.name,
        inputs=tuple(conv.output for conv in convs),
        output=layer.output,
        block=layer.stride,
        channels=channels,
        pixels=tuple(pixels),
        crop=(crop[0], crop[1]),
    )
    return convs, joined


def _pairs_by_phases(
    layer: TransposedConv, shape: tuple[int, int, int], config: Config
) -> list[Layer]:
    """Return convolutions of pairs, and what joins them: byte by byte if columns have phases."""
    height, width, channels = shape
    convs, joined = _by_phases(layer, (height, width // 2, channels), config)
    across = layer.stride[1]
    if across == 1:
        return [*convs, joined]
    rows, columns = (-(-size // step) for size, step in zip(layer.size, layer.stride, strict=True))
    block = _with_blocks(layer, config).weight.shape[3]  # of a phase
    planes: list[Layer] = []
    pixels: list[int] = []
    left = list(joined.pixels)
    for conv in convs:
        depth = conv.weight.shape[3]
        count = depth // block
        phases, left = left[:count], left[count:]
        for half in (0, 1):
            plane = f"{conv.output}/{('upper', 'lower')[half]}"
            planes.append(
                Pick(
                    name=plane,
                    inputs=(conv.output,),
                    output=plane,
                    rows=tuple(range(rows)),
                    columns=tuple(range(half, 2 * columns, 2)),
                    channels=tuple(range(depth)),
                )
            )
            pixels += [2 * pixel + half for pixel in phases]
    joined = replace(
        joined,
        inputs=tuple(plane.output for plane in planes),
        block=(layer.stride[0], 2 * across),
        pixels=tuple(pixels),
        crop=(joined.crop[0], 2 * joined.crop[1]),
    )
    return [*convs, *planes, joined]


def _with_blocks(layer: TransposedConv, config: Config) -> TransposedConv:
    """Return the layer with channels of nothing but zeros that fill its last block."""
    channels = layer.weight.shape[3]
    more = -channels % config.array_size
    missing = ((0, 0), (0, 0), (0, 0), (0, more))
    weight = np.pad(layer.weight, missing, constant_values=layer.weight_zero_point)
    places = np.arange(channels + more)
    records = layer.requantization.of(np.where(places < channels, places, 0))
    return replace(layer, weight=weight, requantization=records)
