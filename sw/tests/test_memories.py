"""Memories by name, what programs keep of them, and what plans make of them."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.timing import predict_cycles, program_cycles
from tpulite.memories import MEMORIES, bandwidth, memory_name, named_memory
from tpulite.program import Program
from tpulite_testing.drawn.plain_graphs import GraphBuilder

SMALL = Config(ub_rows=256)


@pytest.mark.parametrize("name", MEMORIES)
def test_names_are_read_back(name):
    assert memory_name(named_memory(name)) == name
    changed = replace(MEMORIES[name], read_latency=123, burst_cycles=77)
    assert named_memory(memory_name(changed)) == changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ddr", "^ddr: no such memory .did you mean ddr3"),
        ("ddr3,latency=9", "^latency: no such field of a memory"),
        ("ddr3,shared", "^'shared' must be FIELD=VALUE; fields are read_latency, "),
        ("ddr3,shared=2", "^shared of a memory must be a number from 0 to 1, not '2'$"),
        ("ddr3,read_latency=1", "^read_latency of a memory must be a number from 2 to 10000, not"),
        ("ddr3,beat_cycles=-1", "^beat_cycles of a memory must be a number from 0 to 10000, not"),
        ("ddr3,shared=0,shared=1", "^shared of memory 'ddr3,shared=0,shared=1' is given twice$"),
    ],
)
def test_what_is_no_memory_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Options(memory=text)


def test_no_time_is_negative():
    with pytest.raises(ValueError, match=r"^burst_cycles must be at least 0, not -1$"):
        MemoryTiming(burst_cycles=-1)


def test_bandwidth_is_that_of_bursts_one_after_the_other():
    assert bandwidth(REFERENCE_MEMORY, 16) == 16
    assert bandwidth(MemoryTiming(beat_cycles=8), 16) == 2
    assert bandwidth(MemoryTiming(beat_cycles=1, burst_cycles=16), 16) == 8


def wide_network():
    """Return a network whose images do not fit 256 rows."""
    builder = GraphBuilder((20, 20, 16))
    wide = builder.depthwise(builder.conv("x", 64, 1), 3, padding=(1, 1, 1, 1))
    return builder.graph(builder.conv(wide, 16, 1))


@pytest.fixture(scope="module")
def usual() -> Program:
    return compile_layers(wide_network(), SMALL)


@pytest.mark.parametrize(("name", "at_most"), [("sdram16", 0.95), ("ddr3", 1), ("lpddr4x16", 1)])
def test_a_plan_for_a_memory_is_not_slower_beside_it(usual, name, at_most):
    memory = MEMORIES[name]
    planned = compile_layers(wide_network(), SMALL, Options(memory=name))
    assert planned.memory == memory and planned.config == SMALL
    before = predict_cycles(usual.commands, SMALL, memory)
    assert program_cycles(planned) <= at_most * before
    assert program_cycles(usual) <= predict_cycles(planned.commands, SMALL)


def test_a_program_keeps_its_memory(usual, tmp_path):
    path = tmp_path / "a.tpulite"
    for memory in (REFERENCE_MEMORY, MEMORIES["sdram16"]):
        program = replace(usual, memory=memory)
        program.save(path)
        assert Program.load(path) == program
    assert b'"memory"' not in usual.pack()


def test_times_do_not_fall_with_less_bandwidth(usual):
    cycles = [
        predict_cycles(usual.commands, SMALL, MemoryTiming(beat_cycles=beat, burst_cycles=gap))
        for gap in (0, 8)
        for beat in (0, 1, 2, 4, 8)
    ]
    assert cycles[:5] == sorted(cycles[:5]) and cycles[5:] == sorted(cycles[5:])
    assert np.all(np.array(cycles[:5]) <= cycles[5:])
    beats = sum(usual.window_bytes) // 16
    assert cycles[4] > 8 * beats
