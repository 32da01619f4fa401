"""Every fault, provoked while bursts are outstanding: report, DRAM, and life after a soft reset."""

import random
from collections.abc import Callable

import cocotb
import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import RECORD, Drain
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Control, Fault, Interrupt, RunState, offset_of
from tpulite.runtime.device import FaultReport, Job
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.fault_cases import (
    CASES,
    DRAM_BYTES,
    END,
    INPUT,
    OUTPUT,
    PROGRAM,
    TO_LOAD,
    TO_MXU,
    TO_STORE,
    WINDOWS,
    Case,
    conv,
    load,
    traffic,
    vector,
)
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_tb.starts import start
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.rtl_device import RtlDevice


def _fill(device, config: Config) -> np.ndarray:
    """Random DRAM, in which only record 5 of the input has a rounding that not every chip has."""
    rng = np.random.default_rng(random.getrandbits(64))
    dram = rng.integers(0, 256, DRAM_BYTES, np.uint8)
    start = INPUT + 8 * config.row_bytes
    for channel in range(config.array_size):
        wrong = channel == 5
        record = RECORD.pack(
            bias=0,
            multiplier=1 << 30,
            shift=0,
            rounding=Rounding.FLOAT32 if wrong else Rounding.TFLITE,
            zero_point=0,
            low=-128,
            high=127,
            gain=1,
        )
        place = start + RECORD_BYTES * channel
        dram[place : place + RECORD_BYTES] = list(record.to_bytes(RECORD_BYTES, "little"))
    device.write(0, dram)
    return dram


def _write_program(device, dram: np.ndarray, words: list[bytes]) -> None:
    code = np.frombuffer(b"".join(words), np.uint8)
    device.write(PROGRAM, code)
    dram[PROGRAM : PROGRAM + code.size] = code


def check(device, case: Case, set_errors: Callable[[tuple, tuple], None]) -> None:
    """Run into the fault, look at everything, and run a legal program after a soft reset."""
    config = case.config
    before = _fill(device, config)
    half_bytes = config.ub_rows // 2 * config.row_bytes
    # The record case waits until its records are there.
    start = traffic(config.ub_rows)
    bad = case.bad
    if case.code == Fault.RECORD:
        assert bad[0].engine is not None
        start[0] = start[0].replace(signal=TO_STORE | 1 << bad[0].engine)
        bad = (bad[0].replace(wait=TO_LOAD),)
    words = [command.encode() for command in (*start, *bad)]
    if case.word is not None:
        words.append(case.word.to_bytes(COMMAND_BYTES, "little"))
    words += [END.encode()] * (case.length is None)
    _write_program(device, before, words)
    set_errors(case.read_errors, case.write_errors)
    job = Job(PROGRAM, case.length or len(words), WINDOWS, watchdog=case.watchdog)
    result = device.run(job)
    assert result.fault == FaultReport(case.code, case.index, case.address)

    # Nothing but the program's own output has changed, and that only to what it should become.
    after = device.read(0, DRAM_BYTES)
    output = slice(OUTPUT, OUTPUT + half_bytes)
    new, old, due = after[output], before[output], before[INPUT : INPUT + half_bytes]
    assert ((new == old) | (new == due)).all()
    after[output] = old
    assert (after == before).all()

    # After a soft reset a legal program runs, and the tokens of the last one are gone.
    set_errors((), ())
    device.reset()
    before = _fill(device, config)
    words = [command.encode() for command in (*traffic(config.ub_rows), END)]
    _write_program(device, before, words)
    result = device.run(Job(PROGRAM, len(words), WINDOWS, watchdog=case.watchdog))
    assert result.fault is None
    before[output] = before[INPUT : INPUT + half_bytes]
    assert (device.read(0, DRAM_BYTES) == before).all()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(case=[name for name, case in CASES.items() if case.config == SMALL])
async def stops_cleanly(dut, case: str) -> None:
    """Provoke it under cocotb, with the protocol watched and channels that pause."""
    stall = random.choice([0.0, 0.3])
    bench = ChipBench(dut, SMALL, dram_bytes=DRAM_BYTES, stall=stall, jitter=5 if stall else 0)
    await bench.start()

    def set_errors(read: tuple, write: tuple) -> None:
        bench.memory.read_errors, bench.memory.write_errors = list(read), list(write)

    await bench.call(check, bench.device, CASES[case], set_errors)
    bench.monitor.finish()


