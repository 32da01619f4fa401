"""Engines that want the same bank of the unified buffer: each gets its turns."""

from collections.abc import Mapping

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Command, VectorOp
from tpulite.arch.timing import STARVED
from tpulite.runtime.device import Job
from tpulite_tb.fault_cases import (
    DRAM_BYTES,
    END,
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
from tpulite_tb.machines import SMALL
from tpulite_verilated.rtl_device import RtlDevice

VECTORS, TILES = SMALL.acc_rows, 8
STREAM = conv(
    m=VECTORS,
    k_tiles=TILES,
    stride_x=SMALL.ub_banks,
    width=SMALL.ub_banks * (VECTORS - 1) + 1,
    wait=TO_LOAD,
)
"""A CONV all of whose vectors lie in one bank."""


def run(*commands: Command) -> Mapping[str, int]:
    """Run commands and END; return the counters."""
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    program = (*commands, END)
    device.write(PROGRAM, b"".join(command.encode() for command in program))
    result = device.run(Job(PROGRAM, len(program), WINDOWS, watchdog=2_000))
    assert result.fault is None
    return result.counters


def rows_of_one_bank(lines: int) -> Command:
    """Build a STORE of so many of them."""
    return store(rows=1, lines=lines, pitch=SMALL.ub_banks, stride=BEAT_BYTES, wait=TO_LOAD)


def test_a_store_has_its_turns_beside_a_stream() -> None:
    """All vectors and all rows to store lie in one bank; a row waits for STARVED vectors at most.

    There are vectors enough for twice as long. Only depthwise streams need not wait.
    """
    lines = VECTORS * TILES // (2 * STARVED)
    counters = run(load(signal=TO_STORE | TO_MXU), STREAM, rows_of_one_bank(lines))
    assert lines * STARVED // 2 < counters["store_buffer"] <= lines * STARVED


def test_all_engines_want_one_bank() -> None:
    """Vectors, both operands, rows to store, and a row of each weight tile: none waits for ever."""
    banks = SMALL.ub_banks
    lines = SMALL.ub_rows // banks - 1
    counters = run(
        load(signal=TO_STORE | TO_MXU | TO_VPU, rows=SMALL.ub_rows),
        STREAM,
        vector(
            VectorOp.ADD, columns=lines, a_step=banks, b_step=banks, out_step=banks, wait=TO_LOAD
        ),
        rows_of_one_bank(lines),
    )
    waits = [counters[f"{engine}_buffer"] for engine in ("mxu", "vpu", "store")]
    assert min(waits) > STARVED, waits
