"""Maxima over channels as maxima over pixels, between two transposes.

Without a machine in mind the largest channel is that of two halves, again and again: a product that
picks a half, one that picks what the other half has more, and their sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.extents import fit_uncut
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.compiler.rewrite.results import tables_to_host
from tpulite.golden.ops import requantize_sums
from tpulite.graph.layers import (
    Activation,
    Conv,
    DepthToSpace,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pick,
    Pool,
    Reshape,
    Transpose,
    is_pointwise,
)
from tpulite.graph.requantization import IDENTITY, Requantization

_LESS = 0.8
"""Part of the cycles of the halves that transposes and a pool may take, all of which wait."""

_DIFFERENCES = np.arange(INT8[0] - INT8[-1], INT8[-1] - INT8[0] + 1)
"""All differences of two integers."""

_MIRRORED = np.arange(INT8[-1], INT8[0] - 1, -1).astype(np.int8)
"""Table of -1 - x: it turns the order of integers around."""

_MAXIMUM = {"op": "max", "requantization": IDENTITY, "zero_points": (0, 0)}
"""What the larger of two activations is made with."""


@dataclass(frozen=True)
class _Halving:
    """A layer of which each channel is the largest, or smallest, of two of an activation."""

    source: str
    layers: tuple[Layer, ...]  #: What computes it.
    low: NDArray[np.int64]  #: One channel of each two.
    high: NDArray[np.int64]  #: The other one.
    least: bool  #: Whether it is the smallest.


def turn_maxima(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with pools between transposes instead of halves, where that pays."""
    for layer in layers.layers:
        chain = _halvings(layer, layers)
        if chain:
            turned = _turned(layer, chain, layers, config)
            layers = layers if turned is None else turned
    return layers


def _halvings(last: Layer, layers: LayerGraph) -> list[_Halving]:
    """Return halvings from all channels of an activation to one, the last one first."""
    if layers.activations[last.output].shape[2] != 1:
        return []
    found: list[_Halving] = []
    layer: Layer | None = last
    while layer is not None and (halving := _halving(layer, layers)) is not None:
        if found and (halving.least != found[0].least or len(layers.readers[layer.output]) != 2):
            break
        if found and layer.output in layers.outputs:
            break
        found.append(halving)
        layer = layers.makers.get(halving.source)
    while found:
        every = np.zeros(1, np.int64)
        for each in found:  # what the only channel is the largest of
            every = np.concatenate([each.low[every], each.high[every]])
        if set(every.tolist()) == set(range(layers.activations[found[-1].source].shape[2])):
            break
        found.pop()
    return found


def _halving(layer: Layer, layers: LayerGraph) -> _Halving | None:
    """Return what a layer is one half of a halving of; None if it is none."""
    if not isinstance(layer, Elementwise) or layer.op != "add" or layer.zero_points[1]:
        return None
    zero = layer.zero_points[0]
    exact = layer.multipliers == (1, 1) and layer.shifts == (0, 0)
    if zero not in (INT8[0], INT8[-1]) or not exact or layer.scaling != Scaling.EXACT:
        return None
    if any(x not in layers.makers or layers.sole_reader(x) is not layer for x in layer.inputs):
        return None
    more, high = (layers.makers[x] for x in layer.inputs)
    if not (_is_product(more) and _is_product(high)) or more.inputs != high.inputs:
        return None
    picked, subtracted = high.counted[0, 0], more.counted[0, 0]
    if not (picked.sum(axis=0) == 1).all() or np.count_nonzero(picked) != picked.shape[1]:
        return None
    low = subtracted + picked
    if not (low.sum(axis=0) == 1).all() or np.count_nonzero(low) != low.shape[1]:
        return None
    records = (layer.requantization, 0), (high.requantization, 0), (more.requantization, zero)
    if not all(_adds(*each) for each in records):
        return None
    rows = low.argmax(axis=0), picked.argmax(axis=0)
    return _Halving(high.inputs[0], (high, more, layer), *rows, least=zero == INT8[-1])


def _is_product(layer: Layer) -> TypeGuard[Conv]:
    """Return whether a layer is a convolution of single pixels as they are."""
    return is_pointwise(layer) and not layer.int16 and not layer.input_zero_point


