"""Chains of layers that are a function of one activation, byte by byte, as one table of 256."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8
from tpulite.golden.layers import run_layer
from tpulite.graph.layers import Affine, Layer, LayerGraph, Lut

_EVERY = np.arange(INT8[0], INT8[-1] + 1, dtype=np.int8).reshape(-1, 1, 1)
"""An activation that holds every byte once."""


@dataclass(frozen=True, eq=False)
class _Function:
    """What an activation is of another one."""

    root: str  #: The other one, of the same shape.
    #: Ndarray of int8, [256, 1, 1]. Results for the bytes of :data:`_EVERY`.
    values: NDArray[np.int8]


def tabulate_chains(layers: LayerGraph) -> LayerGraph:
    """Return the network with one table instead of layers that only look at one activation.

    SiLU as exporters write it, x * sigmoid(x), is a table and a product; hard swish is a sum, a
    clamp and a product. Whatever tables, elementwise layers, and gains that all channels share,
    make of one activation and constants of one value is a function of a byte: the definition of
    these layers, computed for all 256, is the table.

    Layers that read the activation itself stay; layers that nobody reads any more go.
    """
    functions: dict[str, _Function] = {}
    made: list[Layer] = []
    for layer in layers.layers:
        found = _function(layer, layers, functions)
        if found is None:
            made.append(layer)
            continue
        functions[layer.output] = found
        if set(layer.inputs) & set(functions):
            ends = {"name": layer.name, "inputs": (found.root,), "output": layer.output}
            layer = Lut(**ends, table=np.ascontiguousarray(found.values.reshape(-1)))
        made.append(layer)
    if all(new is old for new, old in zip(made, layers.layers, strict=True)):
        return layers
    return _without_unread(replace(layers, layers=tuple(made)))


def _function(
    layer: Layer, layers: LayerGraph, functions: Mapping[str, _Function]
) -> _Function | None:
    """Return what a layer computes as a function of one activation; None if it is none."""
    if not layer.in_place:
        return None
    roots, operands = set(), []
    for name in layer.inputs:
        if name in layers.constants:
            value = layers.constants[name]
            if np.ptp(value):
                return None
            operands.append(np.full_like(_EVERY, value.flat[0]))
        else:
            found = functions.get(name, _Function(name, _EVERY))
            roots.add(found.root)
            operands.append(found.values)
    if len(roots) != 1:
        return None
    (root,), alike = roots, _of_one_channel(layer)
    if alike is None or layers.activations[root] != layers.activations[layer.output]:
        return None
    return _Function(root, run_layer(alike, *operands))


def _of_one_channel(layer: Layer) -> Layer | None:
    """Return the layer for any of its channels; None if they differ."""
    if not isinstance(layer, Affine):
        return layer
    record = layer.requantization
    if not record.uniform or np.ptp(record.bias) or np.ptp(layer.gain):
        return None
    return layer.of_channels(slice(1))


def _without_unread(layers: LayerGraph) -> LayerGraph:
    """Return the network without layers whose results nobody reads."""
    read, kept = {*layers.outputs}, []
    for layer in reversed(layers.layers):
        if layer.output in read:
            read.update(layer.inputs)
            kept.append(layer)
    read.update(layers.inputs)
    return replace(
        layers,
        layers=tuple(reversed(kept)),
        activations={name: x for name, x in layers.activations.items() if name in read},
        constants={name: x for name, x in layers.constants.items() if name in read},
    )
