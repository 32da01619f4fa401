"""Sums with a constant for each channel as products by channel and biases.

A sum takes two turns of each lane of the vector path for a vector, a product by channel one, and
reads one operand.
"""

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.isa import VectorOp
from tpulite.arch.numerics import INT8, Rounding
from tpulite.arch.timing import vector_cycles
from tpulite.compiler.plan.layer_cost import transfer_cycles
from tpulite.golden.layers import run_layer
from tpulite.golden.ops import requantize_sums, scale_operand
from tpulite.graph.layers import Affine, Elementwise, Layer, LayerGraph, Requantization

_EVERY = np.arange(INT8[0], INT8[-1] + 1, dtype=np.int8).reshape(-1, 1, 1)
"""An activation that holds every byte once."""

_GAINS = 32_767 - np.arange(16)
"""Gains that are tried: each puts the steps of a channel in slightly other places."""

_NUDGES = (0, 1, -1)
"""What is added to biases: where a line meets halves, sums round them all up, or all down."""

_ONE = 1 << 31
"""Multiplier of 1."""

_LARGEST_BIAS = 1 << 30

_LESS = 0.9
"""Part of the cycles of a sum that a product may take."""


def scale_addends(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network with products by channel instead of sums with constants by channel.

    A product rounds once what a sum rounds three times. So each channel of each product is compared
    with the sum for every byte, and sums that no product is stay.
    """
    made = [_scaled(layer, layers, config) or layer for layer in layers.layers]
    if all(new is old for new, old in zip(made, layers.layers, strict=True)):
        return layers
    read = {name for layer in made for name in layer.inputs}
    constants = {name: x for name, x in layers.constants.items() if name in read}
    return replace(layers, layers=tuple(made), constants=constants).with_layers(made)


def _scaled(layer: Layer, layers: LayerGraph, config: Config) -> Affine | None:
    """Return a product by channel that computes the same as a layer in fewer cycles."""
    if not isinstance(layer, Elementwise) or layer.op not in ("add", "sub"):
        return None
    name, addend = layer.inputs
    constant = layers.constants.get(addend)
    if constant is None or name in layers.constants or constant.shape[:2] != (1, 1):
        return None
    shape = layers.activations[name].shape
    operation = layer.vector_op
    if _cycles(VectorOp.AFFINE, shape, config) > _LESS * _cycles(operation, shape, config):
        return None
    return _product(layer, constant)


def _cycles(operation: VectorOp, shape: tuple[int, int, int], config: Config) -> int:
    """Return about the cycles of a layer: each block of channels is a command of its own."""
    height, width, channels = shape
    records = config.record_rows if operation == VectorOp.AFFINE else 0
    each = vector_cycles(operation, height * width, 1, config) + transfer_cycles(records, config)
    return -(-channels // config.array_size) * each


def _product(layer: Elementwise, constant: NDArray[np.int8]) -> Affine | None:
    """Return a product by channel that is a sum with a constant for every byte."""
    wanted = run_layer(layer, np.repeat(_EVERY, constant.shape[2], axis=2), constant)[:, 0]
    terms = [
        scale_operand(
            value,
            zero_point=layer.zero_points[i],
            multiplier=layer.multipliers[i],
            shift=layer.shifts[i],
            scaling=layer.scaling,
        )
        for i, value in enumerate((_EVERY[:, 0, 0], constant[0, 0]))
    ]
    sums, offsets = terms[0], terms[1] * (-1 if layer.op == "sub" else 1)
    record = layer.requantization
    unit = float(record.multiplier[0]) / _ONE * 2.0 ** float(record.shift[0])
    slope = (int(sums[-1]) - int(sums[0])) * unit / (len(sums) - 1)
    # What the line is at the byte 0, in steps of the result.
    middle = (int(sums[-INT8[0]]) + offsets + record.bias) * unit
    return _line(layer, wanted, slope, middle)


def _line(
    layer: Elementwise, wanted: NDArray[np.int8], slope: float, middle: NDArray[np.float64]
) -> Affine | None:
    """Return the product by channel that is ``wanted``, [256, C]; None if none is found."""
    if slope <= 0:
        return None
    fields = ("zero_point", "low", "high")
    same = {name: getattr(layer.requantization, name) for name in fields}
    channels = len(middle)
    gains, biases = np.zeros(channels, np.int16), np.zeros(channels, np.int32)
    multiplier, shift = np.zeros((2, channels), np.int64)
    left = np.arange(channels)  # those for which nothing is found yet
    for gain, nudge in product(_GAINS, _NUDGES):
        fraction, exponent = np.frexp(slope / gain)
        bias = np.rint(middle[left] * gain / slope) + nudge
        if np.abs(bias).max() > _LARGEST_BIAS:
            return None
        gains[left], biases[left] = gain, bias.astype(np.int32)
        multiplier[left], shift[left] = round(fraction * _ONE), exponent
        arrays = {"multiplier": multiplier, "shift": shift, "bias": biases}
        try:
            record = Requantization(**arrays, rounding=Rounding.AWAY, **same)
        except ValueError:
            return None  # steeper or flatter than records can say
        sums = _EVERY[:, 0].astype(np.int64) * gains[left]
        wrong = (requantize_sums(sums, record.of(left)) != wanted[:, left]).any(axis=0)
        left = left[wrong]
        if not left.size:
            ends = {"name": layer.name, "inputs": layer.inputs[:1], "output": layer.output}
            return Affine(**ends, gain=gains, requantization=record)
    return None
