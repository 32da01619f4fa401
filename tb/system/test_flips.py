"""Bits of the chip's state that are flipped from outside: what flips do, and life after them."""

from collections import Counter

import numpy as np
import pytest

from tpulite.arch.registers import Fault, offset_of
from tpulite.runtime.device import Job
from tpulite_tb.fault_cases import DRAM_BYTES, END, INPUT, OUTPUT, PROGRAM, WINDOWS, load, store
from tpulite_tb.flips import Fate, components, flip
from tpulite_tb.machines import SMALL
from tpulite_tb.placed import DRAM_BYTES as NETWORK_DRAM_BYTES
from tpulite_tb.placed import placed
from tpulite_tb.starts import outcome, start
from tpulite_verilated.state import StateDevice, Variable

ROW, ROWS = 37, 16


def find(device: StateDevice, module: str, name: str) -> Variable:
    (found,) = [v for v in device.variables if (v.module, v.name) == (module, name)]
    return found


def run(device: StateDevice, *words: bytes) -> None:
    device.write(PROGRAM, b"".join(words))
    assert device.run(Job(PROGRAM, len(words), WINDOWS)).fault is None


def test_a_flip_in_the_buffer_changes_the_bit_that_is_stored() -> None:
    device = StateDevice(SMALL, dram_bytes=DRAM_BYTES)
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, ROWS * SMALL.row_bytes, np.uint8)
    device.write(INPUT, data)
    end = END.encode()
    run(device, load(row=ROW, rows=ROWS).encode(), end)
    expected = data.copy()
    for place in rng.choice(data.size * 8, 40, replace=False):
        byte, bit = divmod(int(place), 8)
        expected[byte] ^= 1 << bit
        row, lane = divmod(byte, SMALL.row_bytes)
        word, bank = divmod(ROW + row, SMALL.ub_banks)
        rows = find(device, f"tpulite.buffer.bank{bank}", "rows")
        device.flip(rows, word * rows.bits + 8 * lane + bit)
    run(device, store(row=ROW, rows=ROWS).encode(), end)
    assert (device.read(OUTPUT, data.size) == expected).all()


def test_a_flip_in_a_register_is_read_at_once() -> None:
    device = StateDevice(SMALL, dram_bytes=DRAM_BYTES)
    watchdog = find(device, "tpulite.registers", "watchdog")
    for bit in range(watchdog.size):
        device.flip(watchdog, bit)
        assert device.read_register(offset_of("WATCHDOG")) == (2 << bit) - 1


def test_every_component_recovers_from_a_flip() -> None:
    names = sorted(components())
    done = [flip(seed) for seed in range(len(names))]
    assert [each.component for each in done] == names
    counts = Counter(each.fate for each in done)
    assert counts[Fate.MASKED] > len(names) / 2 and len(counts) > 1, counts
    assert Fate.HUNG not in counts, done


@pytest.mark.parametrize(
    ("drawn", "cycles", "module", "name"),
    [
        ("drawn 10", 1000, "mxu.oldest", "level"),
        ("drawn 10", 1000, "mxu.weights", "room_some"),
        ("cnn", 2000, "vpu.places", "level"),
    ],
)
def test_the_watchdog_ends_a_wait_for_what_is_lost(
    drawn: str, cycles: int, module: str, name: str
) -> None:
    """An engine that waits for what never comes is BUSY, and that is no progress."""
    device = StateDevice(SMALL, dram_bytes=NETWORK_DRAM_BYTES, max_cycles=1_000_000)
    network = placed(drawn)
    network.place(device)
    start(device, network.job)
    device.step(cycles)
    device.flip(find(device, f"tpulite.{module}", name), 0)
    device.wait()
    fault = outcome(device).fault
    assert fault is not None and fault.code == Fault.WATCHDOG and not fault.hung
    device.reset()
    network.place(device)
    assert device.run(network.job).fault is None and network.is_right(device)
