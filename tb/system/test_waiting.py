"""Engines go from one kind of waiting to another: stopped by the host, and held back by tokens.

A program is stopped in each of its first cycles, while engines wait for tokens, for the buffer and
for DRAM; the host resets it at once, and the next run is exact.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.isa import RECORD, Command, Drain, Engine, VectorOp
from tpulite.arch.layouts import TOKEN_MAX
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Control, EngineState, Interrupt, RunState, offset_of
from tpulite.golden.machine import Machine
from tpulite.golden.machine.dram import Dram
from tpulite.runtime.device import Job
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.coverage.waivers import WAIVERS, read_waivers
from tpulite_tb.edges import at_each_edge, reader
from tpulite_tb.fault_cases import (
    DRAM_BYTES,
    END,
    INPUT,
    PROGRAM,
    TO_LOAD,
    TO_MXU,
    TO_STORE,
    TO_VPU,
    WINDOWS,
    conv,
    load,
    store,
    vector,
)
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_verilated.library import cached_verilog

BANKS = SMALL.ub_banks
VECTORS = 16
"""Of a CONV, from the first row of the buffer on."""
COPIED = 24
"""More vectors than the results that VECTOR holds."""

WEIGHTS = VECTORS
RECORDS = WEIGHTS + SMALL.array_size
SUMS = RECORDS + SMALL.record_rows
LOADED = SUMS + BANKS * VECTORS
COPIES = LOADED + BANKS * 4
END_OF_ROWS = COPIES + BANKS * COPIED
"""What lies where in the buffer; all that is written or loaded into bank 0 meets there."""

TIMING = MemoryTiming(read_latency=10, write_response=6, burst_cycles=12)
"""Beats of a burst come while rows of the one before wait for the buffer."""


def drained(**fields: int) -> Command:
    """Build a CONV that writes a row of bank 0 in each cycle: nothing else gets there meanwhile."""
    places = {"weight_row": WEIGHTS, "record_row": RECORDS, "out_row": SUMS, "out_step": BANKS}
    return conv(m=VECTORS, drain=Drain.REQUANTIZE, **places, **fields)


def copied(columns: int = 1, *, bank: int = 0, **fields: int) -> Command:
    """Build a VECTOR that copies row 0 to rows of a bank."""
    return vector(VectorOp.COPY, columns=columns, out_row=COPIES + bank, out_step=BANKS, **fields)


STORED = store(row=SUMS, rows=END_OF_ROWS - SUMS, wait=TO_LOAD | TO_MXU | TO_VPU)

STOPPED = (
    load(rows=SUMS, signal=TO_MXU | TO_VPU),
    drained(wait=TO_LOAD),
    copied(8, wait=TO_LOAD, signal=TO_LOAD),
    load(row=LOADED, lines=3, pitch=BANKS, rows=1, stride=64, wait=TO_VPU),
    drained(),
    drained(),
    drained(signal=TO_LOAD | TO_STORE),
    copied(COPIED, signal=TO_LOAD | TO_STORE),
    load(row=LOADED, rows=1, wait=TO_VPU),
    load(row=LOADED, rows=1, wait=TO_MXU, signal=TO_STORE),
    STORED,
    END,
)
"""LOAD and VECTOR want to write to bank 0 while CONVs do. LOADs with tokens to wait for follow."""

STOPS = range(1, 150)
"""Cycles after START in which it is stopped."""

STEPS_WHEN_STOPPED = {
    "trace_load_state IDLE to TOKEN",
    "trace_load_state TOKEN to IDLE",
    "trace_load_state BUFFER to TOKEN",
    "trace_load_state BUFFER to AXI",
    "trace_store_state IDLE to TOKEN",
    "trace_store_state TOKEN to IDLE",
    "trace_mxu_state BUFFER to IDLE",
    "trace_vpu_state BUFFER to IDLE",
    "trace_vpu_state TOKEN to IDLE",
}


def crowded(rows: int) -> tuple[Command, ...]:
    """Return a program in which LOADs are ahead of the VECTORs that take their tokens.

    The counter is full, the last row of a LOAD waits until the tokens of the one before are given,
    and then for bank 0. The rows behind it fill LOAD's queues: with 8 rows to a LOAD a beat waits
    outside. The last LOAD waits for a token.
    """
    loaded = load(row=LOADED + 9 - rows, rows=rows, signal=TO_VPU)
    taken = copied(bank=1, wait=TO_LOAD)
    return (
        *[load(row=LOADED, rows=1, signal=TO_VPU)] * (TOKEN_MAX - 1),
        conv(m=VECTORS, rows=4, height=4, k_tiles=4, weight_row=WEIGHTS, signal=TO_VPU),
        copied(16, bank=1, wait=TO_MXU),
        *[drained()] * 3,
        drained(signal=TO_STORE),
        *[loaded, taken] * 3,
        *[loaded, taken.replace(signal=TO_LOAD)],
        load(row=LOADED + BANKS, rows=1, wait=TO_VPU, signal=TO_VPU | TO_STORE),
        *[taken] * (TOKEN_MAX - 1),
        taken.replace(signal=TO_STORE),
        STORED,
        END,
    )


STEPS_WHEN_CROWDED = {
    1: "trace_load_state TOKEN to BUFFER",
    8: "trace_load_state AXI to BUFFER",
}
"""By the rows of its LOADs."""

FILLED = (load(rows=SMALL.ub_rows), END)


def memories(commands: Sequence[Command]) -> tuple[np.ndarray, np.ndarray]:
    """Return DRAM with a program, and DRAM after it, if FILLED has run before."""
    data = np.random.default_rng(1).integers(0, 256, DRAM_BYTES, np.uint8)
    record = RECORD.pack(
        bias=0,
        multiplier=1 << 30,
        shift=-4,
        rounding=Rounding.TFLITE,
        zero_point=0,
        low=-128,
        high=127,
        gain=1,
    ).to_bytes(RECORD_BYTES, "little")
    start = INPUT + RECORDS * SMALL.row_bytes
    for place, content in (
        (start, record * SMALL.array_size),
        (PROGRAM, b"".join(command.encode() for command in commands)),
    ):
        data[place : place + len(content)] = np.frombuffer(content, np.uint8)
    machine, dram = Machine(SMALL), Dram(DRAM_BYTES)
    dram.write(0, data)
    machine.run(FILLED, WINDOWS, dram)
    machine.run(commands, WINDOWS, dram, resident=[(0, SMALL.ub_rows)])
    return data, dram.data


class Watched(ChipBench):
    """The chip, and the steps from one state of an engine to another on its trace ports."""

    def __init__(self, dut) -> None:
        super().__init__(dut, SMALL, dram_bytes=DRAM_BYTES, timing=TIMING)
        self.steps: set[str] = set()
        names = [f"trace_{engine.name.lower()}_state" for engine in Engine]
        self._reads = {name: reader(getattr(dut, name)) for name in names}
        self._states = dict.fromkeys(names, EngineState.IDLE)
        self._in_reset = reader(dut.rst)
        at_each_edge(dut.clk, self._look)

    def _look(self) -> None:
        for name, read in self._reads.items():
            before, now = self._states[name], read()
            if now != before and not self._in_reset():
                self._states[name] = EngineState(now)
                self.steps.add(f"{name} {before.name} to {EngineState(now).name}")

    async def control(self, request: Control) -> None:
        """Ask something of the chip; OSError if it is not legal now."""
        await self.registers.write(offset_of("CONTROL"), request)

    async def clear(self, interrupt: Interrupt) -> None:
        """Check that one interrupt is pending, and clear it."""
        assert await self.registers.read(offset_of("IRQ_STATUS")) == interrupt
        await self.registers.write(offset_of("IRQ_STATUS"), interrupt)

    async def run_exactly(self, commands: Sequence[Command]) -> None:
        """Fill the buffer, run a program, and check all of DRAM."""
        for program in (FILLED, commands):
            before, after = memories(program)
            self.memory.write(0, before)
            result = await self.run(Job(PROGRAM, len(program), WINDOWS, watchdog=2_000))
            assert result.fault is None
        assert self.memory.read(0, DRAM_BYTES) == after.tobytes()

    def check(self, expected: set[str]) -> None:
        """Check that steps were seen, none of which is waived."""
        self.finish()
        assert expected - self.steps == set()
        waived = [waiver.detail for waiver in read_waivers(WAIVERS) if waiver.kind == "arc"]
        assert [x for x in self.steps if any(fnmatchcase(x, each) for each in waived)] == []


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def stopped_in_any_cycle(dut) -> None:
    bench = Watched(dut)
    await bench.start()
    await bench.run_exactly(STOPPED)
    before, after = memories(STOPPED)
    for cycle in STOPS:
        bench.memory.write(0, before)
        await bench.control(Control.START)
        await ClockCycles(dut.clk, cycle)
        await bench.control(Control.STOP)
        while await _refused(bench.control(Control.RESET)):
            pass
        assert await bench.registers.read(offset_of("STATUS")) == RunState.IDLE
        await bench.clear(Interrupt.FAULT)

        bench.memory.write(0, before)
        await bench.control(Control.START)
        while not dut.irq.value:
            await ClockCycles(dut.clk, 1)
        await bench.clear(Interrupt.DONE)
        assert bench.memory.read(0, DRAM_BYTES) == after.tobytes(), cycle
    bench.check(STEPS_WHEN_STOPPED)


async def _refused(access) -> bool:
    try:
        await access
    except OSError:
        return True
    return False


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(rows=list(STEPS_WHEN_CROWDED))
async def crowded_counter(dut, rows: int) -> None:
    bench = Watched(dut)
    await bench.start()
    await bench.run_exactly(crowded(rows))
    bench.check({STEPS_WHEN_CROWDED[rows]})


def test_engines_go_from_waiting_to_waiting() -> None:
    simulate_verilog(cached_verilog(SMALL), __file__, top=TOP, name="waiting")
