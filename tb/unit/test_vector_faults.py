"""Vector engine: rows outside the buffer, records that the machine lacks, and the end of work."""

import json
import os
import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from vector_bench import VectorBench
from vector_model import PAIRED, REQUANTIZED, SCALED, WINDOWED, parameter_parts
from vector_path import VectorPath

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD, WORDS_BYTES, VectorOp, operations
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

LAST = int(os.environ.get("UB_ROWS", "16384")) - 1
"""Last row of the buffer."""

_CODES = next(field.range for field in RECORD.fields if field.name == "rounding")
# 2 x 3 outputs with everything in the buffer; each case leads out of it somewhere.
_LEGAL = {
    "rows": 2,
    "columns": 3,
    "a_row": 100,
    "a_pitch": 10,
    "a_step": 1,
    "window_rows": 2,
    "window_columns": 2,
    "window_pitch": 3,
    "b_row": 300,
    "b_pitch": 10,
    "b_step": 1,
    "out_row": 3000,
    "out_pitch": 10,
    "out_step": 1,
}
_ANY = list(VectorOp)
_SINGLE = [op for op in _ANY if op not in WINDOWED]
_PAIRS = [op for op in PAIRED if op not in WINDOWED]


def config_of_this_run() -> Config:
    return Config.from_dict(json.loads(os.environ["CONFIG"]))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    case=[
        # Operations, fields, and the fault's address.
        (_ANY, {"out_row": LAST, "a_row": LAST, "a_step": 5}, LAST + 1),
        (_ANY, {"out_row": LAST - 1, "out_step": 3, "a_row": LAST - 9, "a_step": 0}, LAST + 2),
        (_ANY, {"out_row": LAST - 2, "out_pitch": LAST}, 2 * LAST - 2),
        (_ANY, {"out_row": LAST - 2, "out_step": LAST}, 2 * LAST - 2),
        (_SINGLE, {"a_row": LAST, "a_step": LAST}, 2 * LAST),
        (_SINGLE, {"a_row": LAST - 11}, LAST + 1),
        (_PAIRS, {"a_row": LAST - 1, "a_step": 2, "b_row": LAST - 2, "b_step": 4}, LAST + 1),
        (PAIRED, {"b_row": LAST - 1, "out_row": LAST - 10}, LAST + 1),
        (PAIRED, {"b_row": LAST - 10, "b_pitch": LAST}, 2 * LAST - 10),
        (PAIRED, {"b_row": LAST - 10, "b_step": LAST}, 2 * LAST - 10),
        (WINDOWED, {"a_row": LAST}, LAST + 1),
        (WINDOWED, {"a_row": LAST - 1}, LAST + 2),
        (WINDOWED, {"a_row": LAST - 6, "window_pitch": LAST}, 2 * LAST - 6),
        (WINDOWED, {"a_row": LAST - 3, "window_rows": 1, "window_columns": 3}, LAST + 1),
    ]
)
async def row_outside_the_buffer_is_a_fault(dut, case) -> None:
    """After all work before it: of each vector its output first, then A, then B."""
    some, fields, address = case
    config = config_of_this_run()
    bench = VectorBench(dut, config, stall=0.2)
    await reset(dut)
    before = bench.draw(random.choice(operations(config)))
    bench.send(before)
    operation = random.choice([op for op in some if op in operations(config)])
    outcome = bench.send(bench.draw(operation).replace(**(_LEGAL | fields)))
    assert outcome.fault == (Fault.BUFFER, address), "what the model says of the case"
    bench.send(bench.draw(VectorOp.COPY), starts=False)
    await bench.failed()
    assert bench.fault == (Fault.BUFFER, 1, address)
    # All output vectors before it are there, and nothing else.
    assert bench.buffer == bench.expected
    assert [mask for what, mask in bench.events if what == "give"] == [before["signal"]]
    assert len(bench.cycles["take"]) == 2
    assert not dut.engine__idle.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=[op for op in VectorOp if op not in (VectorOp.COPY, VectorOp.MAX)])
