"""Vector engine: how many cycles everything takes, and what the engine says it does in them."""

import json
import os
from itertools import pairwise

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from vector_bench import VectorBench
from vector_model import PAIRED, WINDOWED, parameter_parts
from vector_path import VectorPath

from tpulite.arch.config import Config
from tpulite.arch.effects import parameter_rows
from tpulite.arch.isa import VectorOp, operations
from tpulite.arch.registers import EngineState
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

_DIRECT = (VectorOp.COPY, VectorOp.MAX)
_IN_TURNS = (VectorOp.ADD, VectorOp.SUB)  # a slice of A, then that of B
# Cycles from the data of a vector's last read to its write, with a lane for each channel.
_LATENCY = {VectorOp.COPY: 3, VectorOp.MAX: 3, VectorOp.LUT: 5, VectorOp.NORM: 34}
_READ = {False: 2, True: 3}  # cycles from the acceptance of a read to its data
_DIVIDER = 7  # cycles from a sum of NORM to the next
_ARITHMETIC = 15


def config_of_this_run() -> Config:
    return Config.from_dict(json.loads(os.environ["CONFIG"]))


def _slices(operation: VectorOp, config: Config) -> int:
    """Return the cycles that a vector takes in the lanes, or where there are none."""
    assert config.vector_lanes is not None
    if operation in (VectorOp.NORM, VectorOp.SHARE):
        return 4 * config.array_size // config.vector_lanes
    if operation in _DIRECT:
        return 1
    turns = 2 if operation in _IN_TURNS else 1
    return turns * config.array_size // config.vector_lanes


def _straight(bench: VectorBench, operation: VectorOp, **fields: int):
    """Draw a command whose vectors lie one after the other, in lines."""
    shape = {"rows": 4, "columns": 20, "window_rows": 1, "window_columns": 1} | fields
    columns = shape["columns"]
    walk = {f"{name}_pitch": columns for name in ("a", "b", "out")}
    walk |= {f"{name}_step": 1 for name in ("a", "b", "out")}
    return bench.draw(operation, **(walk | shape))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=list(VectorOp))
async def a_vector_a_cycle(dut, operation: VectorOp) -> None:
    """Or every N / lanes or 2 N / lanes cycles; the overhead of a command is small and known."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    slices = _slices(operation, config)
    between = max(slices, _DIVIDER) if operation == VectorOp.NORM else slices
    bench = VectorBench(dut, config)
    await reset(dut)
    bench.send(_straight(bench, operation))
    await bench.finished()
    assert bench.buffer == bench.expected
    cycles = bench.cycles
    parts = parameter_parts(operation, config)
    parameters = sum(-(-size // config.row_bytes) for _, size in parts)
    assert cycles["a"][0] == cycles["take"][0] + 2
    assert cycles["a"][parameters] == cycles["a"][0] + parameters, "no gap before the operands"
    assert all(b - a == between for a, b in pairwise(cycles["write"]))
    assert len(cycles["write"]) == 80
    latency = _READ[config.ram_registers] + _LATENCY.get(operation, _ARITHMETIC) + slices - 1
    assert cycles["write"][0] == cycles["a"][parameters] + latency
    assert cycles["give"][0] == cycles["write"][-1] + 1
    if operation in PAIRED:
        assert cycles["b"][0] == cycles["a"][parameters]
        assert len(cycles["b"]) == 80


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=WINDOWED, window=[(8, 8), (3, 3), (1, 2), (40, 1)])
async def a_window_takes_a_cycle_a_vector(dut, operation: VectorOp, window) -> None:
    """Unless the lanes need longer for its sum."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    rows, columns = window
    slices = _slices(operation, config)
    bench = VectorBench(dut, config)
    await reset(dut)
    bench.send(
        _straight(
            bench,
            operation,
            rows=2,
            columns=5,
            window_rows=rows,
            window_columns=columns,
            window_pitch=10,
        )
    )
    await bench.finished()
    assert bench.buffer == bench.expected
    period = max(rows * columns, slices)
    if operation == VectorOp.NORM:
        period = max(rows * columns * slices, _DIVIDER)
    assert all(b - a == period for a, b in pairwise(bench.cycles["write"]))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=[VectorOp.MUL, VectorOp.ADD])