def _adds(record: Requantization | None, zero: int) -> bool:
    """Return whether a requantization only adds a number, and clamps."""
    if record is None:
        return False
    sums = np.repeat(_DIFFERENCES[:, np.newaxis], record.channels, axis=1)
    wanted = np.clip(_DIFFERENCES + zero, INT8[0], INT8[-1])[:, np.newaxis]
    return bool((requantize_sums(sums, record) == wanted).all())


def _turned(
    last: Layer, chain: list[_Halving], layers: LayerGraph, config: Config
) -> LayerGraph | None:
    """Return the network with one pool instead of halvings; None if that does not pay or fit."""
    old = [layer for halving in chain for layer in halving.layers]
    new = _Steps(last, layers)
    new.reduce(chain[-1].source, config.array_size, least=chain[0].least)
    before, after = (
        sum(sum(_cycles(layer, new.images, config)) for layer in some) for some in (old, new.made)
    )
    if after > _LESS * before or not fit_uncut(new.made, new.images, config):
        return None
    made = {layer.name for layer in old}
    kept = [layer for layer in layers.layers if layer.name not in made]
    place = next(i for i, layer in enumerate(layers.layers) if layer is last)
    place -= sum(layer.name in made for layer in layers.layers[:place])
    return layers.with_layers([*kept[:place], *new.made, *kept[place:]], new.images)


def _cycles(layer: Layer, images: dict[str, Activation], config: Config) -> Iterator[int]:
    """Yield the cycles of both engines; moves that the host makes, and views, take none."""
    if isinstance(layer, DepthToSpace):
        return
    if isinstance(layer, Pick) and layer.channels[0] % config.array_size == 0:
        return
    activations = tuple(images[name] for name in (*layer.inputs, layer.output))
    yield from compute_cycles(layer, activations, activations[-1].shape[:2], config)[:2]


class _Steps:
    """Layers that compute an activation, one after the other."""

    def __init__(self, wanted: Layer, layers: LayerGraph) -> None:
        self._wanted, self._output, self._layers = wanted, wanted.output, layers
        self.made: list[Layer] = []
        self.images = dict(layers.activations)

    def reduce(self, source: str, size: int, *, least: bool) -> None:
        """Add what computes the largest, or smallest, channels of an activation."""
        height, width, channels = self.images[source].shape
        pixels, x = height * width, source
        if least:
            x = self._add(Lut, x, table=_MIRRORED)
        x = self._largest_block(x, channels, size)
        x = self._add(Reshape, x, shape=(1, pixels, min(channels, size)))
        x = self._add(Transpose, x)
        x = self._add(Pool, x, op="max", window=(1, min(channels, size)))
        if least:
            x = self._add(Lut, x, table=_MIRRORED)
        if tables_to_host(self._layers, self._output) is not None:
            self._add(DepthToSpace, x, block=(height, width), channels=1, last=True)
        else:
            x = self._add(Transpose, x)
            self._add(Reshape, x, shape=(height, width, 1), last=True)

    def _largest_block(self, x: str, channels: int, size: int) -> str:
        """Add maxima of whole blocks of channels; the last one may begin in the one before."""
        if channels <= size:
            return x
        height, width, _ = self.images[x].shape
        axes: dict[str, Any] = {"rows": range(height), "columns": range(width)}
        starts = sorted({*range(0, channels - size, size), channels - size})
        blocks = [self._add(Pick, x, **axes, channels=range(i, i + size)) for i in starts]
        while len(blocks) > 1:
            pairs = zip(blocks[::2], blocks[1::2], strict=False)
            left = blocks[len(blocks) // 2 * 2 :]
            blocks = [*(self._add(Elementwise, *pair, **_MAXIMUM) for pair in pairs), *left]
        return blocks[0]

    def _add(self, kind: type[Layer], *inputs: str, last: bool = False, **fields: Any) -> str:
        """Add a layer; return its activation, whose shape a reshape has to say."""
        shape = fields.pop("shape", None)
        output = self._output if last else f"{self._output}/largest {len(self.made)}"
        name = self._wanted.name if last else output
        layer = kind(name=name, inputs=inputs, output=output, **fields)
        sources = tuple(self.images[name] for name in inputs)
        self.images[output] = Activation(shape) if shape else layer._infer(*sources)
        self.made.append(layer)
        return output
