"""Window reducer: maxima and sums of windows of any size, the largest one too."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import VECTOR, VectorOp, operations
from tpulite.arch.numerics import INT8
from tpulite_rtl.vpu.window_reducer import SUM_BITS, WindowReducer, operand_pair, reduced_pair
from tpulite_tb.bits import pack, pack_lanes, unpack, unpack_lanes
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.scoreboard import Scoreboard
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink
from tpulite_testing.regress import breadth

CONFIG = Config(array_size=int(os.environ.get("ARRAY_SIZE", "4")), softmax=True)
_REDUCING = (VectorOp.MAX, VectorOp.SUM, VectorOp.NORM)
_LARGEST = {field.name: field.range[-1] for field in VECTOR.fields}


def _result(operation: VectorOp, window: list[list[int]], b: list[int]) -> int:
    reduce = sum if operation == VectorOp.SUM else max
    a = [reduce(channel) for channel in zip(*window, strict=True)]
    values = {"a": pack_lanes(a, SUM_BITS), "b": pack_lanes(b, 8), "ends": int(CONFIG.has_softmax)}
    return pack(reduced_pair(CONFIG), values)


def _vector(values: range = INT8) -> list[int]:
    ends = (values[0], values[-1])
    return [random.choice([random.choice(values), *ends]) for _ in range(CONFIG.array_size)]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(
    operation=[VectorOp.COPY, VectorOp.MAX, VectorOp.SUM], idle=[0.0, 0.4], stall=[0.0, 0.4]
)
async def reduces_windows(dut, operation: VectorOp, idle: float, stall: float) -> None:
    """Windows of one vector and of many, some of which differ by one, one after the other.

    As COPY does, every operation that neither adds nor takes the maximum has windows of one.
    """
    driver = StreamDriver(dut, "i", idle=idle)
    StreamSink(dut, "o", stall=stall)
    dut.operation.value, dut.tail.value = operation, 0
    tail, others = 0, [op for op in operations(CONFIG) if op not in _REDUCING]
    await reset(dut)
    scoreboard = Scoreboard(dut, StreamMonitor(dut, "o"))
    for number in range(repeats(60)):
        if number % 4 == 3:
            while scoreboard.matched < number:
                await RisingEdge(dut.clk)
            tail = random.randrange(CONFIG.array_size) if CONFIG.has_softmax else 0
            dut.tail.value = tail
            if operation == VectorOp.COPY:
                dut.operation.value = random.choice(others)
            await RisingEdge(dut.clk)
        size = 1 if operation == VectorOp.COPY else random.choice([1, 1, 2, 4, 9])
        near = random.randrange(len(INT8) - 1)
        values = random.choice([INT8, INT8[near : near + 2]])
        window, b = [_vector(values) for _ in range(size)], _vector()
        for index, a in enumerate(window):
            last = index == size - 1
            values = {"a": pack_lanes(a, 8), "first": index == 0, "last": last}
            other = pack_lanes(b if last else _vector(), 8)
            driver.append(pack(operand_pair(CONFIG), values | {"b": other}))
        if operation == VectorOp.MAX and tail:
            window[-1] = window[-1][:tail] + [INT8[0]] * (CONFIG.array_size - tail)
        scoreboard.expect(_result(operation, window, b))
    await scoreboard.drained()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(byte=[INT8[0], INT8[-1]])
async def the_largest_sum_fits(dut, byte: int) -> None:
    """As many vectors as a window can have, a cycle each."""
    size = _LARGEST["window_rows"] * _LARGEST["window_columns"]
    edge = RisingEdge(dut.clk)
    dut.operation.value = VectorOp.SUM
    dut.tail.value = 0
    dut.i__valid.value = 0
    dut.o__ready.value = 1
    await reset(dut)
    vector = [byte] * CONFIG.array_size
    values = {"a": pack_lanes(vector, 8), "b": 0}
    dut.i__valid.value = 1
    for index in range(size):
        if index in (0, 1, size - 1):
            marks = {"first": index == 0, "last": index == size - 1}
            dut.i__payload.value = pack(operand_pair(CONFIG), values | marks)
        await edge
    dut.i__valid.value = 0
    await edge
    assert dut.o__valid.value
    sums = unpack(reduced_pair(CONFIG), int(dut.o__payload.value))["a"]
    assert unpack_lanes(sums, SUM_BITS, CONFIG.array_size) == [byte * size] * CONFIG.array_size


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def norm_passes_vectors(dut, idle: float, stall: float) -> None:
    """Each of a window as it is, with what came beside the first; the last one says so."""
    if not CONFIG.has_softmax:
        return
    driver = StreamDriver(dut, "i", idle=idle)
    StreamSink(dut, "o", stall=stall)
    dut.operation.value, dut.tail.value = VectorOp.NORM, 2
    await reset(dut)
    scoreboard = Scoreboard(dut, StreamMonitor(dut, "o"))
    for _ in range(repeats(60)):
        size, b = random.choice([1, 1, 2, 4, 9]), _vector()
        for index in range(size):
            a, last = _vector(), index == size - 1
            values = {"a": pack_lanes(a, 8), "first": index == 0, "last": last}
            other = pack_lanes(b if index == 0 else _vector(), 8)
            driver.append(pack(operand_pair(CONFIG), values | {"b": other}))
            result = {"a": pack_lanes(a, SUM_BITS), "b": pack_lanes(b, 8), "ends": last}
            scoreboard.expect(pack(reduced_pair(CONFIG), result))
    await scoreboard.drained()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_window_goes_on_while_a_result_waits(dut) -> None:
    """All but its last vector are taken in each cycle; that one waits, and is not lost."""
    dut.operation.value, dut.tail.value = VectorOp.MAX, 0
    dut.i__valid.value, dut.o__ready.value = 1, 0
    edge = RisingEdge(dut.clk)
    await reset(dut)
    for first, last, ready in ((1, 1, 1), (1, 0, 1), (0, 0, 1), (0, 0, 1), (0, 1, 0), (0, 1, 0)):
        vector = {"a": 0, "b": 0, "first": first, "last": last}
        dut.i__payload.value = pack(operand_pair(CONFIG), vector)
        await edge
        assert dut.i__ready.value == ready
    dut.o__ready.value = 1
    await edge
    assert dut.i__ready.value == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_forgets_a_result(dut) -> None:
    """A vector that comes in reset does not come out, nor one that waits to leave."""
    dut.operation.value, dut.tail.value = VectorOp.COPY, 0
    dut.i__payload.value = pack(operand_pair(CONFIG), {"a": 0, "b": 0, "first": 1, "last": 1})
    dut.i__valid.value, dut.o__ready.value = 1, 0
    edge = RisingEdge(dut.clk)
    await reset(dut)
    for _run in range(2):
        dut.i__valid.value = 0
        for _ in range(3):
            await edge
            assert not dut.o__valid.value
        dut.i__valid.value = 1
        for _ in range(3):
            await edge
        assert dut.o__valid.value
        dut.rst.value = 1
        await edge
        dut.rst.value = 0


@pytest.mark.parametrize(
    "array_size", [8, 4, *breadth("more channels of the same kind", 16)]
)  # 8 is the smallest that has softmax
def test_window_reducer(array_size: int) -> None:
    simulate(
        WindowReducer(Config(array_size=array_size, softmax=True)),
        __file__,
        name=f"window_reducer_{array_size}",
        extra_env={"ARRAY_SIZE": str(array_size)},
    )
