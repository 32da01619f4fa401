"""VECTOR against plain loops over the scalar definitions."""

import numpy as np
import pytest

from tpulite.arch import isa
from tpulite.arch.config import Config
from tpulite.arch.isa import Scaling, VectorOp, operations
from tpulite.arch.numerics import Rounding
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine.datapath import Datapath
from tpulite.golden.ops import softmax
from tpulite.graph.requantization import addends
from tpulite.quant.exactness.softmax import fixed_point_exponentials
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


@pytest.mark.parametrize(
    ("size", "operation"),
    [(size, op) for size in SIZES for op in operations(Config(array_size=size, softmax=True))],
)
def test_every_operation(size, operation):
    command = vector(operation, **PLACES)
    results = check(command, size, record_of(operation, size))
    assert len(np.unique(results)) > (2 if operation == VectorOp.SHARE else 10)  # random shifts
    check(command.replace(low=-30, high=50), size, record_of(operation, size))
    assert np.all(check(command.replace(low=9, high=-9), size, record_of(operation, size)) == -9)


@pytest.mark.parametrize("operation", VectorOp)
def test_only_max_sum_and_norm_have_windows(operation):
    window = {"window_rows": 3, "window_columns": 2, "window_pitch": 9}
    command = vector(operation, **PLACES, **window)
    record = record_of(operation, 8)
    if operation in (VectorOp.MAX, VectorOp.SUM, VectorOp.NORM):
        check(command, 8, record)
        check(command.replace(a_pitch=0, a_step=0, window_pitch=0), 8, record)
    else:
        check(command, 8, record)
        reads = footprint(command, Config(array_size=8, ub_rows=512, softmax=True), WINDOWS).reads
        assert len(reads) == 12 * (2 if operation.name in ("ADD", "SUB", "MUL", "SHARE") else 1)


@pytest.mark.parametrize("operation", [VectorOp.MAX, VectorOp.NORM])
@pytest.mark.parametrize("tail", [1, 5, 7])
def test_channels_beyond_the_tail_do_not_count(operation, tail):
    command = vector(operation, **PLACES, tail=tail)
    several = {"window_rows": 2, "window_columns": 2, "window_pitch": 9}
    cut, whole = (check(command.replace(**several, tail=n), 8) for n in (tail, 0))
    assert (cut != whole).any()
    if operation == VectorOp.MAX:
        assert (check(command, 8)[:, tail:] == -128).all()


def test_norms_and_shares_are_a_softmax():
    """All differences of int8, and rows that are all alike or far from each other."""
    words = fixed_point_exponentials(0.03, 1.0)
    rng = np.random.default_rng(7)
    x = rng.integers(-128, 128, (40, 53)).astype(np.int8)
    x[0], x[1], x[2] = -128, 127, np.where(np.arange(53) == 9, 127, -128)
    config = Config(array_size=8, ub_rows=1024, softmax=True)
    datapath = Datapath(config)
    blocks = np.pad(x, ((0, 0), (0, 3)), constant_values=99).reshape(40, 7, 8).transpose(1, 0, 2)
    datapath.buffer[:280] = blocks.reshape(-1, 8).view(np.uint8)
    record = RECORD | {"bias": 0, "rounding": Rounding.TFLITE, "zero_point": -128}
    record |= {"low": -128, "high": 127}
    for row, values in ((400, addends(words)), (528, words)):
        planes = values.astype("<i4").view(np.uint8).reshape(-1, 4).T
        datapath.buffer[row : row + 128] = planes.reshape(-1, 8)
    packed = isa.RECORD.pack(**record).to_bytes(16, "little")
    datapath.buffer[656:658] = np.frombuffer(packed, np.uint8).reshape(2, 8)
    window = {"columns": 40, "a_step": 1, "window_rows": 7, "window_pitch": 40, "tail": 5}
    norms = {"out_row": 300, "out_step": 1}
    each = {"rows": 7, "columns": 40, "a_pitch": 40, "a_step": 1, "out_pitch": 40, "out_step": 1}
    for command in (
        vector(VectorOp.MAX, **window, **norms),
        vector(VectorOp.NORM, **window, **norms, b_row=300, b_step=1, param_row=400),
        vector(VectorOp.SHARE, **each, out_row=0, b_row=300, b_step=1, param_row=528),
    ):
        assert datapath.vector(command, footprint(command, config, WINDOWS)) is None
    shares = datapath.buffer[:280].view(np.int8).reshape(7, 40, 8).transpose(1, 0, 2)
    assert (shares.reshape(40, 56)[:, :53] == softmax(x, words)).all()


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
