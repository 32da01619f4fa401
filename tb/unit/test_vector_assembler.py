"""The vector assembler against a window in Python."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.timing import row_read
from tpulite_rtl.mxu.delay_lines import DELAY
from tpulite_rtl.mxu.systolic_array import early_layout, vector_layout
from tpulite_rtl.mxu.vector_assembler import VectorAssembler, issued_layout
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import thinned

CONFIGS = {n: Config(array_size=n, ram_registers=n == 8) for n in (4, 8, 16, 32)}


def _slot(n: int) -> dict[str, int]:
    enters = random.random() < 0.6
    return {
        "read": enters and random.random() < 0.6,
        "enters": enters,
        "emits": random.randrange(2),
        "first": random.randrange(2),
        "depthwise": random.randrange(2),
        "dense": random.randrange(2),
        "shift": random.randrange(n),
        "pad": random.randrange(-128, 128),
        "delay": random.choice(DELAY) if n >= 16 else 0,
        "wide": random.randrange(2) if n >= 16 else 0,
        "pair": random.randrange(2) if n >= 16 else 0,
        "odd_read": random.randrange(2) if n >= 16 else 0,
    }


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(bubble=[0.0, 0.5])
async def assembles_vectors(dut, bubble: float) -> None:
    """Rows, padding, and windows cut at any byte; bubbles move nothing."""
    n = len(dut.row) // 8
    config = CONFIGS[n]
    dut.i__valid.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    await edge
    latency = row_read(config) + 1
    rows: deque[tuple[bytes, bytes]] = deque([(bytes(n), bytes(n))] * row_read(config))
    due: deque[tuple[dict[str, int], bytes | None, bytes] | None] = deque([None] * latency)
    older, newest = bytes(n), bytes(n)
    entered = checked = 0
    for _ in range(1000):
        slot = None if random.random() < bubble else _slot(n)
        row, odd_row = random.randbytes(n), random.randbytes(n)
        dut.i__valid.value = slot is not None
        dut.i__payload.value = pack(issued_layout(config), slot or _slot(n))
        read, read_odd = rows.popleft()
        dut.row.value = int.from_bytes(read, "little")
        if config.has_delay_lines:
            dut.odd_row.value = int.from_bytes(read_odd, "little")
        rows.append((row, odd_row))
        expected = None
        if slot is not None:
            padding = bytes([slot["pad"] & 0xFF]) * n
            vector = row if slot["read"] else padding
            odd = odd_row if slot["odd_read"] else padding
            if slot["enters"]:
                older, newest = newest, vector
                entered += 1
            if slot["dense"]:  # until two vectors have entered, the window holds anything
                cut = (older + newest)[slot["shift"] :][:n]
                expected = (slot, cut if entered >= 2 else None, odd)
            else:
                expected = (slot, vector if slot["enters"] else None, odd)
        due.append(expected)
        await edge
        wanted = due.popleft()
        first = vector_layout(config)["first"].offset
        assert dut.o__payload.value[first] == (wanted is not None and wanted[0]["first"])
        assert dut.o__valid.value == (wanted is not None and wanted[0]["emits"])
        if due[0] is not None and config.has_delay_lines:
            coming, vector, _ = due[0]
            early = unpack(early_layout(config), int(dut.early.value))
            assert early["delay"] == coming["delay"]
            assert early["wide"] == coming["wide"]
            assert coming["dense"] or vector is None or early["activation"] == vector[0]
        if wanted is None:
            continue
        slot, vector, odd = wanted
        payload, layout = dut.o__payload.value, vector_layout(config)
        if config.has_delay_lines:
            start = layout["delay"].offset  # of activations, nothing may be known yet
            above = int(payload[len(payload) - 1 : start])
            assert above % len(DELAY) == slot["delay"]
            assert above >> (layout["wide"].offset - start) & 1 == slot["wide"]
            assert above >> (layout["pair"].offset - start) & 1 == slot["pair"]
            assert (above >> (layout["odd"].offset - start)).to_bytes(n, "little") == odd
        assert payload[layout["depthwise"].offset] == slot["depthwise"]
        if vector is not None:
            assert unpack(layout, int(payload))["activations"].to_bytes(n, "little") == vector
            checked += 1
    assert checked > 200


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_forgets_what_is_inside(dut) -> None:
    """Vectors that come in reset, or in the cycles before, do not come out."""
    n = len(dut.row) // 8
    slot = _slot(n) | {"emits": 1, "first": 1}
    dut.i__payload.value = pack(issued_layout(CONFIGS[n]), slot)
    dut.i__valid.value, dut.row.value = 1, 0
    first = vector_layout(CONFIGS[n])["first"].offset
    await reset(dut)
    edge = RisingEdge(dut.clk)
    for _run in range(2):
        dut.i__valid.value = 0
        for _ in range(row_read(CONFIGS[n]) + 3):
            await edge
            assert not dut.o__valid.value and not dut.o__payload.value[first]
        dut.i__valid.value = 1
        for _ in range(row_read(CONFIGS[n]) + 3):
            await edge
        assert dut.o__valid.value and dut.o__payload.value[first]
        dut.rst.value = 1
        await edge
        dut.rst.value = 0


@pytest.mark.parametrize(
    "n", thinned(CONFIGS, 16, 4, 8, reason="larger arrays only repeat columns")
)
def test_vector_assembler(n: int) -> None:
    simulate(VectorAssembler(CONFIGS[n]), __file__, name=f"vector_assembler_{n}")
