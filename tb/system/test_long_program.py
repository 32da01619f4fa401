"""A program of nearly all the commands that one may have: their indices have all of their bits."""

import random

import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.memory import MemoryTiming, WindowBinding
from tpulite.arch.registers import Fault
from tpulite.runtime.device import Job
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.fault_cases import END, conv, load, store, vector
from tpulite_tb.machines import SMALL
from tpulite_testing.regress import breadth
from tpulite_verilated.rtl_device import RtlDevice

LENGTH = (1 << INDEX_BITS - 1) + 77
ONE = {"lines": 1, "rows": 1}
OTHER = (store(row=8, **ONE), conv(m=1, act_row=16, weight_row=32), vector(a_row=8, out_row=9))
EVERY = 64
"""Of so many commands one is none of LOAD, which take the fewest cycles."""
WINDOW, PROGRAM = 1 << 12, 1 << 16
"""Where all windows begin, and the program."""


def words(seed: int) -> np.ndarray:
    """Return the program: uint8 of shape (LENGTH, COMMAND_BYTES), whose last word is no command."""
    rng = random.Random(seed)
    drawn = [rng.choice(OTHER) if i % EVERY == 0 else load(row=0, **ONE) for i in range(1 << 12)]
    block = np.frombuffer(b"".join(x.encode() for x in drawn), np.uint8)
    program = np.resize(block, (LENGTH, COMMAND_BYTES))
    program[-1] = 0xFF
    return program


@pytest.mark.parametrize("seed", breadth("minutes: eight million commands", 0))
def test_indices_have_all_of_their_bits(seed: int) -> None:
    device = RtlDevice(
        SMALL, dram_bytes=PROGRAM + LENGTH * COMMAND_BYTES, timing=MemoryTiming(2, 2)
    )
    device.write(PROGRAM, words(seed))
    windows = (WindowBinding(WINDOW, WINDOW, read=True, write=True),) * 4
    result = device.run(Job(PROGRAM, LENGTH, windows))
    assert result.fault is not None
    assert (result.fault.code, result.fault.index) == (Fault.FIELD, LENGTH - 1)
    assert result.counters["cycles"] > LENGTH
    # The next program begins with 0 again, in each engine.
    device.reset()
    short = (*OTHER, load(row=0, **ONE), END)
    device.write(PROGRAM, b"".join(command.encode() for command in short))
    assert device.run(Job(PROGRAM, len(short), windows)).fault is None
