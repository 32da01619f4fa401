from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch import numerics
from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, Opcode, RecordForm
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.golden.machine import Machine, RaceError
from tpulite_testing.compiling.programs import (
    CONFIG,
    WINDOWS,
    copy,
    end,
    filled_dram,
    load,
    matmul,
    mlp,
    records,
    store,
)
from tpulite_testing.timing import yardsticks

SIZES = [4, 8, 16, 32]


def run(commands, dram=None, config=CONFIG, **options):
    """Run commands that need no tokens to be legal here; return machine, DRAM and execution."""
    machine = Machine(config)
    dram = filled_dram() if dram is None else dram
    done = machine.run([*commands, end()], WINDOWS, dram, strict=False, **options)
    return machine, dram, done


def int8(machine, row: int, rows: int) -> np.ndarray:
    return machine.datapath.buffer[row : row + rows].view(np.int8).astype(np.int64)


@pytest.mark.parametrize("size", SIZES)
def test_load_and_store_move_lines(size):
    config = Config(array_size=size, ub_rows=256)
    rows, pitch = 3, 5
    machine, dram, done = run(
        [
            load(7, rows, offset=32, lines=2, pitch=pitch, stride=128),
            store(7, rows, offset=64, lines=2, pitch=pitch, stride=256),
        ],
        config=config,
    )
    for line in range(2):
        source = dram.read(0x2000 + 32 + 128 * line, rows * size)
        target = dram.read(0x3000 + 64 + 256 * line, rows * size)
        assert np.array_equal(target, source)
        assert np.array_equal(machine.datapath.buffer[7 + 5 * line : 10 + 5 * line].ravel(), source)
    untouched = filled_dram().read(0x3000 + 64 + rows * size, 16)
    assert np.array_equal(dram.read(0x3000 + 64 + rows * size, 16), untouched)
    assert [line.command for line in done.stores] == [1, 1]


def test_flip_inverts_the_top_bit_both_ways():
    machine, dram, _ = run([load(0, 4, flip=1), store(0, 4, flip=1)])
    source = dram.read(0x2000, 16)
    assert np.array_equal(machine.datapath.buffer[:4].ravel(), source ^ 0x80)
    assert np.array_equal(dram.read(0x3000, 16), source)


def test_copy_moves_lines_and_clamps():
    fields = {"rows": 2, "a_pitch": 5, "out_pitch": 7, "low": -20, "high": 50}
    machine, _, _ = run([load(0, 16), copy(1, 100, 3, **fields)])
    for line in range(2):
        source = int8(machine, 1 + 5 * line, 3)
        assert np.array_equal(int8(machine, 100 + 7 * line, 3), np.clip(source, -20, 50))


def reference_sums(machine, command) -> np.ndarray:
    """Multiply with plain loops over k-tiles, exact and unwrapped."""
    size, m = machine.config.array_size, command["columns"]
    sums = np.zeros((m, size), dtype=np.int64)
    for tile in range(command["blocks"]):
        vectors = int8(machine, command["act_row"] + tile * command["act_block_pitch"], m)
        weights = int8(machine, command["weight_row"] + tile * size, size)
        sums += vectors @ (weights - command["weight_zero_point"])
    return sums


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("m", [1, 3, 9])
def test_raw_drain_writes_the_sums(size, m):
    config = Config(array_size=size, ub_rows=512)
    command = matmul(
        m=m, k_tiles=3, act_row=0, act_pitch=m + 1, weight_row=40, weight_zero_point=-77,
        drain=Drain.RAW, out_row=150,
    )  # fmt: skip
    rows = 4096 // size if size > 8 else 140
    machine, _, _ = run([load(0, min(rows, 140)), command], config=config)
    raw = machine.datapath.buffer[150 : 150 + 4 * m].reshape(-1).view("<i4").reshape(m, size)
    assert np.array_equal(raw, reference_sums(machine, command))


