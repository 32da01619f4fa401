"""RtlDevice, its memory and its trace, on the copy chip: the same edges as the cocotb bench."""

import json
import os
import random
from functools import cache
from pathlib import Path

import cocotb
import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import MemoryPair, MemoryTiming, WindowBinding
from tpulite.arch.registers import Control, EngineState, Fault, offset_of
from tpulite.runtime.device import Job
from tpulite_tb.chip import ChipBench
from tpulite_tb.copy_chip import TOP, copy_chip_verilog
from tpulite_tb.harness import simulate_verilog
from tpulite_verilated.library import LIBRARY, build_library
from tpulite_verilated.rtl_device import RtlDevice
from tpulite_verilated.toolchain import build_root

CONFIG = Config(array_size=4)
SOURCE, TARGET = 0x1000, 0x81000
DRAM_BYTES = 1 << 20
TIMINGS = (MemoryTiming(2, 2), MemoryTiming(3, 9), MemoryTiming(19, 8), MemoryTiming(50, 8))
LIMITED = (
    *TIMINGS,
    MemoryTiming(20, 8, 1, 6, shared=True),
    MemoryTiming(12, 4, 8, 5, shared=True),
    MemoryTiming(50, 8, 3, 0, shared=False),
    MemoryTiming(4, 2, 0, 40, shared=False),
    MemoryPair(4, 2, 1, 3, shared=True, of_constants=MemoryTiming(64, beat_cycles=16)),
    MemoryPair(20, 8, 2, 6, of_constants=MemoryTiming(4, beat_cycles=1, burst_cycles=9)),
)
PROGRAM = 1 << 32
"""Where no memory is: the copy chip reads no program."""


def copy_job(bursts: int, *, seed: int = 0) -> Job:
    size = 256 * bursts
    return Job(PROGRAM, seed, (WindowBinding(SOURCE, size), WindowBinding(TARGET, size)))


@cache
def verilog() -> str:
    return copy_chip_verilog(CONFIG)


def make_device(**options) -> RtlDevice:
    return RtlDevice(CONFIG, verilog=verilog(), dram_bytes=DRAM_BYTES, **options)


def run_copy(device, bursts: int, *, seed: int = 0):
    """Copy random bytes; return the result, and whether all of them arrived."""
    data = np.frombuffer(random.randbytes(256 * bursts), dtype=np.uint8)
    device.write(SOURCE, data)
    device.write(TARGET, bytes(data.size))
    result = device.run(copy_job(bursts, seed=seed))
    return result, np.array_equal(device.read(TARGET, data.size), data)


def many_cycles(device) -> list[int]:
    """Return the cycles of many copies with and without pauses of the chip."""
    runs = [(1, 0), (64, 0), *((bursts, seed) for bursts in (1, 7, 40) for seed in range(1, 6))]
    cycles = []
    for bursts, seed in runs:
        result, same = run_copy(device, bursts, seed=0x9E3779B9 * seed & 0xFFFFFF)
        assert same and result.fault is None
        cycles.append(result.counters["cycles"])
    return cycles


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(timing=range(len(LIMITED)))
async def takes_many_cycles(dut, timing: int) -> None:
    """Run the same copies as the device does, and keep their cycles and traces."""
    bench = ChipBench(dut, CONFIG, dram_bytes=DRAM_BYTES, timing=LIMITED[timing], trace=True)
    await bench.start()
    cycles = await bench.call(many_cycles, bench.device)
    await bench.call(run_copy, bench.device, 20, seed=77)
    bench.finish()
    trace = bench.traces[Engine.LOAD]
    table = np.column_stack([trace.index, trace.start, trace.stop, trace.cycles])
    path = Path(os.environ["TPULITE_TEST_OUT"]) / f"{timing}.json"
    path.write_text(json.dumps({"cycles": cycles, "trace": table.tolist()}))


@pytest.mark.both_simulators("both simulators count the same in other tests")
def test_same_cycles_and_traces_as_the_bench(tmp_path):
    simulate_verilog(
        verilog(),
        __file__,
        top=TOP,
        name="rtl_device_cycles",
        extra_env={"TPULITE_TEST_OUT": str(tmp_path)},
    )
    for i, timing in enumerate(LIMITED):
        bench = json.loads((tmp_path / f"{i}.json").read_text())
        device = make_device(timing=timing, trace=True)
        assert many_cycles(device) == bench["cycles"]
        run_copy(device, 20, seed=77)
        trace = device.traces[Engine.LOAD]
        table = np.column_stack([trace.index, trace.start, trace.stop, trace.cycles])
        assert table.tolist() == bench["trace"]


def test_latency_is_exact():
    # One burst: its read, 16 beats, and its write each wait for the other.
    cycles = {t: run_copy(make_device(timing=t), 1)[0].counters["cycles"] for t in TIMINGS}
    base = cycles[TIMINGS[0]]
    for timing in TIMINGS:
        extra = timing.read_latency - 2 + timing.write_response - 2
        assert cycles[timing] == base + extra


@pytest.mark.parametrize(("stall", "jitter"), [(0.0, 30), (0.4, 0), (0.4, 30)])
def test_random_traffic_is_right_and_repeatable(stall, jitter):
    quiet = run_copy(make_device(), 64)[0].counters["cycles"]
    cycles = []
    for seed in (1, 1, 2):
        device = make_device(stall=stall, jitter=jitter, seed=seed)
        result, same = run_copy(device, 64, seed=5)
        assert same and result.fault is None
        cycles.append(result.counters["cycles"])
    assert cycles[0] == cycles[1] != cycles[2]
    assert min(cycles) > quiet