async def sums_of_the_matrix_unit_come_first(dut, operation: VectorOp) -> None:
    """As long as they come, the lanes stand still; then it goes on as before."""
    config = config_of_this_run()
    bench = VectorBench(dut, config)
    await reset(dut)
    bench.send(_straight(bench, operation))
    while len(bench.cycles["write"]) < 20:
        await ClockCycles(dut.clk, 1)
    before = max(b - a for a, b in pairwise(bench.cycles["write"]))
    dut.drains.value = 1
    await ClockCycles(dut.clk, 100)
    dut.drains.value = 0
    await bench.finished()
    assert bench.buffer == bench.expected
    gaps = [b - a for a, b in pairwise(bench.cycles["write"]) if b - a != before]
    # The turn of A wants no lane of the requantizer: the first of the 100 cycles may be its.
    assert gaps == [before + 100] or (operation in _IN_TURNS and gaps == [before + 99])


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=_IN_TURNS)
async def turns_of_a_leave_the_lanes_to_others(dut, operation: VectorOp) -> None:
    """Sums of others that come every other cycle hardly cost any, once they take turns with B."""
    bench = VectorBench(dut, config_of_this_run())
    await reset(dut)
    bench.send(_straight(bench, operation))
    while len(bench.cycles["write"]) < 20:
        await ClockCycles(dut.clk, 1)
    for number in range(100):
        dut.drains.value = number % 2
        await ClockCycles(dut.clk, 1)
    dut.drains.value = 0
    await bench.finished()
    assert bench.buffer == bench.expected
    gaps = [b - a for a, b in pairwise(bench.cycles["write"])]
    assert sum(gaps) <= len(gaps) * min(gaps) + 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=list(VectorOp))
async def a_vector_inside_is_work(dut, operation: VectorOp) -> None:
    """Busy from its last read to its write, though the buffer refuses the next one's."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    bench = VectorBench(dut, config)
    read = bench.reads[0]
    read.stall(1)
    await reset(dut)
    bench.send(_straight(bench, operation, rows=1, columns=2))
    for left in reversed(range(parameter_rows(operation, config) + 1)):
        await ClockCycles(dut.clk, 3 if left else 20)  # until B is read, too
        read.stall(0)
        await ClockCycles(dut.clk, 1)
        read.stall(1)
    await ClockCycles(dut.clk, 100)
    begin, (end,) = bench.cycles["a"][-1], bench.cycles["write"]
    assert {bench.states[cycle] for cycle in range(begin + 1, end + 1)} == {EngineState.BUSY}
    assert bench.states[end + 2] == EngineState.BUFFER
    read.stall(0)
    await bench.finished()
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def commands_follow_without_delay(dut) -> None:
    """The next command's tokens are taken in the cycle after the last one's were given."""
    bench = VectorBench(dut, config_of_this_run())
    await reset(dut)
    for operation in operations(bench.config):
        bench.send(_straight(bench, operation, rows=1, columns=1))
    await bench.finished()
    assert bench.buffer == bench.expected
    for give, take in zip(bench.cycles["give"], bench.cycles["take"][1:], strict=False):
        assert take == give + 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_port_that_is_refused_does_not_hold_the_other(dut) -> None:
    """A refusal of one port at the start costs its cycles once: the ports go apart by them."""
    bench = VectorBench(dut, config_of_this_run())
    bench.reads[1].stall(1)
    await reset(dut)
    bench.send(_straight(bench, VectorOp.ADD))
    await ClockCycles(dut.clk, 40)
    ahead = len([row for what, row in bench.events if what == "a"])
    assert ahead > 4 and not bench.cycles["b"], "A is read while B is refused"
    bench.reads[1].stall(0)
    await bench.finished()
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def states_say_what_happens(dut) -> None:
    """Idle, waiting for tokens, refused by the buffer; the bench looks at the index."""
    bench = VectorBench(dut, config_of_this_run())
    bench.takes.stall(1)
    await reset(dut)

    async def state_after(cycles: int) -> EngineState:
        await ClockCycles(dut.clk, cycles)
        return EngineState(int(dut.engine__state.value))

    assert await state_after(3) == EngineState.IDLE
    bench.send(_straight(bench, VectorOp.ADD, rows=20))
    assert await state_after(5) == EngineState.TOKEN
    assert dut.engine__idle.value
    bench.takes.stall(0)
    assert await state_after(6) == EngineState.BUSY
    assert not dut.engine__idle.value
    for sink in bench.reads:
        sink.stall(1)
        assert await state_after(160) == EngineState.BUFFER and dut.conflict.value
        sink.stall(0)
        assert await state_after(3) == EngineState.BUSY and not dut.conflict.value
    bench.writes.stall(1)
    assert await state_after(300) == EngineState.BUFFER and dut.conflict.value
    bench.writes.stall(0)
    bench.gives.stall(1)
    while len(bench.cycles["write"]) < 400:
        await ClockCycles(dut.clk, 1)
    assert await state_after(5) == EngineState.BUSY, "waiting to give"
    assert not dut.engine__idle.value
    bench.gives.stall(0)
    assert await state_after(5) == EngineState.IDLE
    assert bench.buffer == bench.expected


@pytest.mark.parametrize(
    ("n", "lanes"),
    [
        (4, 4),
        (8, 1),
        *breadth("other ratios of lanes to columns than all and one", (16, 16), (16, 4)),
    ],
)
def test_vector_cycles(n: int, lanes: int) -> None:
    config = Config(array_size=n, vector_lanes=lanes, ram_registers=n == 8)
    simulate(
        VectorPath(config),
        __file__,
        name=f"vector_cycles_{n}_{lanes}",
        extra_env={"CONFIG": json.dumps(config.as_dict())},
    )