def test_accumulators_add_over_commands_and_wrap():
    keep = matmul(act_row=0, weight_row=8, acc_row=3, drain=Drain.KEEP)
    machine, dram = Machine(CONFIG), filled_dram()
    machine.datapath.accumulators[3:7] = np.iinfo(np.int32).max - 1000
    chain = [
        load(0, 12),
        keep.replace(accumulate=1),
        keep.replace(accumulate=1, blocks=2, weight_row=4),
    ]
    machine.run([*chain, end()], WINDOWS, dram, strict=False)
    sums = sum(reference_sums(machine, command) for command in chain[1:])
    wrapped = (sums + np.iinfo(np.int32).max - 1000 + 2**31) % 2**32 - 2**31
    assert np.array_equal(machine.datapath.accumulators[3:7], wrapped)
    assert np.any(wrapped != sums + np.iinfo(np.int32).max - 1000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", RecordForm)
def test_requantizing_drain_follows_the_records(size, form):
    config = Config(array_size=size, ub_rows=512)
    rng = np.random.default_rng(size)
    biases = rng.integers(-3000, 3000, size).tolist()
    common = {"multiplier": 1 << 30, "shift": -4, "rounding": Rounding.RUY, "zero_point": 11}
    common |= {"low": -100, "high": 90}
    if form == RecordForm.FULL:
        image = b"".join(records(1, bias=bias, **common) for bias in biases)
    else:
        image = records(1, bias=999, **common).ljust(max(16, size), b"?")
        image += np.array(biases, dtype="<i4").tobytes()
    dram = filled_dram()
    dram.write(0x1000, image)
    command = matmul(
        m=5, k_tiles=2, act_row=0, act_pitch=5, weight_row=10, drain=Drain.REQUANTIZE,
        record_form=form, record_row=100, out_row=200,
    )  # fmt: skip
    rows = len(image) // size
    assert rows == (config.record_rows if form == RecordForm.FULL else config.short_record_rows)
    commands = [load(0, 90), load(100, rows, Window.CONSTANTS), command]
    machine, _, _ = run(commands, dram, config)
    expected = [
        [
            numerics.requantize(int(acc), bias=bias, **common)
            for acc, bias in zip(vector, biases, strict=True)
        ]
        for vector in reference_sums(machine, command)
    ]
    assert np.array_equal(int8(machine, 200, 5), expected)


def test_buffer_persists_but_must_be_declared_resident():
    machine, dram = Machine(CONFIG), filled_dram()
    machine.run([load(0, 8), end()], WINDOWS, dram)
    again = [store(0, 8), end()]
    with pytest.raises(RaceError, match=r"nothing has written: rows of the unified buffer 0 to 7$"):
        machine.run(again, WINDOWS, dram)
    machine.run(again, WINDOWS, dram, resident=[(0, 8)])
    assert np.array_equal(dram.read(0x3000, 32), dram.read(0x2000, 32))
    with pytest.raises(RaceError, match="nothing has written"):
        Machine(CONFIG).run(again, WINDOWS, dram, resident=[(0, 8)])


REQUANTIZE = {"act_row": 0, "weight_row": 8, "drain": Drain.REQUANTIZE, "record_row": 32}
FAULTS = {
    "LOAD rows": ([load(250, 7)], Fault.BUFFER, 256),
    "LOAD second line": ([load(0, 4, lines=2, pitch=253)], Fault.BUFFER, 256),
    "STORE rows": ([store(16383, 2)], Fault.BUFFER, 16384),
    "LOAD outside": ([load(0, 4, offset=0x1000)], Fault.WINDOW, 0x3000),
    "LOAD far outside": ([load(0, 4, offset=0xFFFF_FFF0)], Fault.WINDOW, 0x1_0000_1FF0),
    "LOAD not permitted": ([load(0, 4, Window.OUTPUT, offset=64)], Fault.WINDOW, 0x3040),
    "STORE not permitted": ([load(0, 4), store(0, 4, Window.INPUT)], Fault.WINDOW, 0x2000),
    # A burst of 16 beats starts with the line; the second one leaves the window.
    "LOAD later burst": ([load(0, 128, offset=0xE70)], Fault.WINDOW, 0x2F70),
    "rows before window": ([load(255, 2, offset=0x1000)], Fault.BUFFER, 256),
    "accumulators": ([matmul(acc_row=29)], Fault.BUFFER, 32),
    "accumulators first": ([matmul(acc_row=29, weight_row=300)], Fault.BUFFER, 32),
    "weights": ([matmul(k_tiles=64, weight_row=4)], Fault.BUFFER, 259),
    "records": ([load(0, 40), matmul(**REQUANTIZE | {"record_row": 241})], Fault.BUFFER, 256),
    "records unused": ([load(0, 40), matmul(record_row=241, drain=Drain.RAW)], None, 0),
    "output": ([matmul(drain=Drain.RAW, out_row=241)], Fault.BUFFER, 256),
    "activations": (
        [load(0, 40), matmul(k_tiles=3, act_pitch=127)], Fault.BUFFER, 257,
    ),
    "COPY source": ([copy(255, 0, 2)], Fault.BUFFER, 256),
    "COPY target": ([load(0, 9), copy(0, 250, 9)], Fault.BUFFER, 256),
    "COPY target first": ([load(250, 6), copy(250, 251, 7)], Fault.BUFFER, 256),
    "field": ([load(0, 4).replace(rows=0)], Fault.FIELD, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_faults(case):
    commands, code, address = FAULTS[case]
    _, _, done = run(commands)
    if code is None:
        assert done.fault is None
    else:
        assert done.fault is not None
        assert (done.fault.code, done.fault.address) == (code, address)
        assert done.index == len(commands) - 1


def test_store_fault_leaves_earlier_bursts():
    """The line crosses the end of the window in its second burst."""
    before = filled_dram()
    machine, dram, done = run([load(0, 128), store(0, 128, offset=0xE70)])
    assert done.fault is not None
    assert (done.fault.code, done.fault.address) == (Fault.WINDOW, 0x3F70)
    written = machine.datapath.buffer[:64].ravel()
    assert np.array_equal(dram.read(0x3E70, 256), written)
    assert np.array_equal(dram.read(0x3F70, 0x1000), before.read(0x3F70, 0x1000))


@pytest.mark.parametrize("form", RecordForm)
@pytest.mark.parametrize("size", SIZES)
def test_record_with_a_missing_rounding_is_a_fault(size, form):
    """The address is the row that holds the rounding of the first such record."""
    config = Config(array_size=size, ub_rows=512, roundings=("single", "ruy"))
    channel = size - 1 if form == RecordForm.FULL else 0
    image = records(channel) + records(size - channel, rounding=Rounding.FLOAT32)
    dram = filled_dram()
    dram.write(0x1000, image)
    command = matmul(drain=Drain.REQUANTIZE, weight_row=8, record_row=100, record_form=form)
    commands = [load(0, 60), load(100, 16, Window.CONSTANTS), command.replace(out_row=200)]
    machine, _, done = run(commands, dram, config)
    assert done.fault is not None
    assert done.fault.code == Fault.RECORD
    assert done.fault.address == 100 + (16 * channel + 8) // size
    assert not machine.datapath.buffer[200:204].any()


def test_overrun_and_undecodable_commands():
    machine, dram = Machine(CONFIG), filled_dram()
    done = machine.run([load(0, 4)], WINDOWS, dram, program_address=0x100)
    assert (done.fault, done.index) == (replace_fault(Fault.OVERRUN, 0x120), 1)
    stream = [load(0, 4), Fault.OPCODE, end()]
    done = machine.run(stream, WINDOWS, dram, program_address=0x100)
    assert (done.fault, done.index) == (replace_fault(Fault.OPCODE, 0x120), 1)


def replace_fault(code: Fault, address: int):
    machine = Machine(CONFIG)
    sample = machine.run([], WINDOWS, filled_dram()).fault
    assert sample is not None
    return replace(sample, code=code, address=address)


def test_memory_errors_stop_at_their_burst():
    commands = [load(0, 128), store(0, 128), end()]
    read = filled_dram(read_errors=[range(0x2130, 0x2131)])
    done = Machine(CONFIG).run(commands, WINDOWS, read, strict=False)
    assert (done.fault, done.index) == (replace_fault(Fault.READ, 0x2100), 0)
    write = filled_dram(write_errors=[range(0x3100, 0x3110)])
    done = Machine(CONFIG).run(commands, WINDOWS, write, strict=False)
    assert (done.fault, done.index) == (replace_fault(Fault.WRITE, 0x3100), 1)
    assert np.array_equal(write.read(0x3100, 256), filled_dram().read(0x3100, 256))
    fetch = filled_dram(read_errors=[range(0x30, 0x40)])
    done = Machine(CONFIG).run(commands, WINDOWS, fetch, strict=False, program_address=0)
    assert (done.fault, done.index) == (replace_fault(Fault.FETCH, 0x20), 1)


def test_rows_of_a_faulty_program_are_not_resident():
    machine, dram = Machine(CONFIG), filled_dram()
    machine.run([load(0, 8), load(100, 8), end()], WINDOWS, dram)
    machine.run([load(0, 4), load(250, 8), end()], WINDOWS, dram)
    keep = [store(100, 8), end()]
    assert machine.run(keep, WINDOWS, dram, resident=[(100, 108)]).fault is None
    with pytest.raises(RaceError, match="rows of the unified buffer 0 to 3"):
        machine.run([store(0, 8), end()], WINDOWS, dram, resident=[(0, 8)])


def test_window_must_lie_in_dram():
    windows = (WindowBinding(0x4000, 0x2000, read=True), *WINDOWS[1:])
    with pytest.raises(ValueError, match=r"^Window 0 must end within the 20480 bytes of DRAM, "):
        Machine(CONFIG).run([end()], windows, filled_dram())


def test_running_a_command_costs_little():
    program = [*(command for command in mlp() * 3 if command.opcode != Opcode.END), end()]
    machine, dram = Machine(CONFIG), filled_dram()
    cost = yardsticks(lambda: machine.run(program, WINDOWS, dram, strict=False)) / len(program)
    print(f"{cost:.0f} yardsticks a command")
    assert cost < 300
