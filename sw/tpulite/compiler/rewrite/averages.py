"""Averages over many clipped windows as products: pixels are channels, and channels are pixels.

A window that the border clips has a divisor of its own. Where channels are pixels, each window is a
channel with a record of its own, and one product with zeros and ones sums them all.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.extents import constant_rows, fit_uncut
from tpulite.compiler.plan.layer_cost import compute_cycles, transfer_cycles
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.graph.layers import (
    Activation,
    Conv,
    Layer,
    LayerGraph,
    Pool,
    Reshape,
    Transpose,
)

_Chain = tuple[tuple[Layer, Activation], ...]
"""Layers one after the other, and what each computes."""

_LESS = 0.8
"""Part of the cycles of the pool that the product may take: all of its activations need room."""

_MOST_WEIGHTS = 1 << 18
"""Zeros and ones that a pool is worth."""


def multiply_averages(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with products instead of averages, where they take fewer cycles."""
    made: list[Layer] = []
    images = dict(layers.activations)
    for layer in layers.layers:
        chain = _chain(layer, images, config) if isinstance(layer, Pool) else None
        if chain is None:
            made.append(layer)
            continue
        for one, image in chain:
            images[one.output] = image
            made.append(one)
    if len(made) == len(layers.layers):
        return layers
    return layers.with_layers(made, images)


def _chain(layer: Pool, images: Mapping[str, Activation], config: Config) -> _Chain | None:
    """Return what computes a pool as a product; None if that does not pay or fit."""
    source, target = images[layer.inputs[0]], images[layer.output]
    if layer.op != "average" or prod((*source.shape[:2], *target.shape[:2])) > _MOST_WEIGHTS:
        return None
    windows = _windows(layer, source, target)
    counts = np.multiply.outer(*(axis.sum(axis=1) for axis in windows))
    if (counts == counts[0, 0]).all():
        return None
    chain = _product(layer, (source, target), windows, counts)
    made, known = [one for one, _ in chain], {layer.inputs[0]: source}
    known |= {one.output: image for one, image in chain}
    if not fit_uncut(made, known, config):
        return None
    cycles = transfer_cycles(sum(constant_rows(one, config) for one in made), config)
    for one, image in chain:
        pair = known[one.inputs[0]], image
        cycles += sum(compute_cycles(one, pair, image.shape[:2], config)[:2])
    pool = compute_cycles(layer, (source, target), target.shape[:2], config)
    return chain if cycles <= _LESS * max(pool.mxu, pool.vpu) else None


def _windows(layer: Pool, source: Activation, target: Activation) -> list[np.ndarray]:
    """Return for both axes which positions windows cover, [outputs, inputs]."""
    found = []
    for axis in (0, 1):
        extent, before = source.shape[axis], layer.padding[axis]
        lines = Axis1D(layer.window[axis], layer.stride[axis], before=before, size=extent)
        spans = (lines.span(range(i, i + 1)) for i in range(target.shape[axis]))
        found.append(np.array([[i in span for i in range(extent)] for span in spans], np.int8))
    return found


def _product(
    layer: Pool,
    images: tuple[Activation, Activation],
    windows: list[np.ndarray],
    counts: np.ndarray,
) -> _Chain:
    """Return layers that sum windows as channels, and divide each sum by its count."""
    source, target = images
    channels, pixels, results = source.shape[2], prod(source.shape[:2]), prod(target.shape[:2])
    mask = np.einsum("yh,xw->hwyx", *windows).reshape(1, 1, pixels, results)
    records = [pool_requantization(layer, int(count)) for count in counts.flat]
    arrays = ("multiplier", "shift", "bias")
    record = replace(
        records[0],
        **{name: np.concatenate([getattr(x, name) for x in records]) for name in arrays},
    )
    steps = ("line", "turned", "averages", "line of averages")
    shapes = ((pixels, channels), (channels, pixels), (channels, results), (results, channels))
    names = [*layer.inputs, *(f"{layer.output}/{step}" for step in steps), layer.output]
    ends = [
        {"name": output, "inputs": (name,), "output": output} for name, output in pairwise(names)
    ]
    chain = (
        Reshape(**ends[0]),
        Transpose(**ends[1]),
        Conv(**ends[2], weight=mask, requantization=record),
        Transpose(**ends[3]),
        Reshape(**{**ends[4], "name": layer.name}),
    )
    return tuple(zip(chain, (*(Activation((1, *x)) for x in shapes), target), strict=True))