@pytest.mark.both_simulators("half a minute; other benches of this chip run on Icarus")
def test_faults_under_cocotb() -> None:
    simulate_verilog(cached_verilog(SMALL), __file__, top=TOP, name="faults")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_faults_on_the_device(case: str, stall: float) -> None:
    config = CASES[case].config
    device = RtlDevice(config, dram_bytes=DRAM_BYTES, stall=stall, jitter=10 if stall else 0)
    for seed in range(5 if stall else 1):
        random.seed(seed)
        check(device, CASES[case], device.set_errors)


def test_an_output_that_begins_at_the_first_row_is_no_fault() -> None:
    """15 rows on from 0 is 16 - 1, and the 1 comes first: the sum is below zero on its way."""
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    commands = (conv(drain=Drain.RAW, rows=4, out_row=0, out_pitch=16), END)
    device.write(PROGRAM, b"".join(command.encode() for command in commands))
    assert device.run(Job(PROGRAM, len(commands), WINDOWS, watchdog=2_000)).fault is None


def test_every_fault_is_provoked() -> None:
    provoked = {case.code for case in CASES.values()} | {Fault.NONE, Fault.STOPPED}
    assert provoked == set(Fault)


def _start(device: RtlDevice) -> np.ndarray:
    """Start the traffic and let the interrupt be someone else's business."""
    before = _fill(device, SMALL)
    words = [command.encode() for command in (*traffic(SMALL.ub_rows), END)]
    _write_program(device, before, words)
    job = Job(PROGRAM, len(words), WINDOWS, watchdog=0)
    start(device, job)
    return before


@pytest.mark.parametrize("cycles", [1, 60, 110, 130, 180, 260])
def test_host_stops_the_chip(cycles: int) -> None:
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    random.seed(cycles)
    before = _start(device)
    device.step(cycles)
    device.write_register(offset_of("CONTROL"), Control.STOP)
    device.step(300)
    assert device.read_register(offset_of("STATUS")) == RunState.QUIESCED
    assert device.read_register(offset_of("IRQ_STATUS")) == Interrupt.FAULT
    assert device.read_register(offset_of("ERROR_CODE")) == Fault.STOPPED
    after = device.read(0, DRAM_BYTES)
    output = slice(OUTPUT, OUTPUT + SMALL.ub_bytes // 2)
    due = before[INPUT : INPUT + SMALL.ub_bytes // 2]
    assert ((after[output] == before[output]) | (after[output] == due)).all()
    device.write_register(offset_of("IRQ_STATUS"), Interrupt.FAULT)
    check(_reset(device), CASES["opcode"], device.set_errors)


def _reset(device: RtlDevice) -> RtlDevice:
    device.reset()
    return device


WAITING = {
    "nothing": (),
    "conv": (conv(wait=TO_LOAD),),
    "bad_conv": (conv(acc_row=61),),
    "bad_vector": (vector(columns=2, a_row=255),),
    "bad_load": (load(window=Window.SCRATCH),),
}


@pytest.mark.parametrize("answered", [1, 2, 4])
@pytest.mark.parametrize("waiting", WAITING)
def test_memory_that_never_answers_is_reported(waiting: str, answered: int) -> None:
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES, mute_after=answered, max_cycles=20_000)
    start = traffic(SMALL.ub_rows)
    start[0] = start[0].replace(signal=TO_STORE | TO_MXU)
    words = [command.encode() for command in (*start, *WAITING[waiting], END)]
    before = _fill(device, SMALL)
    _write_program(device, before, words)
    result = device.run(Job(PROGRAM, len(words), WINDOWS, watchdog=500))
    assert result.fault is not None
    assert result.fault.hung
    with pytest.raises(OSError, match=r"CONTROL|register"):  # a soft reset is refused
        device.reset()
    device.set_mute_after(None)
    device.full_reset()
    check(device, CASES["opcode"], device.set_errors)
