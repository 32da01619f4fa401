import numpy as np
import pytest

from tpulite.arch.registers import Fault
from tpulite.runtime.device import Device, FaultReport, Job
from tpulite.runtime.golden_device import GoldenDevice, RaceError
from tpulite_testing.compiling.programs import CONFIG, WINDOWS, L, S, end, load, store

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
