"""What an LSTM makes of its products, with the bits of LiteRT's integer kernel.

Source: ``CalculateLstmGateInteger8x8_16``, ``UpdateLstmCellInteger`` and
``CalculateLstmOutputInteger8x8_16`` of tensorflow/lite/kernels/lstm_eval.cc.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden.ops import scale_accumulators
from tpulite.graph.graph import Node
from tpulite.quant.exactness.fixed_point import (
    INT16,
    divide,
    logistic_table,
    saturate,
    tanh_table,
    wrap,
)

Integers = NDArray[np.int64]

_Peephole = tuple[Integers, float] | None

_BITS = 15
"""Fractional bits of what a function returns."""
_GATE_BITS = 3
"""Integer bits of gates."""


def lstm_gates(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute all gates of a step, before their functions and what they see of the cell.

    Parameters
    ----------
    values : sequence of ndarray
        Sums of the input of all steps, int32 [batch, steps, gates * cells], or [steps, batch, ...]
        if it is ``time_major``; sums of the output before, int32 [batch, gates * cells]; bias,
        int32 [gates * cells].

    Returns
    -------
    ndarray of int16, [batch, gates * cells]
        Gates of 12 fractional bits: input (none if it is coupled), forget, candidate, output.
    """
    every, recurrent, bias = (x.astype(np.int64) for x in values)
    sums = every.take(node["step"], axis=0 if node["time_major"] else 1) + bias
    each = (
        saturate(saturate(_scale(x, first)) + _scale(h, second))
        for x, h, first, second in zip(
            _parted(sums, len(node["input_scales"])),
            _parted(recurrent, len(node["input_scales"])),
            node["input_scales"],
            node["recurrent_scales"],
            strict=True,
        )
    )
    return np.concatenate([*each], axis=-1).astype(np.int16)


def lstm_cell(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the cell state behind a step.

    Parameters
    ----------
    values : sequence of ndarray
        Gates, int16 [batch, gates * cells]; cell state, int16 [batch, cells]; weights of
        peepholes, int16 [peepholes * cells], if there are any.
    """
    gates, cell, *peephole = (x.astype(np.int64) for x in values)
    *early, candidate, _ = _parted(gates, gates.shape[-1] // cell.shape[-1])
    *holes, _ = _peepholes(node, peephole, len(early) + 1)
    *entering, forget = (_look(*each, cell) for each in zip(early, holes, strict=True))
    forgotten = _logistic(forget)
    entered = _logistic(entering[0]) if entering else INT16[-1] - forgotten
    power = node["cell_power"]
    new = wrap(divide(entered * _tanh(candidate, _GATE_BITS), 2 * _BITS + power))
    cell = saturate(wrap(divide(forgotten * cell, _BITS)) + new)
    clip = quantized_clip(node)
    return (np.clip(cell, -clip, clip) if clip else cell).astype(np.int16)


def lstm_output(node: Node, values: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the output of a step, int8 [batch, cells].

    Parameters
    ----------
    values : sequence of ndarray
        As of :func:`lstm_cell`, but the cell state is that behind the step.
    """
    gates, cell, *peephole = (x.astype(np.int64) for x in values)
    count = gates.shape[-1] // cell.shape[-1]
    *_, last = _peepholes(node, peephole, count - 1)
    leaving = _look(_parted(gates, count)[-1], last, cell)
    shown = _logistic(leaving) * _tanh(cell, _BITS + node["cell_power"])
    output = _scale(shown, output_scale(node)) + node["hidden_zero_point"]
    return np.clip(output, INT8[0], INT8[-1]).astype(np.int8)


def output_scale(node: Node) -> float:
    """Return what products of 30 fractional bits are multiplied by."""
    half = 2.0**-_BITS
    return float(np.float32(half / node["hidden_scale"] * half))


def quantized_clip(node: Node) -> int:
    """Return the bound of a cell state as an integer, 0 if there is none."""
    unit = np.float32(2.0 ** node["cell_power"])
    return int(min(max(np.float32(node["cell_clip"]) / unit, INT16[0]), INT16[-1]))


def _peepholes(node: Node, weights: Sequence[Integers], count: int) -> list[_Peephole]:
    """Return the weights by which gates see the cell state, and their scales."""
    if not weights:
        return [None] * count
    scales = node["peephole_scales"]
    return list(zip(_parted(weights[0], count), scales, strict=True))


def _look(gate: Integers, hole: _Peephole, cell: Integers) -> Integers:
    """Add what a gate sees of the cell state."""
    return gate if hole is None else saturate(gate + _scale(hole[0] * cell, hole[1]))


def _parted(values: Integers, gates: int) -> list[Integers]:
    """Return what each gate has of the last axis."""
    return np.split(values, gates, axis=-1)


def _scale(values: Integers, scale: float) -> Integers:
    multiplier, shift = quantize_multiplier(scale)
    return scale_accumulators(values, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)


def _logistic(x: Integers) -> Integers:
    return logistic_table()[x - INT16[0]].astype(np.int64)


def _tanh(x: Integers, bits: int) -> Integers:
    return tanh_table(bits)[x - INT16[0]].astype(np.int64)
