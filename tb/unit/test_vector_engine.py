"""Vector engine against plain Python: every operation, bit for bit, and its tokens."""

import json
import os
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from vector_bench import VectorBench
from vector_path import VectorPath

from tpulite.arch.config import Config
from tpulite.arch.effects import parameter_rows
from tpulite.arch.isa import VECTOR, VectorOp, operations
from tpulite.arch.numerics import Rounding
from tpulite.arch.timing import operand_rows
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

_ALL = tuple(rounding.name.lower() for rounding in Rounding)

_EFFORT = int(os.environ.get("EFFORT", "1"))
"""Multiplies the commands of a run."""

_SLOW = ("nothing", "reads", "writes", "lanes")
"""What may refuse often."""


def config_of_this_run() -> Config:
    return Config.from_dict(json.loads(os.environ["CONFIG"]))


async def _drain(dut) -> None:
    """Let others use the requantizer for some cycles, and then not."""
    while True:
        for drains in (1, 0):
            dut.drains.value = drains
            for _ in range(random.choice([1, 1, 2, 20])):
                await RisingEdge(dut.clk)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(slow=_SLOW, operation=list(VectorOp))
async def computes_what_numerics_says(dut, slow: str, operation: VectorOp) -> None:
    """Random commands of one operation, in place or not; buffer or requantizer may refuse often."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    if repeats(12) == 1 and slow != _SLOW[operation % len(_SLOW)]:
        return  # on Icarus each operation meets one of them
    bench = VectorBench(dut, config, stall=0.0 if slow == "nothing" else 0.2)
    for sink in {"reads": bench.reads, "writes": [bench.writes]}.get(slow, []):
        sink.stall(0.7)
    await reset(dut)
    if slow == "lanes":
        cocotb.start_soon(_drain(dut))
    for number in range(repeats(8 * _EFFORT)):
        bench.send(bench.draw(operation, in_place=number % 4 == 0))
    bench.send(bench.draw(operation, rows=2, columns=40))  # fills all queues
    await bench.finished()
    assert bench.fault is None
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.3])
async def commands_follow_each_other(dut, stall: float) -> None:
    """All operations in any order: each between its tokens, nothing left from the one before."""
    config = config_of_this_run()
    bench = VectorBench(dut, config, stall=stall)
    await reset(dut)
    known = operations(config) * 2 * _EFFORT
    drawn = random.sample(known, len(known))
    commands = [bench.draw(op, rows=1, columns=random.randint(1, 3)) for op in drawn]
    outcomes = [bench.send(command) for command in commands]
    await bench.finished()
    assert bench.buffer == bench.expected
    assert bench.dut.engine__idle.value and bench.dut.engine__quiet.value
    position = 0
    for command, outcome in zip(commands, outcomes, strict=True):
        size = 2 + len(outcome.reads) + len(outcome.writes)
        events = bench.events[position : position + size]
        position += size
        assert events[0] == ("take", command["wait"])
        assert events[-1] == ("give", command["signal"])
        for name in "ab":
            assert [e for e in events if e[0] == name] == [e for e in outcome.reads if e[0] == name]
        assert [row for what, row in events if what == "write"] == [r for r, _ in outcome.writes]
    assert position == len(bench.events)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(count=["rows", "columns", "window_rows", "window_columns"])
async def counts_have_all_of_their_bits(dut, count: str) -> None:
    """Each bit alone: lines and windows may be long, or many, and begin anew."""
    bench = VectorBench(dut, config_of_this_run())
    await reset(dut)
    single = dict.fromkeys(("rows", "columns", "window_rows", "window_columns"), 1)
    around = {"columns": "rows", "window_rows": "columns", "window_columns": "window_rows"}
    (largest,) = (field.range[-1] for field in VECTOR.fields if field.name == count)
    for bit in reversed(range(largest.bit_length())):  # few rows are not overwritten by many
        extents = single | {around.get(count, count): 2} | {count: 1 << bit}
        walk = {"a_step": 1, "out_step": 1, "window_pitch": extents["window_columns"]}
        walk |= dict.fromkeys(("a_pitch", "out_pitch"), extents["columns"])
        bench.send(bench.draw(VectorOp.MAX, **walk, **extents))
    await bench.finished()
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(way=["step", "pitch"])
async def rows_may_lie_anywhere(dut, way: str) -> None:
    """All bits of rows and distances: two vectors or lines, whose rows are any of the buffer."""
    config = config_of_this_run()
    bench = VectorBench(dut, config)
    await reset(dut)
    extents = {"rows": 1, "columns": 1} | {"columns" if way == "step" else "rows": 2}
    for operation in [VectorOp.COPY, VectorOp.MUL, VectorOp.MAX] * repeats(10):
        window = {"window_rows": 2, "window_columns": 1}
        command = bench.draw(operation, **extents, **window)
        first, size = command["param_row"], parameter_rows(operation, config)
        drawn = random.sample(range(config.ub_rows - size), 6)
        rows = [row + size * (row >= first) for row in drawn]
        for name in ("a", "b", "out"):
            low, high = sorted((rows.pop(), rows.pop()))
            if name == "a" and operation == VectorOp.MAX:
                command = command.replace(a_row=low, window_pitch=high - low, a_step=0, a_pitch=0)
            else:
                places = {f"{name}_row": low, f"{name}_{way}": high - low}
                command = command.replace(**places)
        bench.send(command)
        await bench.finished()
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def parameters_may_end_the_buffer(dut) -> None:
    """The last row of a command's parameters is the last one of the buffer."""
    config = config_of_this_run()
    bench = VectorBench(dut, config)
    await reset(dut)
    for operation in (VectorOp.LUT, VectorOp.MUL, VectorOp.COPY):
        command = bench.draw(operation, rows=1, columns=3)
        size, row = parameter_rows(operation, config), command["param_row"]
        last = config.ub_rows - size
        for memory in (bench.buffer, bench.expected):
            memory.update({last + index: memory[row + index] for index in range(size)})
        bench.send(command.replace(param_row=last) if size else command)
        await bench.finished()  # the next parameters lie in the same rows
    assert bench.fault is None
    assert bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def queues_fill_while_nothing_is_written(dut) -> None:
    """All places between an address and the write port are taken, and nothing is lost."""
    config = config_of_this_run()
    bench = VectorBench(dut, config)
    await reset(dut)
    bench.writes.stall(1)
    bench.send(bench.draw(VectorOp.COPY, rows=2, columns=40))
    await ClockCycles(dut.clk, 200)
    assert not bench.cycles["write"]
    assert len(bench.cycles["a"]) >= 2 * operand_rows(config)
    bench.writes.stall(0)
    await bench.finished()
    assert bench.buffer == bench.expected


@pytest.mark.parametrize(
    ("n", "lanes", "roundings"),
    [
        (8, 4, ("tflite", "ruy")),  # with softmax
        (4, 1, ("tflite",)),
        *breadth(
            "other ratios of lanes to columns than some and one; roundings are those of the lanes",
            (4, 4, _ALL),
            (8, 2, ("single", "away")),
            (16, 16, _ALL),
            (32, 8, ("float32",)),
            (32, 32, ("tflite",)),
        ),
    ],
)
def test_vector_engine(n: int, lanes: int, roundings: tuple[str, ...]) -> None:
    machine = {"softmax": True, "ram_registers": n == 8}
    config = Config(array_size=n, vector_lanes=lanes, roundings=roundings, **machine)
    simulate(
        VectorPath(config),
        __file__,
        name=f"vector_engine_{n}_{lanes}",
        extra_env={"CONFIG": json.dumps(config.as_dict())},
    )
