"""Every fault, provoked while bursts are outstanding: report, DRAM, and life after a soft reset."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import cocotb
import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import LOAD, RECORD, Command, Drain, Engine, Opcode, VectorOp, dense
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Control, Fault, Interrupt, RunState, offset_of
from tpulite.runtime import driver
from tpulite.runtime.device import FaultReport, Job
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.rtl_device import RtlDevice
from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.harness import simulate_verilog

CONFIG = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)
ONE_ROUNDING = Config(
    array_size=8,
    ub_rows=512,
    acc_rows=64,
    requant_lanes=2,
    vector_lanes=4,
    roundings=("single", "float32"),
    burst_beats=8,
    dma_bursts=2,
)
DRAM_BYTES = 1 << 16
PROGRAM, INPUT, OUTPUT = 0x1000, 0x4000, 0x8000
SIZE = 0x800
WINDOWS = (
    WindowBinding(INPUT, SIZE, read=True),
    WindowBinding(INPUT, SIZE, read=True),
    WindowBinding(OUTPUT, SIZE, write=True),
    WindowBinding(),
)
TO_LOAD, TO_STORE, TO_MXU, TO_VPU = (1 << engine for engine in Engine)


def _load(**fields: int) -> Command:
    return Command.make(Opcode.LOAD, **{"window": Window.INPUT, "lines": 1, "rows": 4} | fields)


def _store(**fields: int) -> Command:
    return Command.make(Opcode.STORE, **{"window": Window.OUTPUT, "lines": 1, "rows": 4} | fields)


def _conv(*, m: int = 4, k_tiles: int = 1, **fields: int) -> Command:
    return Command.make(Opcode.CONV, **dense(m=m, k_tiles=k_tiles, **fields))


def _vector(operation: VectorOp = VectorOp.COPY, **fields: int) -> Command:
    ones = ("rows", "columns", "window_rows", "window_columns", "a_step", "b_step", "out_step")
    bounds = {"low": -128, "high": 127}
    fields = dict.fromkeys(ones, 1) | bounds | fields
    return Command.make(Opcode.VECTOR, operation=operation, **fields)


def traffic(rows: int) -> list[Command]:
    """Half the buffer in, out again, and the other half in: bursts of both kinds for a while."""
    half = rows // 2
    return [
        _load(signal=TO_STORE, rows=half),
        _store(wait=TO_LOAD, rows=half),
        _load(row=half, rows=half),
    ]


END = Command.make(Opcode.END)
AT = 3
"""Index of the command that is at fault, unless traffic itself is hit."""


@dataclass(frozen=True)
class Case:
    """A way to go wrong: what to run, what of memory fails, what to expect."""

    code: Fault
    bad: tuple[Command, ...] = ()
    index: int = AT
    address: int = 0
    word: int | None = None  # raw bits of the command at fault
    read_errors: tuple[range, ...] = ()
    write_errors: tuple[range, ...] = ()
    length: int | None = None
    watchdog: int = 2000
    config: Config = field(default=CONFIG)


ADDRESS = PROGRAM + COMMAND_BYTES * AT
LEGAL = int.from_bytes(_load().encode(), "little")
CASES = {
    "opcode": Case(Fault.OPCODE, word=0, address=ADDRESS),
    "field": Case(Fault.FIELD, word=LEGAL & ~(0xFFF << LOAD.offsets()["lines"]), address=ADDRESS),
    "unused_bit": Case(Fault.FIELD, word=LEGAL | 1 << 255, address=ADDRESS),
    "window_end": Case(Fault.WINDOW, (_load(offset=SIZE - 16, rows=8),), address=INPUT + SIZE - 16),
    "window_second_line": Case(Fault.WINDOW, (_load(lines=2, stride=SIZE),), address=INPUT + SIZE),
    "window_not_readable": Case(Fault.WINDOW, (_load(window=Window.OUTPUT),), address=OUTPUT),
    "window_closed": Case(Fault.WINDOW, (_load(window=Window.SCRATCH),), address=0),
    "window_not_writable": Case(Fault.WINDOW, (_store(window=Window.INPUT),), address=INPUT),
    "window_store_end": Case(Fault.WINDOW, (_store(offset=SIZE),), address=OUTPUT + SIZE),
    "buffer_load": Case(Fault.BUFFER, (_load(row=253),), address=256),
    "buffer_load_second_line": Case(
        Fault.BUFFER, (_load(row=128, lines=2, pitch=125),), address=256
    ),
    "buffer_store": Case(Fault.BUFFER, (_store(row=254),), address=257),
    "field_combination": Case(
        Fault.FIELD,
        word=int.from_bytes(_conv(depthwise=1, drain=Drain.RAW).encode(), "little"),
        address=ADDRESS,
    ),
    "byte_step": Case(
        Fault.FIELD, word=int.from_bytes(_conv(byte_step=5).encode(), "little"), address=ADDRESS
    ),
    "buffer_operand_a": Case(Fault.BUFFER, (_vector(columns=2, a_row=255),), address=256),
    "buffer_operand_b": Case(
        Fault.BUFFER,
        (_vector(VectorOp.ADD, columns=4, b_row=100, b_step=52, param_row=8),),
        address=256,
    ),
    "buffer_result": Case(Fault.BUFFER, (_vector(columns=2, out_row=255),), address=256),
    "buffer_result_before_operand": Case(
        Fault.BUFFER, (_vector(a_row=300, out_row=299),), address=299
    ),
    "buffer_window": Case(
        Fault.BUFFER,
        (
            _vector(
                VectorOp.MAX, a_row=200, window_rows=3, window_columns=2, window_pitch=28, columns=9
            ),
        ),
        address=256,
    ),
    "buffer_parameters": Case(
        Fault.BUFFER, (_vector(VectorOp.LUT, param_row=200, out_row=300),), address=263
    ),
    "buffer_accumulators": Case(Fault.BUFFER, (_conv(acc_row=61),), address=64),
    "buffer_weights": Case(Fault.BUFFER, (_conv(weight_row=250, k_tiles=2),), address=257),
    "buffer_records": Case(
        Fault.BUFFER, (_conv(drain=Drain.REQUANTIZE, record_row=245),), address=260
    ),
    "buffer_output": Case(Fault.BUFFER, (_conv(drain=Drain.RAW, out_row=241),), address=256),
    "buffer_image": Case(Fault.BUFFER, (_conv(k_tiles=3, act_row=200, act_pitch=50),), address=303),
    "buffer_image_unread": Case(
        # Of the declared image only the first row is read.
        Fault.BUFFER,
        (_conv(height=9, act_row=200).replace(act_pitch=8),),
        address=267,
    ),
    "read_error": Case(
        # Both LOADs read these bytes; the first one is hit.
        Fault.READ,
        index=0,
        address=INPUT + 256,
        read_errors=(range(INPUT + 272, INPUT + 288),),
    ),
    "write_error": Case(
        Fault.WRITE,
        index=1,
        address=OUTPUT + 256,
        write_errors=(range(OUTPUT + 256, OUTPUT + 257),),
    ),
    "fetch_error": Case(Fault.FETCH, address=ADDRESS, read_errors=(range(ADDRESS, ADDRESS + 16),)),
    "watchdog": Case(Fault.WATCHDOG, (_conv(wait=TO_VPU),)),
    "full_counter": Case(
        Fault.WATCHDOG,
        (_vector(a_row=200, out_row=201, signal=TO_VPU),) * 64,
        index=AT + 63,
    ),
    "full_counter_of_the_mxu": Case(Fault.WATCHDOG, (_conv(signal=TO_MXU),) * 70, index=AT + 63),
    "two_faults_the_older_counts": Case(
        Fault.BUFFER,
        (_conv(act_row=254), _conv(acc_row=61)),
        address=257,
    ),
    "overrun": Case(Fault.OVERRUN, length=AT, address=PROGRAM + COMMAND_BYTES * AT),
    "record": Case(
        Fault.RECORD,
        (_conv(m=8, drain=Drain.REQUANTIZE, record_row=8),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=ONE_ROUNDING,
    ),
    "record_of_a_vector": Case(
        # Two rows of operands, then the record of channel 5.
        Fault.RECORD,
        (_vector(VectorOp.MUL, param_row=8 + 2 * 4),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=ONE_ROUNDING,
    ),
    "record_of_an_affine": Case(
        Fault.RECORD,
        (_vector(VectorOp.AFFINE, param_row=8),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=ONE_ROUNDING,
    ),
}


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
            rounding=Rounding.RUY if wrong else Rounding.SINGLE,
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
@cocotb.parametrize(case=[name for name, case in CASES.items() if case.config == CONFIG])
async def stops_cleanly(dut, case: str) -> None:
    """Provoke it under cocotb, with the protocol watched and channels that pause."""
    stall = random.choice([0.0, 0.3])
    bench = ChipBench(dut, CONFIG, dram_bytes=DRAM_BYTES, stall=stall, jitter=5 if stall else 0)
    await bench.start()

    def set_errors(read: tuple, write: tuple) -> None:
        bench.memory.read_errors, bench.memory.write_errors = list(read), list(write)

    await bench.call(check, bench.device, CASES[case], set_errors)
    bench.monitor.finish()


@pytest.mark.both_simulators
def test_faults_under_cocotb() -> None:
    simulate_verilog(cached_verilog(CONFIG), __file__, top=TOP, name="faults")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_faults_on_the_device(case: str, stall: float) -> None:
    config = CASES[case].config
    device = RtlDevice(config, dram_bytes=DRAM_BYTES, stall=stall, jitter=10 if stall else 0)
    for seed in range(5 if stall else 1):
        random.seed(seed)
        check(device, CASES[case], device.set_errors)


def test_every_fault_is_provoked() -> None:
    provoked = {case.code for case in CASES.values()} | {Fault.NONE, Fault.STOPPED}
    assert provoked == set(Fault)


def _start(device: RtlDevice, watchdog: int = 0) -> np.ndarray:
    """Start the traffic and let the interrupt be someone else's business."""
    before = _fill(device, CONFIG)
    words = [command.encode() for command in (*traffic(CONFIG.ub_rows), END)]
    _write_program(device, before, words)
    job = Job(PROGRAM, len(words), WINDOWS, watchdog=watchdog)
    sequence = driver.run(job)
    step = next(sequence)
    while not isinstance(step, driver.Wait):
        assert step.value is not None
        device.write_register(step.offset, step.value)
        step = next(sequence)
    return before