def test_a_long_run_tells_how_far_it_is():
    device, told = make_device(stall=0.9), []
    device.watch = told.append
    result, same = run_copy(device, 256)
    assert same and len(told) > 1 and told == sorted(told)
    assert all(cycles % 4096 == 0 for cycles in told[:-1])
    assert told[-2] < result.counters["cycles"] <= told[-1] + 10


def test_nothing_is_written_where_constants_lie():
    data, pair = random.randbytes(256), MemoryPair(of_constants=MemoryTiming())
    for timing, same in ((pair, False), (pair.tensors, True)):
        device = make_device(timing=timing)
        device.write(SOURCE, data)
        source = WindowBinding(SOURCE, 256)
        result = device.run(Job(PROGRAM, 0, (source, source)))
        assert (result.fault is None) == same
        assert device.read(SOURCE, 256).tobytes() == data


def test_ranges_answer_errors():
    device = make_device(read_errors=[range(SOURCE + 0x210, SOURCE + 0x211)])
    result, same = run_copy(device, 4)
    assert result.fault is not None and result.fault.code == Fault.READ
    assert not same

    device.set_errors(write=[range(TARGET + 0x3FF, TARGET + 0x400)])
    result, same = run_copy(device, 4)
    assert result.fault is not None
    wrong = np.flatnonzero(device.read(SOURCE, 1024) != device.read(TARGET, 1024))
    assert wrong.min() >= 0x300  # only the burst with the error is missing
    assert not device.read(TARGET + 0x300, 256).any()

    device.set_errors()
    result, same = run_copy(device, 4)
    assert result.fault is None and same


def test_addresses_beyond_dram_answer_errors():
    device = make_device()
    windows = (WindowBinding(DRAM_BYTES - 256, 512), WindowBinding(TARGET, 512))
    fault = device.run(Job(0, 0, windows)).fault
    assert fault is not None and fault.code == Fault.READ


def test_mute_memory_ends_in_a_clear_error_and_full_reset_helps():
    device = make_device(mute_after=5, max_cycles=2000)
    with pytest.raises(
        TimeoutError, match=r"^The chip is RUNNING and gives no interrupt after 2000 cycles$"
    ):
        run_copy(device, 16)
    device.set_mute_after(None)
    device.full_reset()
    assert run_copy(device, 16)[1]


def test_illegal_register_write_is_an_error():
    device = make_device(mute_after=0, max_cycles=100)
    with pytest.raises(TimeoutError):
        run_copy(device, 1)
    with pytest.raises(OSError, match=r"^The chip answers 2 to a write of register 0xc$"):
        device.write_register(offset_of("CONTROL"), Control.START)


def test_trace_adds_up():
    device = make_device(trace=True)
    result, _ = run_copy(device, 10, seed=3)
    trace = device.traces[Engine.LOAD]
    assert list(trace.index) == list(range(10))
    assert (trace.cycles[:, EngineState.BUSY] == 16).all()
    assert (trace.cycles.sum(axis=1) == trace.stop - trace.start).all()
    assert (trace.start[1:] == trace.stop[:-1]).all()
    assert trace.start[0] == 0 and trace.stop[-1] < result.counters["cycles"]
    assert device.traces[Engine.MXU].index.size == 0


def test_counts_cycles_and_time():
    device = make_device()
    result, _ = run_copy(device, 64)
    assert abs(device.cycles - result.counters["cycles"]) < 8  # START comes before the wait
    assert device.cycles_per_second > 0


def test_other_chip_is_refused():
    with pytest.raises(ValueError, match=r"^Register CONFIG_HASH of the chip must be "):
        RtlDevice(Config(array_size=8), verilog=verilog(), dram_bytes=DRAM_BYTES)


def test_library_is_built_once(capsys, monkeypatch, tmp_path):
    (tmp_path / "objects").symlink_to(build_root() / "objects")  # only the chip is built
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    path = build_library(verilog(), title="the copy chip")
    assert path.name == LIBRARY and path.is_relative_to(tmp_path)
    assert "Building the simulator of the copy chip (once" in capsys.readouterr().err
    stamp = path.stat().st_mtime_ns
    assert build_library(verilog(), title="the copy chip") == path
    assert path.stat().st_mtime_ns == stamp
    assert not capsys.readouterr().err


def test_missing_compiler_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        RuntimeError, match=r"needs make, g\+\+, perl; on Debian: apt install make g\+\+ perl$"
    ):
        build_library("module tpulite; endmodule", title="nothing")


def test_broken_verilog_shows_the_tool_s_message(monkeypatch, tmp_path):
    monkeypatch.setenv("TPULITE_BUILD", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"(?s)^verilator failed for .* nothing.*syntax error"):
        build_library("module tpulite; banana", title="nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timing": MemoryTiming(1, 8)}, r"^Latencies must be at least 2 edges, not MemoryTiming"),
        (
            {"timing": MemoryPair(of_constants=MemoryTiming(1))},
            r"^Latencies must be at least 2 edges, not MemoryPair",
        ),
        ({"stall": 1.0}, r"^Fraction of stalled cycles must be in \[0, 1\), not 1.0$"),
    ],
)
def test_rejects_impossible_memories(options, message):
    with pytest.raises(ValueError, match=message):
        make_device(**options)


@pytest.mark.parametrize(("address", "size"), [(-1, 4), (DRAM_BYTES - 3, 4)])
def test_host_stays_in_dram(address, size):
    device = make_device()
    message = rf"^Bytes {address} to {address + size} must lie in DRAM of {DRAM_BYTES} bytes$"
    with pytest.raises(ValueError, match=message):
        device.write(address, bytes(size))
    with pytest.raises(ValueError, match=message):
        device.read(address, size)
