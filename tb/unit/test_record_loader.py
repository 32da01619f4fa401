"""The record loader: right rows, never too early, never late, never more than it has room for."""

import json
import os
import random
from collections import deque
from dataclasses import dataclass, field

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RecordForm
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.arch.timing import row_read
from tpulite.layout.records import pack_records
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.vpu.record_fields import record_row
from tpulite_rtl.vpu.record_loader import BLOCKS, RECORD_COMMAND, RecordLoader
from tpulite_tb.bits import pack, unpack
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver
from tpulite_testing.regress import breadth

_LAST_ROW = (1 << 14) - 1
_ROUNDING_CODES = next(f.range for f in isa.RECORD.fields if f.name == "rounding")


@dataclass(eq=False)
class _Block:
    """The records of one command: where they lie, and what goes out."""

    row: int
    form: RecordForm
    index: int
    rows: list[int]
    foreign: set[int]  # rows with a rounding that the machine lacks
    arrived: list[int] = field(default_factory=list)  # cycle of each response
    delivered: list[int] = field(default_factory=list)  # cycle of each row that went out


def _draw_block(config: Config, form: RecordForm, index: int, bad: float) -> _Block:
    channels = config.array_size
    known = [int(Rounding[name.upper()]) for name in config.roundings]

    def record() -> dict[str, int]:
        values = {f.name: random.choice(f.range) for f in isa.RECORD.fields}
        return values | {"rounding": 0}  # until the record has been packed

    if form == RecordForm.FULL:
        records = [record() for _ in range(channels)]
        holders = [RECORD_BYTES * channel for channel in range(channels)]
    else:
        common = record()
        records = [common | {"bias": random.getrandbits(31)} for _ in range(channels)]
        holders = [0]
    image = pack_records(records, config, form)
    if form == RecordForm.SHORT:
        padding = image.reshape(-1)[RECORD_BYTES : -4 * channels]
        padding[:] = list(random.randbytes(padding.size))
    bit = isa.RECORD.offsets()["rounding"]
    foreign = set()
    for start in holders:
        # Also codes that are no rounding at all.
        code = random.choice(_ROUNDING_CODES if random.random() < bad else known)
        place = image.reshape(-1)[start + bit // 8 : start + bit // 8 + 2].view("<u2")
        place |= code << bit % 8
        if code not in known:
            foreign.add((start + bit // 8) // config.row_bytes)
    return _Block(
        row=random.choice([0, _LAST_ROW - len(image) + 1, random.randrange(_LAST_ROW - 16)]),
        form=form,
        index=index,
        rows=[int.from_bytes(line.tobytes(), "little") for line in image],
        foreign=foreign,
    )


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_forgets_rows(dut) -> None:
    """A FIFO full of rows that nobody wanted is empty, and its first row goes out again."""
    config = Config.from_dict(json.loads(os.environ["CONFIG"]))
    driver = StreamDriver(dut, "command")
    for name in ("claim", "next", "stop", "read__response__valid"):
        getattr(dut, name).value = 0
    dut.read__request__ready.value = 1
    await reset(dut)
    command = pack(RECORD_COMMAND, {"record_form": RecordForm.FULL})
    for rows in (config.record_rows, config.record_rows, 1):
        driver.extend([command] * 3)
        delivered = asked = 0
        answers = deque([False] * row_read(config))
        for _ in range(6 * config.record_rows + 20):
            dut.read__response__valid.value = answers.popleft()
            dut.read__response__payload.value = 0
            await RisingEdge(dut.clk)
            taken = bool(dut.read__request__valid.value) and asked < 3 * rows
            answers.append(taken)
            asked += taken
            delivered += bool(dut.o__valid.value)
            dut.read__request__ready.value = asked < 3 * rows
        assert asked == 3 * rows
        assert delivered == min(asked, config.record_rows)
        driver.cancel()
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        await RisingEdge(dut.clk)
        assert not dut.o__valid.value and not dut.block_ready.value
        assert not dut.read__request__valid.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def asks_for_nothing_after_stop(dut) -> None:
    """A request that waits is withdrawn in the cycle of the stop."""
    driver = StreamDriver(dut, "command")
    for name in ("claim", "next", "stop", "read__request__ready", "read__response__valid"):
        getattr(dut, name).value = 0
    await reset(dut)
    driver.extend([pack(RECORD_COMMAND, {"record_form": RecordForm.FULL})] * 3)
    while not dut.read__request__valid.value:
        await RisingEdge(dut.clk)
    for _ in range(5):
        dut.stop.value = 1
        await RisingEdge(dut.clk)
        assert not dut.read__request__valid.value
    dut.stop.value = 0
    await RisingEdge(dut.clk)
    assert dut.read__request__valid.value, "what had been asked for was forgotten"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.4], hurry=[1.0, 0.3, 0.02], bad=[0.0, 0.2])
async def delivers_rows_in_time(dut, refuse: float, hurry: float, bad: float) -> None:
    """Every output in every cycle, from a consumer in a hurry to one that lets the FIFO fill."""
    config = Config.from_dict(json.loads(os.environ["CONFIG"]))
    forms = [RecordForm.SHORT] if hurry < 0.1 and not bad else list(RecordForm)  # most fit
    blocks = [
        _draw_block(config, random.choice(forms), random.getrandbits(24), bad) for _ in range(30)
    ]
    sequence = [(block, offset) for block in blocks for offset in range(len(block.rows))]
    driver = StreamDriver(dut, "command", idle=random.choice([0.0, 0.3]))
    for name in ("claim", "next", "stop", "read__request__ready", "read__response__valid"):
        getattr(dut, name).value = 0
    await reset(dut)
    driver.extend(
        pack(
            RECORD_COMMAND,
            {"record_row": block.row, "record_form": block.form, "index": block.index},
        )
        for block in blocks
    )

    edge = RisingEdge(dut.clk)
    await edge
    responses: deque[tuple[int, _Block, int]] = deque()
    taken = requested = asked = delivered = claims = 0  # commands: taken, asked for; rows: the rest
    swaps = [-1]  # the shadow registers are free from the start
    fault: tuple[int, int] | None = None
    fullest = idle_cycles = cycle = 0
    while idle_cycles < 20:
        responds = bool(responses) and responses[0][0] == cycle
        _, block, offset = responses.popleft() if responds else (0, blocks[0], 0)
        claim = requested > claims and random.random() < hurry
        in_use = len(swaps) - 1
        swap = (
            in_use < claims
            and len(blocks[in_use].delivered) == len(blocks[in_use].rows)
            and random.random() < hurry
        )
        dut.claim.value = claim
        dut.next.value = swap
        dut.read__request__ready.value = random.random() >= refuse
        dut.read__response__valid.value = responds
        width = len(dut.read__response__payload)
        dut.read__response__payload.value = (
            block.rows[offset] if responds else random.getrandbits(width)
        )
        if swap:
            swaps.append(cycle)
        await edge

        # Requests: whenever there is a command and room.
        valid = bool(dut.read__request__valid.value)
        ready = bool(dut.read__request__ready.value)
        room = asked - delivered < BLOCKS * config.record_rows
        assert valid == (taken > requested and room)
        assert dut.command__ready.value == (taken - requested < 2)
        assert dut.block_ready.value == (requested > claims)
        taken += bool(dut.command__valid.value and dut.command__ready.value)
        if valid and ready:
            wanted, at = sequence[asked]
            assert int(dut.read__request__payload.value) == wanted.row + at
            responses.append((cycle + row_read(config), wanted, at))
            asked += 1
            requested += at == len(wanted.rows) - 1

        # Faults, a cycle after the response.
        claims += claim
        assert dut.fault.value[FAULT["valid"].offset] == (fault is not None), f"cycle {cycle}"
        if fault is not None:
            reported = unpack(FAULT, int(dut.fault.value))
            assert reported["code"] == Fault.RECORD
            assert (reported["index"], reported["address"]) == fault
        fault = None
        if responds:
            block.arrived.append(cycle)
            if offset in block.foreign:
                fault = (block.index, block.row + offset)

        # Rows go out in order, each in the first cycle in which it can.
        expected = False
        if delivered < len(sequence):
            block, offset = sequence[delivered]
            number = blocks.index(block)
            last = sequence[delivered - 1][0].delivered[-1] if delivered else -1
            if offset < len(block.arrived) and number < len(swaps):
                # With a register behind the queue a row is there a cycle later.
                there = block.arrived[offset] + 1 + config.ram_registers
                due = max(there, last + 1, swaps[number])
                assert due >= cycle, f"cycle {cycle}: row {offset} of block {number} is late"
                expected = due == cycle
        assert dut.o__valid.value == expected, f"cycle {cycle}: row {delivered}"
        if expected:
            assert unpack(record_row(config), int(dut.o__payload.value)) == {
                "data": block.rows[offset],
                "index": offset,
                "form": block.form,
            }
            block.delivered.append(cycle)
            delivered += 1
        fullest = max(fullest, asked - delivered)
        idle_cycles = idle_cycles + 1 if delivered == len(sequence) else 0
        cycle += 1
    if hurry < 0.1:
        assert fullest == BLOCKS * config.record_rows


@pytest.mark.parametrize(
    ("n", "roundings", "registers"),
    [
        (4, ("tflite", "float32"), False),
        (16, ("tflite", "ruy", "single", "float32"), False),
        (8, ("single", "away"), True),
        *breadth(
            "sizes and roundings vary how many rows a record has and which it may name",
            (8, ("single",), False),
            (4, ("tflite", "ruy", "single", "float32", "away"), True),
            (16, ("ruy",), False),
            (32, ("ruy", "single", "float32"), True),
        ),
    ],
)
def test_record_loader(n: int, roundings: tuple[str, ...], registers: bool) -> None:
    config = Config(array_size=n, roundings=roundings, ram_registers=registers)
    simulate(
        RecordLoader(config),
        __file__,
        name=f"record_loader_{n}_{'_'.join(roundings)}",
        extra_env={"CONFIG": json.dumps(config.as_dict())},
    )
