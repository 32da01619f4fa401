"""The reference memory of the benches: exact to the edge, and awkward where AXI allows it."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.memory import MemoryTiming, WindowBinding
from tpulite.runtime import driver
from tpulite.runtime.device import Job
from tpulite_tb.axi_memory import ReferenceMemory
from tpulite_tb.axi_monitor import AxiMonitor
from tpulite_tb.copy_chip import TOP, copy_chip_verilog
from tpulite_tb.driver import RegisterPort, execute
from tpulite_tb.harness import reset, simulate_verilog

SOURCE, TARGET = 0x1000, 0x81000


class Bench:
    """The copy chip with memory, monitor and registers."""

    def __init__(self, dut, **memory_options) -> None:
        self.dut = dut
        self.memory = ReferenceMemory(dut, **memory_options)
        self.monitor = AxiMonitor(dut)
        self.registers = RegisterPort(dut)

    async def copy(self, bursts: int, *, seed: int = 0):
        """Copy random bytes and return what the chip reports, and whether they arrived."""
        data = random.randbytes(256 * bursts)
        self.memory.write(SOURCE, data)
        windows = (WindowBinding(SOURCE, len(data)), WindowBinding(TARGET, len(data)))
        job = Job(0, seed, windows)
        result = await execute(self.dut, self.registers, driver.run(job))
        return result, self.memory.read(TARGET, len(data)) == data


def edges(monitor: AxiMonitor, channel: str) -> list[int]:
    return [edge for name, edge in monitor.events if name == channel]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(latency=[2, 3, 50], response=[2, 8], bursts=[1, 64])
async def exact_to_the_edge(dut, latency: int, response: int, bursts: int) -> None:
    """Check latencies and that data flows without a bubble."""
    bench = Bench(dut, timing=MemoryTiming(latency, response))
    await reset(dut)
    result, same = await bench.copy(bursts)
    assert same and result.fault is None
    monitor = bench.monitor
    monitor.finish()
    assert edges(monitor, "r")[0] - edges(monitor, "ar")[0] == latency
    # 8 bursts outstanding cover any of these latencies.
    r = edges(monitor, "r")
    assert r[-1] - r[0] + 1 == len(r) == 16 * bursts
    answers = zip(edges(monitor, "w")[15::16], edges(monitor, "b"), strict=True)
    assert all(b - w == response for w, b in answers)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def late_reads_are_exact_too(dut) -> None:
    """Check that no read is answered early because another one has just finished."""
    bench = Bench(dut, timing=MemoryTiming(20, 8))
    await reset(dut)
    assert (await bench.copy(64, seed=random.getrandbits(31) | 1))[1]
    reads = bench.monitor.reads
    first_beats = edges(bench.monitor, "r")[::16]
    free = 0
    for burst, first in zip(reads, first_beats, strict=True):
        # The master may be late by its own pauses, the memory never early.
        assert first >= max(burst.edge + 20, free)
        free = first + burst.beats


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(beat=[0, 1, 3, 8], burst=[0, 7], shared=[False, True])
async def a_data_path_takes_turns(dut, beat: int, burst: int, *, shared: bool) -> None:
    """Check every beat and response against the data path, followed by hand."""
    bench = Bench(dut, timing=MemoryTiming(20, 8, beat, burst, shared=shared))
    await reset(dut)
    assert (await bench.copy(40))[1]
    monitor = bench.monitor
    monitor.finish()
    reads = [(edge, 0) for edge in edges(monitor, "ar")]
    writes = [(edge, 1) for edge in edges(monitor, "w")[15::16]]
    free, due, written = [0, 0], [], []
    for edge, is_write in sorted(reads + writes):
        path = is_write and not shared
        if is_write:
            stop = max(edge, free[path] + 16 * beat)
            written.append(stop + 8)
        else:
            begin = max(edge, free[path])
            stop = begin + 16 * beat
            due.extend(begin + 20 + i * beat for i in range(16))
        free[path] = stop + burst
    answered, last = [], 0
    for edge in due:  # one beat a cycle
        last = max(edge, last + 1)
        answered.append(last)
    assert edges(monitor, "r") == answered
    assert edges(monitor, "b") == written


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4], jitter=[0, 30], pauses=[False, True])
async def right_under_any_traffic(dut, stall: float, jitter: int, pauses: bool) -> None:
    """Check data and protocol with pauses of either side on every channel."""
    bench = Bench(dut, stall=stall, jitter=jitter)
    await reset(dut)
    for _ in range(3):
        result, same = await bench.copy(32, seed=random.getrandbits(31) | 1 if pauses else 0)
        assert same and result.fault is None
        assert result.counters["read_beats"] == result.counters["write_beats"] == 32 * 16
    bench.monitor.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def ranges_answer_errors(dut) -> None:
    """Check that an error is reported for exactly its range, and that it writes nothing."""
    bench = Bench(dut, read_errors=[range(SOURCE + 0x210, SOURCE + 0x211)])
    await reset(dut)
    result, _ = await bench.copy(4)
    assert result.fault is not None
    assert [burst.error for burst in bench.monitor.reads] == [False, False, True, False]
    assert not any(burst.error for burst in bench.monitor.writes)

    bench.memory.read_errors.clear()
    bench.memory.write_errors[:] = [range(TARGET + 0x3F0, TARGET + 0x400)]
    before = bench.memory.read(TARGET + 0x300, 256)
    result, same = await bench.copy(4)
    assert result.fault is not None and not same
    assert [burst.error for burst in bench.monitor.writes[-4:]] == [False, False, False, True]
    assert bench.memory.read(TARGET + 0x300, 256) == before
    bench.monitor.finish()

    bench.memory.write_errors.clear()
    result, same = await bench.copy(4)
    assert result.fault is None and same


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def goes_mute(dut) -> None:
    """Check that the memory stops answering after so many bursts, and works after a reset."""
    bench = Bench(dut, mute_after=5)
    await reset(dut)
    task = cocotb.start_soon(bench.copy(16))
    await ClockCycles(dut.clk, 1000)
    assert not task.done()
    assert sum(burst.answered is not None for burst in bench.monitor.reads) == 5
    assert len(bench.monitor.reads) == 13  # and 8 outstanding
    task.cancel()
    bench.memory.mute_after = None
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    result, same = await bench.copy(16)
    assert same and result.fault is None


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def writes_are_seen_from_their_response_on(dut) -> None:
    """Check that data becomes visible with B, not before."""
    bench = Bench(dut, timing=MemoryTiming(2, 100))
    await reset(dut)
    cocotb.start_soon(bench.copy(1))
    while not edges(bench.monitor, "w"):
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 90)
    assert bench.memory.read(TARGET, 256) == bytes(256)
    await ClockCycles(dut.clk, 40)
    assert bench.memory.read(TARGET, 256) == bench.memory.read(SOURCE, 256) != bytes(256)


def test_reference_memory():
    simulate_verilog(copy_chip_verilog(Config()), __file__, top=TOP, name="tb_axi_memory")


@pytest.mark.parametrize("timing", [MemoryTiming(1, 8), MemoryTiming(50, 1)])
def test_rejects_impossible_latencies(timing):
    with pytest.raises(ValueError, match=r"^Latencies must be at least 2 edges, not MemoryTiming"):
        ReferenceMemory(None, timing=timing)
