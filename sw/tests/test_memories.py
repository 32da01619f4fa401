"""Memories by name, what programs keep of them, and what plans make of them."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming, Window
from tpulite.bench.model_device import ModelDevice
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.timing import predict_cycles, program_cycles
from tpulite.memories import CONSTANT_MEMORIES, MEMORIES, memory_name, named_memory
from tpulite.program import Program
from tpulite.report.traffic import dram_cycles, memory_uses
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder

SMALL = Config(ub_rows=256)


@pytest.mark.parametrize("name", MEMORIES)
def test_names_are_read_back(name):
    assert memory_name(named_memory(name)) == name
    changed = replace(MEMORIES[name], read_latency=123, burst_cycles=77)
    assert named_memory(memory_name(changed)) == changed


@pytest.mark.parametrize("tensors", MEMORIES)
@pytest.mark.parametrize("constants", (*MEMORIES, *CONSTANT_MEMORIES))
def test_names_of_pairs_are_read_back(tensors, constants):
    pair = named_memory(f"{tensors}+{constants}")
    assert memory_name(pair) == f"{tensors}+{constants}"
    assert pair.tensors == MEMORIES[tensors]
    assert pair.constants == {**MEMORIES, **CONSTANT_MEMORIES}[constants]
    changed = replace(pair, burst_cycles=77, of_constants=MemoryTiming(beat_cycles=99))
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
        ("flash", "^flash holds only constants; name a memory for tensors, as sram.flash$"),
        ("flash+sram", "^flash holds only constants; name a memory for tensors, as sram.flash$"),
        ("sram+", r"^'sram.' must be TENSORS\+CONSTANTS, two memories, as sram.flash$"),
        ("+flash", r"^'.flash' must be TENSORS\+CONSTANTS, two memories"),
        ("sram+flash+flash", r"^'sram.flash.flash' must be TENSORS\+CONSTANTS, two memories"),
        ("sram+flsh", "^flsh: no such memory .did you mean flash"),
        ("sram+flash,shared=0", "^shared: no such field of a memory of constants; choose from"),
        ("sram+flash,read_latency=1", "^read_latency of a memory must be a number from 2 to"),
        ("ddr3,shared=0,shared=1", "^shared of memory 'ddr3,shared=0,shared=1' is given twice$"),
    ],
)
def test_what_is_no_memory_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Options(memory=text)


def test_no_time_is_negative():
    with pytest.raises(ValueError, match=r"^burst_cycles must be at least 0, not -1$"):
        MemoryTiming(burst_cycles=-1)


def test_constants_lie_in_one_memory():
    with pytest.raises(
        ValueError, match=r"^the memory of constants must be one memory, not a pair$"
    ):
        MemoryPair(of_constants=MemoryPair())


def wide_network():
    """Return a network whose images do not fit 256 rows."""
    builder = GraphBuilder((20, 20, 16))
    wide = builder.depthwise(builder.conv("x", 64, 1), 3, padding=(1, 1, 1, 1))
    return builder.graph(builder.conv(wide, 16, 1))


@pytest.fixture(scope="module")
def usual() -> Program:
    return compile_layers(wide_network(), SMALL)


@pytest.mark.parametrize(
    ("name", "at_most"), [("sdram16", 0.95), ("ddr3", 1), ("lpddr4x16", 1), ("sram+flash", 1)]
)
def test_a_plan_for_a_memory_is_not_slower_beside_it(usual, name, at_most):
    memory = named_memory(name)
    planned = compile_layers(wide_network(), SMALL, Options(memory=name))
    assert planned.memory == memory and planned.config == SMALL
    before = predict_cycles(usual.commands, SMALL, memory)
    assert program_cycles(planned) <= at_most * before
    assert program_cycles(usual) <= predict_cycles(planned.commands, SMALL)


def test_a_program_keeps_its_memory(usual, tmp_path):
    path = tmp_path / "a.tpulite"
    for memory in (REFERENCE_MEMORY, MEMORIES["sdram16"], named_memory("sram+flash")):
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


def test_a_pair_is_as_fast_as_its_slower_half(usual):
    """Constants and commands take their path; a slower one is never faster."""
    cycles = [
        predict_cycles(usual.commands, SMALL, named_memory(f"sram+flash,beat_cycles={beat}"))
        for beat in (1, 4, 16, 64)
    ]
    assert cycles == sorted(set(cycles))
    beats = (len(usual.constants) + len(usual.encode())) // 16
    assert 64 * beats < cycles[-1] < 64 * beats + cycles[0] + 64 * beats


def test_each_memory_holds_and_moves_its_own(usual):
    """Against the windows that a session places, and the bytes that a device counts."""
    pair = replace(usual, memory=named_memory("sram+flash"))
    job = Session(pair, "golden").job
    flash, sram = memory_uses([pair])
    assert (flash.memory, sram.memory) == ("flash", "sram")
    assert flash.peak_bytes == sum(map(len, job.constants))
    tensors = (Window.INPUT, Window.OUTPUT, Window.SCRATCH)
    assert sram.peak_bytes == sum(job.windows[window].size for window in tensors)
    assert flash.written_bytes == 0
    device = ModelDevice(SMALL, timing=pair.memory)
    counters = Session(pair, device).run({"x": np.zeros((20, 20, 16), np.int8)}).counters
    assert 16 * counters["read_beats"] == flash.read_bytes + sram.read_bytes
    assert 16 * counters["write_beats"] == sram.written_bytes
    (both,) = memory_uses([usual])
    assert both.peak_bytes == flash.peak_bytes + sram.peak_bytes
    assert both.holds == "everything"
    two = memory_uses([pair, pair])
    assert two[0].peak_bytes == 2 * flash.peak_bytes and two[1].peak_bytes == sram.peak_bytes
    assert memory_uses([]) == ()


def test_bounds_of_a_pair_are_those_of_its_halves(usual):
    pair = replace(usual, memory=named_memory("sram+flash"))
    assert dram_cycles(pair) >= len(usual.constants)  # a byte a cycle
    assert dram_cycles(pair) <= program_cycles(pair)
    assert dram_cycles(replace(pair, memory=named_memory("sdram16+sram"))) >= dram_cycles(usual)
