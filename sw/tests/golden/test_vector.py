"""VECTOR against plain loops over the scalar definitions."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.golden.effects.footprint import footprint
from tpulite_testing.compiling.programs import CONFIG, WINDOWS, vector
from tpulite_testing.oracles.vector_loops import (
    OPERANDS,
    PARAM_ROW,
    RECORD,
    SIZES,
    check,
    filled,
    parameters,
)

PLACES = {
    "rows": 3, "columns": 4, "a_row": 1, "a_pitch": 9, "a_step": 2, "b_row": 60, "b_pitch": 5,
    "b_step": 1, "out_row": 300, "out_pitch": 13, "out_step": 3, "param_row": PARAM_ROW,
}  # fmt: skip


def record_of(operation: VectorOp, size: int):
    """Return one record, of channels with everything different for AFFINE."""
    if operation == VectorOp.SUM:
        return RECORD | {"shift": -3}
    if operation != VectorOp.AFFINE:
        return RECORD | {"shift": -7} if operation == VectorOp.MUL else RECORD
    roundings = list(Rounding)
    return [
        RECORD
        | {
            "bias": 100 * c - 500,
            "gain": (-32768, 32767, 0, 300 - c)[c % 4],
            "rounding": roundings[c % len(roundings)],
            "multiplier": (1 << 23) + c if c % len(roundings) == 3 else (1 << 30) + c,
            "shift": -33 if c % len(roundings) == 3 else -c % 15,
        }
        for c in range(size)
    ]


@pytest.mark.parametrize("operation", VectorOp)
@pytest.mark.parametrize("size", SIZES)
def test_every_operation(size, operation):
    command = vector(operation, **PLACES)
    results = check(command, size, record_of(operation, size))
    assert len(np.unique(results)) > 10
    check(command.replace(low=-30, high=50), size, record_of(operation, size))
    assert np.all(check(command.replace(low=9, high=-9), size, record_of(operation, size)) == -9)


@pytest.mark.parametrize("operation", VectorOp)
def test_only_max_and_sum_have_windows(operation):
    window = {"window_rows": 3, "window_columns": 2, "window_pitch": 9}
    command = vector(operation, **PLACES, **window)
    record = record_of(operation, 4)
    if operation in (VectorOp.MAX, VectorOp.SUM):
        check(command, 4, record)
        check(command.replace(a_pitch=0, a_step=0, window_pitch=0), 4, record)
    else:
        check(command, 4, record)
        reads = footprint(command, Config(array_size=4, ub_rows=512), WINDOWS).reads
        assert len(reads) == 12 * (2 if operation.name in ("ADD", "SUB", "MUL") else 1)


@pytest.mark.parametrize("operation", [VectorOp.ADD, VectorOp.SUB, VectorOp.MUL])
def test_operand_b_broadcasts(operation):
    for steps in ({"b_pitch": 0, "b_step": 0}, {"b_step": 0}, {"b_pitch": 0}):
        check(vector(operation, **PLACES | steps), 4, record_of(operation, 4))


@pytest.mark.parametrize("operation", [VectorOp.ADD, VectorOp.SUB])
def test_exact_scaling_wraps(operation):
    """Scaled operands and their sum leave int32."""
    operands = OPERANDS | {
        "scaling": Scaling.EXACT, "a_multiplier": (1 << 31) - 5, "b_multiplier": 3 << 28,
        "a_shift": 31,
    }  # fmt: skip
    record = RECORD | {"bias": (1 << 31) - 1, "shift": -23}
    results = check(vector(operation, **PLACES), 4, record, operands)
    assert len(np.unique(results)) > 10


def test_a_window_may_read_a_row_many_times():
    """255 rows of a window with pitch 0: far from the limits of int32, exact."""
    record = RECORD | {"multiplier": 1 << 30, "shift": -8, "bias": 0, "zero_point": 0}
    datapath = filled(CONFIG, parameters(VectorOp.SUM, 4, record))
    datapath.buffer[3] = np.array([-128, 127, 1, 0], np.int8).view(np.uint8)
    command = vector(
        VectorOp.SUM, a_row=3, window_rows=255, out_row=100, param_row=PARAM_ROW
    )  # fmt: skip
    assert datapath.vector(command, footprint(command, CONFIG, WINDOWS)) is None
    # 255 * x / 2**9: -63.75, 63.25, 0.498 and 0.
    assert datapath.buffer[100].view(np.int8).tolist() == [-64, 63, 0, 0]
