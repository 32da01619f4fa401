"""CONV: faults, illegal combinations, races and what may be overwritten."""

from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Command, Drain, illegal_combination
from tpulite.arch.registers import Fault
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine import Machine
from tpulite.golden.races.detector import Kind, Space
from tpulite_testing.compiling.programs import (
    CONFIG,
    WINDOWS,
    conv,
    end,
    filled_dram,
    image_of,
    load,
    matmul,
)
from tpulite_testing.oracles.conv_loops import filled

FAULTS = {
    "accumulators": (conv(rows=5, columns=7, weight_row=255), 34),
    "weights": (conv(kernel_rows=3, kernel_columns=2, blocks=11, weight_row=0), 263),
    "weights before records": (
        conv(weight_row=253, record_row=250, drain=Drain.REQUANTIZE), 256,
    ),
    "weights of int4 in half the rows": (
        conv(kernel_rows=3, kernel_columns=2, blocks=11, weight_row=128, int4=1), 259,
    ),
    "depthwise has one tile": (
        conv(depthwise=1, kernel_rows=15, kernel_columns=15, weight_row=252), None,
    ),
    "records": (conv(record_row=241, drain=Drain.REQUANTIZE, out_row=16000), 256),
    "records unused": (conv(record_row=241), None),
    "output": (conv(drain=Drain.RAW, rows=3, columns=2, out_pitch=100, out_step=60), 263),
    "output of int8": (
        conv(drain=Drain.REQUANTIZE, rows=3, columns=2, out_pitch=100, out_step=60), 260,
    ),
    "output unused": (conv(out_row=16000), None),
    "image": (conv(height=9, act_pitch=30, width=17), 256),
    "image of blocks": (conv(blocks=3, act_block_pitch=120, height=3, act_pitch=5, width=7), 256),
    "whole declared image": (conv(height=2047, act_pitch=1), 2046),
    "output before image": (conv(drain=Drain.RAW, out_row=253, height=300, act_pitch=1), 256),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_faults_come_before_any_access(case):
    command, address = FAULTS[case]
    access = footprint(command, CONFIG, WINDOWS)
    if address is None:
        assert access.fault is None
    else:
        assert access.fault is not None
        assert (access.fault.code, access.fault.address) == (Fault.BUFFER, address)
        assert not access.reads.size
        assert not access.early_reads.size


ILLEGAL = {
    "byte step": (conv(byte_step=5), "CONV.byte_step must be at most 4, not 5"),
    "dense depthwise": (
        conv(byte_step=2, depthwise=1),
        "CONV with a byte_step must not be depthwise and must have inner x",
    ),
    "dense inner y": (
        conv(byte_step=2, inner=Axis.Y),
        "CONV with a byte_step must not be depthwise and must have inner x",
    ),
    "depthwise blocks": (
        conv(depthwise=1, blocks=2), "CONV.blocks must be 1 if depthwise, not 2",
    ),
    "transposed": (conv(transposed=1), "CONV.transposed must be 0 without transposed_tiles"),
    "int4": (conv(int4=1), "CONV.int4 must be 0 without int4"),
    "depthwise raw": (
        conv(depthwise=1, drain=Drain.RAW), "CONV must not drain raw if depthwise",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ILLEGAL)
def test_illegal_combinations_are_field_faults(case):
    command, text = ILLEGAL[case]
    assert illegal_combination(command, CONFIG) == text
    done = Machine(CONFIG).run([load(0, 4), command, end()], WINDOWS, filled_dram())
    assert done.fault is not None
    assert (done.fault.code, done.index) == (Fault.FIELD, 1)


@pytest.mark.parametrize("fields", [{"depthwise": 1}, {"byte_step": 1}, {"int16": 1}])
def test_transposed_tiles_are_those_of_ordinary_products(fields):
    able = replace(CONFIG, transposed_tiles=True, int16=True)
    assert illegal_combination(conv(transposed=1), able) is None
    assert illegal_combination(conv(**fields, columns=2), able) is None
    assert illegal_combination(conv(transposed=1, **fields, columns=2), able) == (
        "CONV with transposed must have neither depthwise, a byte_step, nor int16"
    )


@pytest.mark.parametrize("fields", [{"depthwise": 1}, {"byte_step": 1}, {"transposed": 1}])
def test_int4_weights_are_those_of_ordinary_products(fields):
    able = replace(CONFIG, transposed_tiles=True, int4=True)
    assert illegal_combination(conv(int4=1), able) is None
    assert illegal_combination(conv(**fields), able) is None
    assert illegal_combination(conv(int4=1, **fields), able) == (
        "CONV with int4 must have neither depthwise, a byte_step, nor transposed"
    )


def test_int4_weights_have_no_zero_point():
    able = replace(CONFIG, int4=True)
    assert illegal_combination(conv(weight_zero_point=-3), able) is None
    assert illegal_combination(conv(int4=1, weight_zero_point=-3), able) == (
        "CONV.weight_zero_point must be 0 with int4, not -3"
    )


def test_depthwise_drains_only_with_all_lanes():
    command = conv(depthwise=1, drain=Drain.REQUANTIZE)
    few = Config(array_size=4, requant_lanes=2)
    assert illegal_combination(command, CONFIG) is None
    assert illegal_combination(command.replace(drain=Drain.KEEP), few) is None
    assert illegal_combination(command, few) == (
        "CONV must keep its sums if depthwise: there are too few requantizer lanes"
    )


def violations(*commands: Command, written: int = 40):
    """Run commands on the first rows of a buffer that nothing else has written."""
    stream = [load(0, written, signal=4), *commands, end()]
    stream[1] = stream[1].replace(wait=1)
    return Machine(CONFIG).run(stream, WINDOWS, filled_dram(), strict=False).violations


def kinds(*commands: Command, written: int = 40):
    return [(x.kind, x.place) for x in violations(*commands, written=written)]


def test_only_vectors_that_are_read_must_be_written():
    """The image is declared to row 99, but only its first 12 rows are read."""
    command = conv(height=20, width=5, act_pitch=5, rows=2, columns=2, kernel_rows=2, weight_row=30)
    assert kinds(command) == []
    # Rows 0, 1, 5, 6, 10, 11 are read.
    far = command.replace(act_row=28, weight_row=0)
    assert kinds(far, written=40) == []
    assert kinds(far, written=39) == [(Kind.UNWRITTEN, range(39, 40))]


def test_dense_mode_reads_the_next_vector_too():
    command = conv(byte_step=4, columns=3, width=5, act_row=32, weight_row=0)
    assert kinds(command, written=36) == []
    assert kinds(command, written=35) == [(Kind.UNWRITTEN, range(35, 36))]
    assert kinds(command.replace(width=3), written=35) == []


def test_taps_outside_the_tile_need_no_weights():
    """With 7 interleaved positions only the first kernel row of a 3 x 3 kernel fits N = 4."""
    command = conv(
        depthwise=1, rows=1, columns=5, kernel_rows=3, kernel_columns=3, **image_of(4, 7),
        weight_row=28, weight_zero_point=0,
    )  # fmt: skip
    datapath = filled(CONFIG, 3)
    access = footprint(command, CONFIG, WINDOWS)
    assert datapath.stray_weights(command, access).tolist() == [31]
    datapath.buffer[31] = 0
    assert not datapath.stray_weights(command, access).size


def test_weights_that_are_no_taps_are_reported():
    command = conv(depthwise=1, kernel_columns=2, **image_of(1, 2), weight_row=20)
    (found,) = violations(command)
    assert (found.kind, found.space, found.place) == (Kind.STRAY, Space.BUFFER, range(22, 24))
    assert str(found) == (
        "Command 1 CONV is depthwise and has weights that are no taps: "
        "rows of the unified buffer 22 to 23"
    )


def test_outputs_may_overwrite_what_is_surely_read():
    # Two k-tiles: in the second one vector i is row 4 + i; the first k-tile is over.
    product = matmul(m=4, k_tiles=2, act_pitch=4, drain=1, record_row=16)
    product = product.replace(weight_row=32)
    assert kinds(product.replace(out_row=4)) == []
    assert kinds(product.replace(out_row=0)) == []
    assert kinds(product.replace(out_row=5)) == [(Kind.OVERLAP, range(5, 8))]
    # The second kernel row is read once more in the last k-tile, one output row later.
    image = conv(
        **image_of(3, 4), rows=2, columns=4, kernel_rows=2, drain=1, record_row=16, weight_row=32,
        out_pitch=4,
    )  # fmt: skip
    assert kinds(image.replace(out_row=0)) == []
    assert kinds(image.replace(out_row=4)) == []
    assert kinds(image.replace(out_row=5)) == [(Kind.OVERLAP, range(5, 12))]
    # The first output row sees padding alone and is written before the second one reads the image.
    padded = image.replace(pad_top=1, kernel_rows=1, height=1)
    assert kinds(padded.replace(out_row=0)) == [(Kind.OVERLAP, range(0, 4))]
    assert kinds(padded.replace(out_row=0, rows=1)) == []


def test_a_depthwise_sum_needs_its_whole_window():
    command = conv(
        depthwise=1, columns=4, kernel_columns=3, drain=1, record_row=16, weight_row=32,
        weight_zero_point=0, **image_of(1, 6),
    )  # fmt: skip
    overlaps = [
        [x.place for x in violations(command.replace(out_row=row)) if x.kind == Kind.OVERLAP]
        for row in (0, 1, 2, 3)
    ]
    assert overlaps == [[], [], [], [range(3, 6)]]
