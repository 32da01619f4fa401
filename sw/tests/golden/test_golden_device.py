from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.layers import run_layers
from tpulite.golden.machine import Machine
from tpulite.graph.layers import Conv, LayerGraph
from tpulite.runtime.device import Device, FaultReport, Job
from tpulite.runtime.golden_device import GoldenDevice, RaceError
from tpulite.runtime.session import Session
from tpulite_testing.compiling.programs import (
    CONFIG,
    WINDOWS,
    L,
    S,
    end,
    filled_dram,
    load,
    mlp,
    records,
    store,
)
from tpulite_testing.graphs.range_layers import conv, pool
from tpulite_testing.graphs.range_networks import keywords

PROGRAM = 0x100
LEGAL = [load(0, 8, signal=S), store(0, 8, wait=L), end()]


def device(commands, **options) -> GoldenDevice:
    golden = GoldenDevice(CONFIG, dram_bytes=0x5000, **options)
    golden.write(0x2000, np.arange(256, dtype=np.uint8))
    write_program(golden, commands)
    return golden


def write_program(golden: Device, commands) -> None:
    words = (word if isinstance(word, bytes) else word.encode() for word in commands)
    golden.write(PROGRAM, b"".join(words))


def job(length: int, **fields) -> Job:
    return Job(PROGRAM, length, WINDOWS, **fields)


def test_runs_a_program_from_dram():
    golden = device(LEGAL)
    result = golden.run(job(3))
    assert (result.fault, result.counters) == (None, {})
    assert np.array_equal(golden.read(0x3000, 32), np.arange(32, dtype=np.uint8))


def test_read_returns_a_fresh_array():
    golden = device(LEGAL)
    golden.read(0x2000, 4)[:] = 99
    assert golden.read(0x2000, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("address", "size"), [(0x4FFF, 2), (-1, 1), (0x5000, 1)])
def test_refuses_what_does_not_lie_in_dram(address, size):
    golden = device(LEGAL)
    text = f"^Bytes {address} to {address + size} must lie in DRAM of 20480 bytes$"
    with pytest.raises(ValueError, match=text):
        golden.read(address, size)
    with pytest.raises(ValueError, match=text):
        golden.write(address, bytes(size))


@pytest.mark.parametrize(
    ("word", "code"),
    [
        (bytes(32), Fault.OPCODE),
        (load(0, 1).encode()[:31] + b"\x80", Fault.FIELD),
        (bytes([1]) + bytes(31), Fault.FIELD),
    ],
)
def test_a_command_that_does_not_decode_is_a_fault(word, code):
    golden = device([LEGAL[0].replace(signal=0), word, end()])
    assert golden.run(job(3)).fault == FaultReport(code, 1, PROGRAM + 32)


def test_after_a_fault_it_must_be_reset():
    golden = device(LEGAL)
    fault = golden.run(job(2)).fault
    assert fault == FaultReport(Fault.OVERRUN, 2, PROGRAM + 64)
    with pytest.raises(RuntimeError, match="must be reset first"):
        golden.run(job(3))
    golden.reset()
    assert golden.run(job(3)).fault is None


def test_memory_errors():
    golden = device(LEGAL, read_errors=[range(0x2010, 0x2020)])
    assert golden.run(job(3)).fault == FaultReport(Fault.READ, 0, 0x2000)
    golden = device(LEGAL, write_errors=[range(0x3010, 0x3020)])
    assert golden.run(job(3)).fault == FaultReport(Fault.WRITE, 1, 0x3000)
    golden = device(LEGAL, read_errors=[range(PROGRAM + 48, PROGRAM + 64)])
    assert golden.run(job(3)).fault == FaultReport(Fault.FETCH, 1, PROGRAM + 32)


def test_refuses_a_race():
    golden = device([load(0, 8), store(0, 8), end()])
    with pytest.raises(RaceError, match="Command 1 STORE reads, not ordered after"):
        golden.run(job(3))


def test_refuses_reads_of_dram_that_nobody_wrote():
    golden = device([load(0, 65), end()])
    with pytest.raises(RaceError, match="bytes of DRAM 8448 to 8451"):
        golden.run(job(2))


def test_the_buffer_persists_for_resident_rows():
    golden = device(LEGAL)
    golden.run(job(3))
    write_program(golden, [store(0, 4, offset=256), end()])
    golden.run(job(2, resident=((0, 4),)))
    assert np.array_equal(golden.read(0x3100, 16), np.arange(16, dtype=np.uint8))


def test_a_program_that_runs_again_is_not_judged_but_sees_new_data():
    golden = device(LEGAL)
    for first in (0, 100, 200):
        data = np.arange(first, first + 256).astype(np.uint8)
        golden.write(0x2000, data)
        assert golden.run(job(3)).fault is None
        assert np.array_equal(golden.read(0x3000, 32), data[:32])


