"""VECTOR: faults, races and what may be overwritten."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import FaultSite
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine import Machine
from tpulite.golden.machine.datapath import Datapath
from tpulite.golden.races.detector import Kind
from tpulite_testing.compiling.programs import CONFIG, WINDOWS, copy, end, filled_dram, load, vector
from tpulite_testing.oracles.vector_loops import PARAM_ROW, RECORD, SIZES, filled, parameters

OUT = {"out_row": 100}
FAULTS = {
    "parameters first": (vector(VectorOp.SUM, param_row=253, out_row=16000), 256, 0),
    "two parts": (vector(VectorOp.ADD, param_row=249, out_row=16000), 256, 0),
    "records": (vector(VectorOp.AFFINE, param_row=241), 256, 0),
    "table": (vector(VectorOp.LUT, param_row=193), 256, 0),
    "no parameters": (vector(VectorOp.MAX, param_row=16383), None, 1),
    "output first": (vector(VectorOp.COPY, a_row=300, out_row=256), 256, 0),
    "A": (vector(VectorOp.COPY, a_row=260, out_row=255), 260, 0),
    "second output": (vector(VectorOp.COPY, columns=3, a_row=250, a_step=6, **OUT), 256, 1),
    "later row": (vector(VectorOp.COPY, rows=3, a_pitch=100, columns=60, **OUT), 256, 176),
    "output of a later row": (vector(VectorOp.COPY, rows=3, out_pitch=128, columns=2), 256, 4),
    "window row": (
        vector(VectorOp.MAX, a_row=200, window_rows=3, window_columns=4, window_pitch=27, **OUT),
        256, 0,
    ),
    "window row begins outside": (
        vector(VectorOp.MAX, a_row=200, window_rows=3, window_columns=2, window_pitch=70, **OUT),
        270, 0,
    ),
    "window unused": (
        vector(VectorOp.COPY, a_row=200, window_rows=3, window_columns=2, window_pitch=70, **OUT),
        None, 1,
    ),
    "B": (vector(VectorOp.ADD, b_row=250, b_step=3, columns=4, **OUT), 256, 2),
    "A before B": (vector(VectorOp.MUL, a_row=270, b_row=280, **OUT), 270, 0),
    "B unused": (vector(VectorOp.COPY, b_row=280, **OUT), None, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_faults(case):
    """The row at fault, and how many output vectors come before it."""
    command, address, outputs = FAULTS[case]
    access = footprint(command, CONFIG, WINDOWS)
    assert len(access.writes) == outputs
    if address is None:
        assert access.fault is None
    else:
        assert access.fault == FaultSite(Fault.BUFFER, address)
        assert Datapath(CONFIG).vector(command, access) == access.fault


@pytest.mark.parametrize("size", SIZES)
def test_a_rounding_that_is_missing_is_a_fault(size):
    """The address is the row that holds the rounding, behind the operands if there are any."""
    config = Config(array_size=size, ub_rows=512, roundings=("single", "ruy"))
    good, bad = RECORD | {"rounding": Rounding.RUY}, RECORD | {"rounding": Rounding.AWAY}
    rows = -(-16 // size)
    for operation, record, row in (
        (VectorOp.SUM, bad, 8 // size),
        (VectorOp.MUL, bad, rows + 8 // size),
        (VectorOp.AFFINE, [good] * (size - 2) + [bad] * 2, (16 * (size - 2) + 8) // size),
    ):
        datapath = filled(config, parameters(operation, size, record))
        before = datapath.buffer.copy()
        command = vector(operation, columns=3, out_row=510, param_row=PARAM_ROW)
        access = footprint(command, config, WINDOWS)
        assert access.fault is not None  # a later fault: the third output lies outside
        fault = datapath.vector(command, access)
        assert fault is not None
        assert (fault.code, fault.address) == (Fault.RECORD, PARAM_ROW + row)
        assert np.array_equal(datapath.buffer, before)


def kinds(command: Command, written: int = 64):
    """Run a command on the first rows of a buffer that nothing else has written."""
    stream = [load(0, written, signal=8), command.replace(wait=1), end()]
    done = Machine(CONFIG).run(stream, WINDOWS, filled_dram(), strict=False)
    return [(x.kind, x.place) for x in done.violations]


def test_reads_of_unwritten_rows_are_reported():
    window = {"window_rows": 2, "window_columns": 2, "window_pitch": 5, "out_row": 200}
    assert kinds(vector(VectorOp.MAX, a_row=57, **window)) == []
    assert kinds(vector(VectorOp.MAX, a_row=58, **window)) == [(Kind.UNWRITTEN, range(64, 65))]
    table = vector(VectorOp.LUT, param_row=1, out_row=200)
    assert kinds(table) == [(Kind.UNWRITTEN, range(64, 65))]
    add = vector(VectorOp.ADD, b_row=64, out_row=200, param_row=8)
    assert kinds(add) == [(Kind.UNWRITTEN, range(64, 65))]
    assert kinds(vector(VectorOp.COPY, b_row=64, param_row=300, out_row=200)) == []


def test_outputs_may_overwrite_what_is_read_already():
    assert kinds(copy(8, 8, 9)) == []
    assert kinds(copy(8, 7, 9)) == []
    assert kinds(copy(8, 9, 9)) == [(Kind.OVERLAP, range(9, 17))]
    # In place, and over the parameters.
    add = vector(VectorOp.ADD, columns=8, a_row=8, b_row=16, param_row=40)
    for row in (8, 16, 40):
        assert kinds(add.replace(out_row=row)) == []
    assert kinds(add.replace(out_row=17)) == [(Kind.OVERLAP, range(17, 24))]
    # A broadcast operand is read until the end.
    assert kinds(add.replace(b_step=0, out_row=16)) == [(Kind.OVERLAP, range(16, 17))]
    # Windows of 3 with stride 1: output i may lie where window i begins or ends.
    pool = vector(VectorOp.MAX, columns=6, window_columns=3, a_row=8)
    assert kinds(pool.replace(out_row=8)) == []
    assert kinds(pool.replace(out_row=9)) == [(Kind.OVERLAP, range(9, 14))]


def test_an_output_is_not_an_operand_of_the_next():
    """Each output vector reads what the one before it has written: that is a hazard."""
    assert kinds(copy(8, 9, 2)) == [(Kind.OVERLAP, range(9, 10))]
