"""Recurrent operators of TFLite files: SVDF and LSTM of integers, with weights that are drawn.

Scales are such that neither all gates nor all results are at their bounds.
"""

from dataclasses import dataclass

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["Lstm", "add_lstm", "add_svdf"]

_GATES = 4
_BYTE = 74
"""Standard deviation of what is drawn of all int8."""
_GATE = 1.5
"""That of a gate before its function."""


@dataclass(frozen=True)
class Lstm:
    """The form of an LSTM."""

    cells: int
    coupled: bool = False  #: Whether the input gate is what the forget gate leaves (CIFG).
    peephole: bool = False  #: Whether gates see the cell state.
    projection: bool = False  #: Whether the output is a product of the hidden state.
    norm: bool = False  #: Whether gates are normalized.
    time_major: bool = False  #: Whether the steps are the first axis.
    power: int = -11  #: Power of two that is the scale of the cell state.
    clip: float = 0.0  #: Bound of the cell state.
    most: int = 127  #: Largest magnitude of a weight.
    bias: tuple[int, int] = -3000, 3000  #: Between which numbers biases are.


def add_lstm(b: Builder, x: int, form: Lstm, rng: np.random.Generator) -> int:
    """Add UNIDIRECTIONAL_SEQUENCE_LSTM to a network of int8; return its output."""
    steps = b.shape(x)[:2]
    batch, inputs, cells = steps[form.time_major], b.shape(x)[2], form.cells
    outputs = cells // 2 if form.projection else cells
    x_scale = float(b.tensors[x].quantization.scale[0])
    scale, zero_point = float(rng.uniform(0.005, 0.009)), int(rng.integers(-9, 9))

    def weights(rows: int, columns: int, by: float) -> int:
        values = rng.integers(-form.most, form.most + 1, (rows, columns)).astype(np.int8)
        deviation = _BYTE**2 * form.most / 127
        spread = rng.uniform(0.5, 1.0) * _GATE / (deviation * by * np.sqrt(columns))
        return b.constant(values, float(spread))

    def vectors(low: int, high: int, dtype: str, by: float, *, there: bool = True) -> list[int]:
        each = [
            b.constant(rng.integers(low, high, cells).astype(dtype), by) if there else -1
            for _ in range(_GATES)
        ]
        return [-1, *each[1:]] if form.coupled else each

    first = int(form.coupled)
    entering = [-1] * first + [weights(cells, inputs, x_scale) for _ in range(_GATES - first)]
    recurrent = [-1] * first + [weights(cells, outputs, scale) for _ in range(_GATES - first)]
    holes = vectors(-30000, 30000, "int16", 1e-4, there=form.peephole)
    del holes[2]  # the candidate sees no cell state
    bias = vectors(*form.bias, "int32", 1e-4)
    projection = weights(outputs, cells, 1 / 128) if form.projection else -1
    norm = vectors(1000, 30000, "int16", 2.0**-12, there=form.norm)
    state = b.tensor((batch, outputs), scale, zero_point, dtype="int8")
    cell = b.tensor((batch, cells), 2.0**form.power, dtype="int16")
    for variable in (state, cell):
        b.tensors[variable].isVariable = True
    y = b.tensor((*steps, outputs), scale, zero_point, dtype="int8")
    between = [
        b.tensor((0,), 2.0**-12 if form.norm else None, dtype="int16") for _ in range(_GATES)
    ]
    hidden = (1 / 128, 3) if form.projection else (scale, zero_point)
    b.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *entering, *recurrent, *holes, *bias, projection, -1, state, cell, *norm],
        [y],
        intermediates=[*between, b.tensor((0,), *hidden, dtype="int8")],
        options_type="UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        cellClip=form.clip,
        timeMajor=form.time_major,
    )
    return y


def add_svdf(  # noqa: PLR0913 - sizes of an operator
    b: Builder,
    x: int,
    units: int,
    rank: int,
    steps: int,
    rng: np.random.Generator,
    *,
    most: int = 127,
    bias: bool = True,
    loud: float = 1.0,
) -> int:
    """Add SVDF to a network of int8; return its output.

    Weights of time are up to ``most``; features are ``loud`` times as large as fills their window.
    """
    (batch, inputs), filters = b.shape(x), units * rank
    feature = rng.integers(-127, 128, (filters, inputs)).astype(np.int8)
    time = rng.integers(-most, most + 1, (filters, steps)).astype(np.int16)
    time[0, 0] = most
    x_scale = float(b.tensors[x].quantization.scale[0])
    state_scale, time_scale = 0.001, float(rng.uniform(0.5, 1)) / most
    weight_scale = loud * state_scale * 9000 / (_BYTE**2 * np.sqrt(inputs) * x_scale)
    spread = 9000 * 0.6 * most * np.sqrt(steps * rank) * state_scale * time_scale
    values = rng.integers(-2000, 2000, units).astype(np.int32)
    state = b.tensor((batch, filters * steps), state_scale, dtype="int16")
    b.tensors[state].isVariable = True
    y = b.tensor((batch, units), spread / 60, int(rng.integers(-128, 100)), dtype="int8")
    return b.operator(
        "SVDF",
        [
            x,
            b.constant(feature, float(weight_scale)),
            b.constant(time, time_scale),
            b.constant(values, state_scale * time_scale) if bias else -1,
            state,
        ],
        [y],
        options_type="SVDFOptions",
        rank=rank,
        fusedActivationFunction=1,
    )