def test_another_program_in_the_same_place_is_judged():
    golden = device(LEGAL)
    for _ in range(2):
        golden.run(job(3))
    write_program(golden, [load(0, 8), store(0, 8), end()])
    with pytest.raises(RaceError, match="Command 1 STORE reads, not ordered after"):
        golden.run(job(3))


@pytest.mark.parametrize(
    "layers",
    [keywords(), conv((1, 1), 100, 40), conv((3, 3), 256, 16), pool((2, 2))],
    ids=["keywords", "pointwise", "padded", "pool"],
)
def test_every_run_of_a_network_is_its_definition(layers):
    _compare_runs(layers, -128)


@pytest.mark.parametrize("depth", [1024, 1040, 2304])
def test_sums_of_every_run_are_exact(depth):
    """Sums of the deeper ones are beyond the integers that float32 has."""
    layers = conv((1, 1), depth, 16, requantization=None)
    weight = np.random.default_rng(9).integers(120, 128, (1, 1, depth, 16)).astype(np.int8)
    (layer,) = layers.layers
    assert isinstance(layer, Conv)
    _compare_runs(replace(layers, layers=(replace(layer, weight=weight),)), 120)


def _compare_runs(layers: LayerGraph, lowest: int) -> None:
    rng = np.random.default_rng(8)
    session = Session(compile_layers(layers, Config()), "golden")
    for _ in range(3):
        values = {
            name: rng.integers(lowest, 128, layers.activations[name].shape, np.int8)
            for name in layers.inputs
        }
        expected = run_layers(layers, values)
        for name, found in session.run(values).outputs.items():
            assert np.array_equal(found, expected[name])


def test_a_record_that_became_wrong_is_the_same_fault_in_every_run():
    """The machine lacks a rounding; a fresh device finds it in its first run."""
    found, config = [], replace(CONFIG, roundings=("single", "ruy"))
    for earlier_runs in (0, 2):
        golden = GoldenDevice(config, dram_bytes=0x5000)
        golden.write(0, filled_dram().data)
        write_program(golden, mlp())
        for _ in range(earlier_runs):
            assert golden.run(job(len(mlp()))).fault is None
        golden.write(0x1000, records(CONFIG.array_size, rounding=Rounding.FLOAT32))
        found.append(golden.run(job(len(mlp()))).fault)
        golden.reset()
        golden.write(0x1000, records(CONFIG.array_size))
        assert golden.run(job(len(mlp()))).fault is None
    assert found[0] == found[1]
    assert found[0] is not None and found[0].code == Fault.RECORD


def moved(by: int) -> Job:
    """The job of :data:`LEGAL` so many bytes further on."""
    windows = tuple(replace(window, base=window.base + by) for window in WINDOWS)
    return Job(PROGRAM + by, 3, windows)


def place(golden: Device, by: int, data: np.ndarray) -> None:
    golden.write(PROGRAM + by, b"".join(command.encode() for command in LEGAL))
    golden.write(0x2000 + by, data)


def judgments(monkeypatch) -> list[int]:
    """Addresses of the programs that machines judge."""
    judged, run = [], Machine.run

    def counted(self, commands, windows, dram, **options):
        judged.append(options["program_address"])
        return run(self, commands, windows, dram, **options)

    monkeypatch.setattr(Machine, "run", counted)
    return judged


def test_a_program_is_judged_once_wherever_it_lies(monkeypatch):
    judged, golden = judgments(monkeypatch), GoldenDevice(CONFIG, dram_bytes=0x10000)
    for by in (0x4000, 0, 0x8000, 0x4000):
        data = (np.arange(256) + by // 64 + 1).astype(np.uint8)
        place(golden, by, data)
        assert golden.run(moved(by)).fault is None
        assert np.array_equal(golden.read(0x3000 + by, 32), data[:32])
    assert judged == [PROGRAM + 0x4000]


def test_elsewhere_it_is_judged_if_less_is_written_or_bursts_are_others(monkeypatch):
    judged, golden = judgments(monkeypatch), GoldenDevice(CONFIG, dram_bytes=0x10000)
    for by, size in ((0, 256), (0x4010, 256), (0x8000, 16)):
        place(golden, by, np.ones(size, np.uint8))
        if size == 256:
            assert golden.run(moved(by)).fault is None
    with pytest.raises(RaceError, match="bytes of DRAM"):
        golden.run(moved(0x8000))
    assert judged == [PROGRAM, PROGRAM + 0x4010, PROGRAM + 0x8000]