async def parameters_outside_the_buffer_are_the_first_fault(dut, operation: VectorOp) -> None:
    """Not even those of its rows that lie inside are read."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    bench = VectorBench(dut, config, stall=0.2)
    await reset(dut)
    command = bench.draw(operation)
    rows = sum(-(-size // config.row_bytes) for _, size in parameter_parts(operation, config))
    command = command.replace(param_row=LAST + 2 - rows, a_row=LAST, out_row=LAST, out_step=1)
    assert bench.send(command).fault == (Fault.BUFFER, LAST + 1)
    await bench.failed()
    assert bench.fault == (Fault.BUFFER, 0, LAST + 1)
    assert bench.events == [("take", command["wait"])]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def unused_parameters_may_lie_anywhere(dut) -> None:
    """COPY and MAX have none; the last rows of the buffer are as good as any."""
    config = config_of_this_run()
    bench = VectorBench(dut, config)
    await reset(dut)
    for operation in (VectorOp.COPY, VectorOp.MAX):
        bench.send(bench.draw(operation).replace(param_row=LAST))
    ends = {"rows": 1, "columns": 2, "a_pitch": LAST, "b_pitch": LAST, "out_pitch": LAST}
    last = {"a_row": LAST - 1, "b_row": LAST - 1, "out_row": LAST - 1}
    steps = {"a_step": 1, "b_step": 1, "out_step": 1, "window_rows": 1, "window_columns": 1}
    for operation in operations(config):
        bench.send(bench.draw(operation).replace(**ends, **last, **steps))
    await bench.finished()
    assert bench.fault is None and bench.buffer == bench.expected


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    operation=list(REQUANTIZED),
    stall=[0.0, 0.4],
)
async def unknown_rounding_is_a_fault(dut, operation: VectorOp, stall: float) -> None:
    """Before any row that lies outside the buffer, and before anything is written."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    known = [Rounding[name.upper()] for name in config.roundings]
    bench = VectorBench(dut, config, stall=stall)
    await reset(dut)
    bench.send(bench.draw(VectorOp.LUT))
    command = bench.draw(operation, rows=1, columns=20, out_step=1, a_step=1)
    # The code in the last record, past what is packed with a legal one.
    code = random.choice(sorted(set(_CODES) - set(known)))
    size = 16 * config.array_size if operation == VectorOp.AFFINE else 16
    first = command["param_row"]
    if operation in SCALED:
        first += -(-16 // config.row_bytes)
    elif operation == VectorOp.SHARE:
        first += WORDS_BYTES // config.row_bytes
    rows = -(-size // config.row_bytes)
    data = bytearray(b"".join(bench.buffer[first + i] for i in range(rows)))
    bit = RECORD.offsets()["rounding"]
    byte = size - 16 + bit // 8
    place = int.from_bytes(data[byte : byte + 2], "little")
    place = (place & ~(_CODES[-1] << bit % 8)) | code << bit % 8
    data[byte : byte + 2] = place.to_bytes(2, "little")
    for memory in (bench.buffer, bench.expected):
        for i in range(rows):
            memory[first + i] = bytes(data[i * config.row_bytes : (i + 1) * config.row_bytes])
    if random.random() < 0.5:
        command = command.replace(a_row=LAST, out_row=LAST)
    outcome = bench.send(command)
    assert outcome.fault == (Fault.RECORD, first + byte // config.row_bytes)
    await bench.failed()
    assert bench.fault == (Fault.RECORD, 1, first + byte // config.row_bytes)
    assert bench.buffer == bench.expected
    assert len(bench.cycles["give"]) == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(operation=list(VectorOp))
async def stop_ends_the_reads(dut, operation: VectorOp) -> None:
    """What was read is written; no token moves and no command starts."""
    config = config_of_this_run()
    if operation not in operations(config):
        return
    bench = VectorBench(dut, config)
    await reset(dut)
    fields = {"rows": 1, "columns": 400, "window_rows": 1, "window_columns": 1}
    places = {"a_row": 0, "a_step": 1, "b_row": 1000, "b_step": 1, "out_row": 3000, "out_step": 1}
    bench.send(bench.draw(operation).replace(**fields, **places))
    bench.send(bench.draw(operation), starts=False)
    while len(bench.cycles["write"]) < 50:
        await RisingEdge(dut.clk)
    dut.engine__stop.value = 1
    await ClockCycles(dut.clk, 2)
    read = len(bench.cycles["a"])
    await bench.ended(read)
    reads = [row for what, row in bench.events if what == "a" and row < 400]
    assert len(bench.cycles["a"]) <= read + 4
    assert len(bench.cycles["write"]) == len(reads) < 400
    assert len(bench.cycles["take"]) == 1 and not bench.cycles["give"]
    written = range(3000, 3000 + len(reads))
    assert all(bench.buffer[row] == bench.expected[row] for row in written)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def stop_starts_nothing(dut) -> None:
    """A command that comes to an idle engine after the stop waits for ever."""
    bench = VectorBench(dut, config_of_this_run())
    await reset(dut)
    dut.engine__stop.value = 1
    bench.send(bench.draw(VectorOp.COPY), starts=False)
    await ClockCycles(dut.clk, 50)
    assert not bench.events and dut.engine__idle.value
    assert bench.buffer == bench.expected


@pytest.mark.parametrize(
    ("n", "rows", "roundings"),
    [
        (8, 16384, ("tflite", "ruy")),  # the engine's own bench has the same machine
        *breadth(
            "the checks are of fields and rows, not of columns",
            (4, 16384, ("tflite", "ruy", "single", "float32", "away")),
            (16, 8192, ("ruy",)),
            (32, 8192, ("tflite", "away")),
        ),
    ],
)
def test_vector_faults(n: int, rows: int, roundings: tuple[str, ...]) -> None:
    machine = {"ub_rows": rows, "vector_lanes": 4, "softmax": n == 8}
    config = Config(array_size=n, roundings=roundings, **machine)
    simulate(
        VectorPath(config),
        __file__,
        name=f"vector_faults_{n}",
        extra_env={"CONFIG": json.dumps(config.as_dict()), "UB_ROWS": str(rows)},
    )
