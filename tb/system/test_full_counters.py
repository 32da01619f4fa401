"""A token counter that is full: completions wait, and no token is lost."""

import pytest

from tpulite.arch.isa import Engine, VectorOp
from tpulite.arch.layouts import TOKEN_MAX
from tpulite.arch.memory import MemoryTiming
from tpulite.runtime.device import Job
from tpulite_tb.fault_cases import DRAM_BYTES, END, PROGRAM, WINDOWS, conv, load, store, vector
from tpulite_tb.machines import SMALL
from tpulite_verilated.rtl_device import RtlDevice

MAKE = {Engine.LOAD: load, Engine.STORE: store, Engine.MXU: conv, Engine.VPU: vector}
LONG = {
    Engine.LOAD: load(lines=60, rows=1),
    Engine.STORE: store(lines=60, rows=1),
    Engine.MXU: conv(m=SMALL.acc_rows, k_tiles=SMALL.ub_rows // SMALL.array_size),
    Engine.VPU: vector(VectorOp.MAX, rows=8, columns=8, window_rows=8, window_columns=8),
}
"""Commands of thousands of cycles, for LOAD and STORE if DRAM is slow."""
FAST, SLOW = 2, 200
WAIT = 250
"""Fewer cycles than the completion waits, more than such a command takes."""
MORE = 3
"""Tokens for which there is no room, of commands that fit into a queue."""


@pytest.mark.parametrize("source", Engine)
@pytest.mark.parametrize("target", Engine)
def test_completions_wait_for_room(source: Engine, target: Engine) -> None:
    """The target is at a long command while the source gives tokens; then it takes them all."""
    if source == target:
        pytest.skip("an engine gives no tokens to itself")
    tokens = TOKEN_MAX + MORE
    commands = (
        LONG[target],
        *(MAKE[source](signal=1 << target) for _ in range(tokens)),
        *(MAKE[target](wait=1 << source) for _ in range(tokens)),
        END,
    )
    timing = MemoryTiming(*(SLOW if target == x else FAST for x in (Engine.LOAD, Engine.STORE)))
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES, timing=timing, trace=True)
    device.write(PROGRAM, b"".join(command.encode() for command in commands))
    result = device.run(Job(PROGRAM, len(commands), WINDOWS, watchdog=5_000))
    assert result.fault is None
    gives, takes = device.traces[source], device.traces[target]
    assert takes.index.tolist() == [0, *range(1 + tokens, 1 + 2 * tokens)]
    assert max(gives.stop - gives.start) > WAIT