@pytest.mark.parametrize("cycles", [1, 60, 110, 130, 180, 260])
def test_host_stops_the_chip(cycles: int) -> None:
    device = RtlDevice(CONFIG, dram_bytes=DRAM_BYTES)
    random.seed(cycles)
    before = _start(device)
    device.step(cycles)
    device.write_register(offset_of("CONTROL"), Control.STOP)
    device.step(300)
    assert device.read_register(offset_of("STATUS")) == RunState.QUIESCED
    assert device.read_register(offset_of("IRQ_STATUS")) == Interrupt.FAULT
    assert device.read_register(offset_of("ERROR_CODE")) == Fault.STOPPED
    after = device.read(0, DRAM_BYTES)
    output = slice(OUTPUT, OUTPUT + CONFIG.ub_bytes // 2)
    due = before[INPUT : INPUT + CONFIG.ub_bytes // 2]
    assert ((after[output] == before[output]) | (after[output] == due)).all()
    device.write_register(offset_of("IRQ_STATUS"), Interrupt.FAULT)
    check(_reset(device), CASES["opcode"], device.set_errors)


def _reset(device: RtlDevice) -> RtlDevice:
    device.reset()
    return device


WAITING = {
    "nothing": (),
    "conv": (_conv(wait=TO_LOAD),),
    "bad_conv": (_conv(acc_row=61),),
    "bad_vector": (_vector(columns=2, a_row=255),),
    "bad_load": (_load(window=Window.SCRATCH),),
}


@pytest.mark.parametrize("answered", [1, 2, 4])
@pytest.mark.parametrize("waiting", WAITING)
def test_memory_that_never_answers_is_reported(waiting: str, answered: int) -> None:
    device = RtlDevice(CONFIG, dram_bytes=DRAM_BYTES, mute_after=answered, max_cycles=20_000)
    start = traffic(CONFIG.ub_rows)
    start[0] = start[0].replace(signal=TO_STORE | TO_MXU)
    words = [command.encode() for command in (*start, *WAITING[waiting], END)]
    before = _fill(device, CONFIG)
    _write_program(device, before, words)
    result = device.run(Job(PROGRAM, len(words), WINDOWS, watchdog=500))
    assert result.fault is not None
    assert result.fault.hung
    with pytest.raises(OSError, match=r"CONTROL|register"):  # a soft reset is refused
        device.reset()
    device.set_mute_after(None)
    device.full_reset()
    check(device, CASES["opcode"], device.set_errors)
