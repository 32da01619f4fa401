"""Transposed convolutions as convolutions: each phase of the output sees part of the kernel.

Outputs whose distance is the stride form a phase. Phases that read the same window of the input
are channels of one convolution; their pixels are put side by side afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.rewrite.chains import replace_by_chains
from tpulite.graph.layers import (
    Activation,
    Conv,
    DepthToSpace,
    Layer,
    LayerGraph,
    TransposedConv,
)

__all__ = ["split_transposed"]


def split_transposed(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with convolutions and moves of pixels instead of transposed ones.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    """

    def chain_of(layer: Layer, images: Mapping[str, Activation]) -> list[Layer]:
        if isinstance(layer, TransposedConv):
            return _phases(layer, images[layer.inputs[0]].shape, config)
        return [layer]

    return replace_by_chains(layers, chain_of)


@dataclass(frozen=True)
class _Window:
    """Phases of one axis that read the same window.

    Parameters
    ----------
    phases : tuple of int
        Which.
    before, after : int
        Padding of the convolution.
    taps : ndarray of int, [phases, window]
        For each phase and position of the window the tap of the kernel; -1 for none.
    """

    phases: tuple[int, ...]
    before: int
    after: int
    taps: np.ndarray


def _windows(kernel: int, stride: int, lost: int, size: int, extent: int) -> Iterator[_Window]:
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
        yield _Window(tuple(phases), -first, outputs - 1 + last - (extent - 1), taps)


def _phases(layer: TransposedConv, shape: tuple[int, int, int], config: Config) -> list[Layer]:
    """Return a convolution for each pair of windows, and what joins them."""
    axes = [
        tuple(_windows(layer.weight.shape[i], layer.stride[i], layer.padding[i], size, shape[i]))
        for i, size in enumerate(layer.size)
    ]
    channels = layer.weight.shape[3]
    apart = -(-channels // config.array_size) * config.array_size
    convs, pixels = [], []
    for number, (y, x) in enumerate(product(*axes)):
        pairs = list(product(range(len(y.phases)), range(len(x.phases))))
        pixels += [y.phases[i] * layer.stride[1] + x.phases[j] for i, j in pairs]
        weight = np.full(
            (y.taps.shape[1], x.taps.shape[1], shape[2], len(pairs) * apart),
            layer.weight_zero_point,
            np.int8,
        )
        for part, (i, j) in enumerate(pairs):
            here = weight[..., part * apart : part * apart + channels]
            rows, columns = (np.flatnonzero(taps >= 0) for taps in (y.taps[i], x.taps[j]))
            taps = np.ix_(y.taps[i][rows], x.taps[j][columns])
            here[np.ix_(rows, columns)] = layer.weight[taps]
        places = np.arange(len(pairs) * apart) % apart
        conv = Conv(
            name=f"{layer.name}/{number}",
            inputs=layer.inputs,
            output=f"{layer.output}/{number}",
            weight=weight,
            requantization=layer.requantization.of(np.where(places < channels, places, 0)),
            input_zero_point=layer.input_zero_point,
            weight_zero_point=layer.weight_zero_point,
            padding=(y.before, x.before, y.after, x.after),
        )
        convs.append(conv)
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
    return [*convs, joined]
