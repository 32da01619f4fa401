"""Engines that want the same bank of the unified buffer: each gets its turns."""

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import VectorOp
from tpulite.arch.timing import STARVED
from tpulite.runtime.device import Job
from tpulite_rtl.verilated.rtl_device import RtlDevice
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


def test_a_store_has_its_turns_beside_a_stream() -> None:
    """All vectors and all rows to store lie in one bank; a row waits for STARVED vectors at most.

    There are vectors enough for twice as long. Only depthwise streams need not wait.
    """
    banks, vectors, tiles = SMALL.ub_banks, SMALL.acc_rows, 8
    lines = vectors * tiles // (2 * STARVED)
    commands = (
        load(signal=TO_STORE | TO_MXU),
        conv(
            m=vectors, k_tiles=tiles, stride_x=banks, width=banks * (vectors - 1) + 1, wait=TO_LOAD
        ),
        store(rows=1, lines=lines, pitch=banks, stride=BEAT_BYTES, wait=TO_LOAD),
        END,
    )
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    device.write(PROGRAM, b"".join(command.encode() for command in commands))
    result = device.run(Job(PROGRAM, len(commands), WINDOWS, watchdog=2_000))
    assert result.fault is None
    waited = result.counters["store_buffer"]
    assert lines * STARVED // 2 < waited <= lines * STARVED


def test_all_engines_want_one_bank() -> None:
    """Vectors, both operands, rows to store, and a row of each weight tile: none waits for ever."""
    banks, vectors, tiles = SMALL.ub_banks, SMALL.acc_rows, 8
    lines = SMALL.ub_rows // banks - 1
    in_one_bank = {"columns": lines, "a_step": banks, "b_step": banks, "out_step": banks}
    commands = (
        load(signal=TO_STORE | TO_MXU | TO_VPU, rows=SMALL.ub_rows),
        conv(
            m=vectors, k_tiles=tiles, stride_x=banks, width=banks * (vectors - 1) + 1, wait=TO_LOAD
        ),
        vector(VectorOp.ADD, **in_one_bank, wait=TO_LOAD),
        store(rows=1, lines=lines, pitch=banks, stride=BEAT_BYTES, wait=TO_LOAD),
        END,
    )
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    device.write(PROGRAM, b"".join(command.encode() for command in commands))
    result = device.run(Job(PROGRAM, len(commands), WINDOWS, watchdog=2_000))
    assert result.fault is None
    waits = [result.counters[f"{engine}_buffer"] for engine in ("mxu", "vpu", "store")]
    assert min(waits) > STARVED, waits
