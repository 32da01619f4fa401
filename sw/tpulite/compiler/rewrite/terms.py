"""Sums of which one term is zero wherever the other is not, as the larger of two activations.

A sum takes two turns of each lane of the vector path, and a convolution beside it needs the lanes
for its results. A maximum takes none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.numerics import INT8
from tpulite.compiler.plan.layer_cost import compute_cycles
from tpulite.golden.layers import run_layer
from tpulite.graph.layers import Affine, Depthwise, Elementwise, Layer, LayerGraph, Lut
from tpulite.graph.requantization import IDENTITY, Requantization

_EVERY = np.arange(INT8[0], INT8[-1] + 1, dtype=np.int8).reshape(-1, 1, 1)
"""An activation that holds every byte once."""

_ONE = 1 << 31
"""Multiplier of 1."""


@dataclass(frozen=True)
class _Sum:
    """A table, another function of the same activation, and the layer that adds them."""

    layer: Elementwise
    table: Lut
    other: Layer
    channels: int


def compare_terms(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with maxima instead of sums of two functions of one activation.

    One of the functions is a table. It is made as large as no result forbids: then the maximum is
    the sum where the table is the larger term, and elsewhere if the other one alone is the sum.
    That is tried for all bytes and channels. The array computes the table, if it is a straight
    line, where the vector path has more to do.
    """
    sums = _sums(layers)
    if not sums:
        return layers
    array, vectors = _work(layers, config)
    found: dict[str, list[Layer]] = {}
    for each in sums:
        made = _compared(each, straight=vectors > array)
        if made is not None:
            found[each.table.name], found[each.layer.name] = made[:-1], made[-1:]
    if not found:
        return layers
    kept = (new for layer in layers.layers for new in found.get(layer.name, [layer]))
    return layers.with_layers(kept)


def _sums(layers: LayerGraph) -> list[_Sum]:
    """Return additions of a table and another function of one byte, which nothing else reads."""
    found = []
    for layer in layers.layers:
        if not isinstance(layer, Elementwise) or layer.op != "add":
            continue
        mine = (name for name in layer.inputs if layers.sole_reader(name))
        terms = [layers.makers[name] for name in mine if name in layers.makers]
        tables = [term for term in terms if isinstance(term, Lut)]
        if len(terms) < len(layer.inputs) or not tables or not all(map(_of_bytes, terms)):
            continue
        other = next(term for term in terms if term is not tables[0])
        images = {layers.activations[name] for name in (*tables[0].inputs, layer.output)}
        if other.inputs == tables[0].inputs and len(images) == 1:
            found.append(_Sum(layer, tables[0], other, images.pop().shape[2]))
    return found


def _of_bytes(layer: Layer) -> bool:
    """Return whether each result is a function of the byte in its place."""
    single = isinstance(layer, Depthwise) and layer.windows.single
    return single or isinstance(layer, Affine | Lut)


def _work(layers: LayerGraph, config: Config) -> tuple[int, int]:
    """Return about the cycles of the array and of the vector path."""
    array = vectors = 0
    for layer in layers.layers:
        images = tuple(layers.activations[name] for name in (*layer.inputs, layer.output))
        cycles = compute_cycles(layer, images, images[-1].shape[:2], config)
        array, vectors = array + cycles.mxu, vectors + cycles.vpu
    return array, vectors


def _compared(found: _Sum, *, straight: bool) -> list[Layer] | None:
    """Return what makes the table's term, perhaps nothing, and the maximum; None if it is wrong."""
    layer, table, other = found.layer, found.table, found.other
    every = np.repeat(_EVERY, found.channels, axis=2)
    values = run_layer(other, every)
    terms = (values if name == other.output else run_layer(table, every) for name in layer.inputs)
    total = run_layer(layer, *terms)
    most = replace(table, table=total.min(axis=2).reshape(-1))
    line = _line(found) if straight else None
    ways: Sequence[list[Layer]] = ([], [] if line is None else [line], [most])
    for way in ways:
        term = run_layer(way[0], every) if way else every
        if np.array_equal(np.maximum(term, values), total):
            maximum = Elementwise(
                name=layer.name,
                inputs=(table.output if way else table.inputs[0], other.output),
                output=layer.output,
                op="max",
                requantization=IDENTITY,
                zero_points=(0, 0),
            )
            return [*way, maximum]
    return None


def _line(found: _Sum) -> Depthwise | None:
    """Return a line through the table's results above zero, by the other term's zero points."""
    table, other = found.table.table.astype(np.int64), found.other
    if not isinstance(other, Depthwise) or other.input_zero_point == INT8[-1]:
        return None
    zero = other.requantization.zero_point
    steps = np.arange(1, INT8[-1] + 1 - other.input_zero_point)
    heights: NDArray[np.int64] = table[len(table) - len(steps) :] - zero
    below = heights + zero < INT8[-1]
    if not below.any() or not heights.any():
        return None
    low, high = ((heights - 0.5) / steps).max(), ((heights + 0.5) / steps)[below].min()
    fraction, exponent = np.frexp((low + high) / 2)
    try:
        record = Requantization(
            multiplier=np.array([int(fraction * _ONE)]),
            shift=np.array([int(exponent)]),
            zero_point=zero,
        )
    except ValueError:
        return None  # steeper or flatter than records can say
    return Depthwise(
        name=found.table.name,
        inputs=found.table.inputs,
        output=found.table.output,
        weight=np.ones((1, 1, found.channels), np.int8),
        requantization=record,
        input_zero_point=other.input_zero_point,
    )
