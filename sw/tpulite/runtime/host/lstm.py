"""A step of an LSTM after its products, with the bits of LiteRT's integer kernel.

Source: ``CalculateLstmGateInteger8x8_16``, ``UpdateLstmCellInteger`` and
``CalculateLstmOutputInteger8x8_16`` of tensorflow/lite/kernels/lstm_eval.cc.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden.ops import scale_accumulators
from tpulite.graph.graph import Node
from tpulite.quant.exactness.fixed_point import INT16, logistic_table, tanh_table

__all__ = ["lstm_step"]

Integers = NDArray[np.int64]

_Peephole = tuple[Integers, float] | None

_BITS = 15
"""Fractional bits of what a function returns."""
_GATE_BITS = 3
"""Integer bits of gates."""


def lstm_step(node: Node, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the output and the cell state of a step.

    Parameters
    ----------
    node : Node
        An ``lstm_step``.
    values : sequence of ndarray
        Its inputs: sums of the input of all steps, int32 [batch, steps, gates * cells], or
        [steps, batch, ...] if it is ``time_major``; sums of the output before, int32
        [batch, gates * cells]; cell state, int16 [batch, cells]; bias, int32 [gates * cells];
        weights of peepholes, int16 [gates * cells], if there are any.

    Returns
    -------
    tuple of ndarray
        Output, int8 [batch, cells], and cell state, int16 [batch, cells].
    """
    every, recurrent, cell, bias, *peephole = (np.asarray(x).astype(np.int64) for x in values)
    sums = every.take(node["step"], axis=0 if node["time_major"] else 1) + bias
    gates = [
        _saturate(_saturate(_scale(x, first)) + _scale(h, second))
        for x, h, first, second in zip(
            _parted(sums, node["input_scales"]),
            _parted(recurrent, node["recurrent_scales"]),
            node["input_scales"],
            node["recurrent_scales"],
            strict=True,
        )
    ]
    *early, candidate, leaving = gates
    *holes, last = _peepholes(node, peephole, len(early) + 1)
    *entering, forget = (_look(*each, cell) for each in zip(early, holes, strict=True))
    forgotten = _logistic(forget)
    entered = _logistic(entering[0]) if entering else INT16[-1] - forgotten
    power = node["cell_power"]
    new = _wrap(_divide(entered * _tanh(candidate, _GATE_BITS), 2 * _BITS + power))
    cell = _saturate(_wrap(_divide(forgotten * cell, _BITS)) + new)
    if clip := _quantized_clip(node["cell_clip"], power):
        cell = np.clip(cell, -clip, clip)
    shown = _logistic(_look(leaving, last, cell)) * _tanh(cell, _BITS + power)
    half = 2.0**-_BITS
    scale = float(np.float32(half / node["hidden_scale"] * half))
    output = _scale(shown, scale) + node["hidden_zero_point"]
    return np.clip(output, INT8[0], INT8[-1]).astype(np.int8), cell.astype(np.int16)


def _peepholes(node: Node, weights: Sequence[Integers], count: int) -> list[_Peephole]:
    """Return the weights by which gates see the cell state, and their scales."""
    if not weights:
        return [None] * count
    scales = node["peephole_scales"]
    return list(zip(_parted(weights[0], scales), scales, strict=True))


def _look(gate: Integers, hole: _Peephole, cell: Integers) -> Integers:
    """Add what a gate sees of the cell state."""
    return gate if hole is None else _saturate(gate + _scale(hole[0] * cell, hole[1]))


def _quantized_clip(clip: float, power: int) -> int:
    return int(min(max(np.float32(clip) / np.float32(2.0**power), INT16[0]), INT16[-1]))


def _parted(values: Integers, gates: Sequence[float]) -> list[Integers]:
    """Return what each gate has of the last axis."""
    return np.split(values, len(gates), axis=-1)


def _scale(values: Integers, scale: float) -> Integers:
    multiplier, shift = quantize_multiplier(scale)
    return scale_accumulators(values, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)


def _logistic(x: Integers) -> Integers:
    return logistic_table()[x - INT16[0]].astype(np.int64)


def _tanh(x: Integers, bits: int) -> Integers:
    return tanh_table(bits)[x - INT16[0]].astype(np.int64)


def _divide(x: Integers, power: int) -> Integers:
    """Divide by a power of two, half away from zero."""
    return np.sign(x) * ((np.abs(x) + (1 << power >> 1)) >> power)


def _saturate(x: Integers) -> Integers:
    return np.clip(x, INT16[0], INT16[-1])


def _wrap(x: Integers) -> Integers:
    return x.astype(np.int16).astype(np.int64)
