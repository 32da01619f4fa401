"""The requantizer: every bit as the golden arithmetic, every row and completion in its cycle."""

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time
from lane_user import use_lanes

from tpulite.arch import isa
from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Drain, RecordForm
from tpulite.arch.numerics import INT8, INT32, Rounding, requantize, wrap32
from tpulite.arch.timing import REQUANTIZER
from tpulite.layout.records import pack_records
from tpulite_rtl.lib.interfaces import write_layout
from tpulite_rtl.vpu.record_fields import record_row
from tpulite_rtl.vpu.requantizer import Requantizer, requant_input
from tpulite_rtl.vpu.requantizer_lane import STAGES
from tpulite_rtl.vpu.shared_lane import LANE_INPUT
from tpulite_tb.bits import pack, pack_lanes, unpack
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamMonitor
from tpulite_testing.regress import breadth

_ALL = tuple(rounding.name.lower() for rounding in Rounding)

_EFFORT = int(os.environ.get("EFFORT", "1"))
"""Multiplies the commands of a run."""


def _record(rounding: Rounding) -> dict[str, Any]:
    """Draw a channel record from all that may come and all that is likely to."""
    if rounding == Rounding.FLOAT32:
        normal = random.randrange(1 << 23, 1 << 24)
        multipliers = [1 << 23, (1 << 24) - 1, 0, random.getrandbits(31)]
        shift = random.choice([random.randint(-60, -20), random.randrange(-128, 128)])
    else:
        normal = random.randrange(1 << 30, 1 << 31)
        multipliers = [0, 1, 1 << 30, (1 << 31) - 1, random.getrandbits(31)]
        shift = random.choice([random.randint(-31, 30)] * 9 + [random.randrange(-128, 128)])
    bounds = (random.choice(INT8), random.choice(INT8))  # in order or not
    low, high = random.choice([(-128, 127), (0, 127), bounds])
    return {
        "bias": random.choice([0, random.choice([INT32[0], INT32[-1]]), random.choice(INT32)]),
        "multiplier": random.choice([normal] * len(multipliers) * 2 + multipliers),
        "shift": shift,
        "rounding": rounding,
        "zero_point": random.choice([0, -128, 127, random.randrange(-128, 128)]),
        "low": low,
        "high": high,
    }


def _sum(record: dict[str, Any]) -> int:
    """Draw a sum: an extreme one, any one, or one whose result is about to change."""
    if random.random() < 0.1:
        return random.choice([INT32[0], INT32[-1], -1, 0, 1, random.choice(INT32)])
    if random.random() < 0.1 or record["multiplier"] == 0:
        return random.choice(INT32) >> random.randrange(32)
    point = 0 if record["rounding"] == Rounding.FLOAT32 else 31
    # acc * multiplier * 2**(shift - point) lies at, or right beside, a result and a half.
    halves = 2 * random.randint(-300, 300) + 1
    places = point - record["shift"] - 1
    scaled = halves << max(places, 0)
    acc = scaled // (record["multiplier"] << max(-places, 0)) + random.choice([0, 1, 1, 2]) - 1
    return wrap32(min(max(acc, INT32[0]), INT32[-1]) - record["bias"])


def _draw_block(config: Config) -> tuple[RecordForm, list[dict[str, Any]]]:
    roundings = [Rounding[name.upper()] for name in config.roundings]
    form = random.choice(list(RecordForm))
    if form == RecordForm.FULL:
        return form, [_record(random.choice(roundings)) for _ in range(config.array_size)]
    common = _record(random.choice(roundings))
    return form, [common | {"bias": random.choice(INT32)} for _ in range(config.array_size)]


def _record_payloads(config: Config, form: RecordForm, records) -> list[int]:
    """Return the rows of a block as they come, garbage in all bits that nobody should look at."""
    gain = {"gain": random.randrange(-(1 << 15), 1 << 15)}  # ignored
    records = [record | gain for record in records]
    image = int.from_bytes(pack_records(records, config, form).tobytes(), "little")
    common = config.short_record_rows - 4
    bits = 8 * config.row_bytes
    used = (1 << isa.RECORD.width) - 1
    if form == RecordForm.FULL:
        mask = sum(used << 128 * channel for channel in range(config.array_size))
        rows = config.record_rows
    else:
        bias = (1 << 32) - 1  # of the common record: ignored
        mask = (used & ~bias) | ((1 << 4 * bits) - 1) << common * bits
        rows = config.short_record_rows
    image = (image & mask) | (random.getrandbits(bits * rows) & ~mask)
    return [
        pack(
            record_row(config),
            {"data": image >> bits * row & ((1 << bits) - 1), "index": row, "form": form},
        )
        for row in range(rows)
    ]


def _arrivals(rows: int, start: int, stop: int, delivery: str) -> Iterator[int]:
    """Choose the cycles, from ``start`` to before ``stop``, in which the rows of a block come."""
    if delivery == "early":
        return iter(range(start, start + rows))
    if delivery == "late":
        return iter(range(stop - rows, stop))
    return iter(sorted(random.sample(range(start, stop), rows)))


class _Plan:
    """What goes in and must come out, by cycle."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.vectors: dict[int, int] = {}
        self.records: dict[int, int] = {}
        self.writes: dict[int, int] = {}
        self.dones: dict[int, int] = {}
        self.entered: set[int] = set()  # cycles in which the lanes are not the second user's
        self.end = 0
        self._first = -config.record_rows  # cycle in which the current block's records came in use

    def command(self, drain: Drain, vectors: int, *, idle: float, delivery: str) -> None:
        """Append the vectors of a command, and its records before them."""
        config = self.config
        row = random.randrange(1 << 14)
        signal = random.randrange(16)
        records: list[dict[str, Any]] = []
        if drain == Drain.REQUANTIZE:
            form, records = _draw_block(config)
            payloads = _record_payloads(config, form, records)
            start = max(self.end, self._first + len(payloads))
            for payload, cycle in zip(
                payloads, _arrivals(len(payloads), self._first, start, delivery), strict=True
            ):
                self.records[cycle] = payload
            self._first = self.end = start
        for index in range(vectors):
            last = index == vectors - 1
            if drain == Drain.REQUANTIZE:
                sums = [_sum(record) for record in records]
                results = [requantize(x, **r) for x, r in zip(sums, records, strict=True)]
                rows, step = [pack_lanes(results, 8)], 1
            else:
                sums = [random.choice(INT32) for _ in range(config.array_size)]
                word, bits = pack_lanes(sums, 32), 8 * config.row_bytes
                raw = [word >> bits * i & ((1 << bits) - 1) for i in range(RAW_ROWS)]
                rows, step = (raw, RAW_ROWS) if drain == Drain.RAW else ([], 0)
            self._vector(
                rows,
                {
                    "sums": pack_lanes(sums, 32),
                    "raw": drain == Drain.RAW,
                    "first": drain == Drain.REQUANTIZE and index == 0,
                    "write": drain != Drain.KEEP,
                    "row": row + step * index,
                    "done": last,
                    "signal": signal,
                },
            )
            while random.random() < idle:
                self.end += 1

    def _vector(self, rows: list[int], payload: dict[str, int]) -> None:
        config = self.config
        groups = config.array_size // config.lanes
        slots = {0: 1, 1: groups, RAW_ROWS: max(groups, RAW_ROWS)}[len(rows)]
        self.vectors[self.end] = pack(requant_input(config), payload)
        if len(rows) == 1:
            self.entered.update(range(self.end + 1, self.end + 1 + groups))
        out = self.end + slots - 1 + REQUANTIZER
        for index, data in enumerate(rows):
            values = {"row": payload["row"] + index, "data": data}
            self.writes[out - len(rows) + 1 + index] = pack(write_layout(config), values)
        if payload["done"]:
            self.dones[out] = payload["signal"]
        self.end += slots


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.4], delivery=["early", "late", "random"])
async def writes_every_row_in_its_cycle(dut, idle: float, delivery: str) -> None:
    """Commands of all kinds, as close as the rules allow, or with gaps."""
    config = Config.from_dict(json.loads(os.environ["CONFIG"]))
    plan = _Plan(config)
    # Blocks without a gap: as many cycles as they have records.
    exact = config.record_rows * config.lanes // config.array_size
    for _ in range(4):
        plan.command(Drain.REQUANTIZE, max(1, exact), idle=0, delivery=delivery)
    for _ in range(repeats(_EFFORT * (10 + 64 // config.array_size))):
        drain = random.choice([Drain.REQUANTIZE] * 4 + [Drain.RAW, Drain.KEEP])
        vectors = 1 if drain == Drain.KEEP else random.choice([1, 2, 16, random.randint(1, 24)])
        plan.command(drain, vectors, idle=idle, delivery=delivery)
    await _play(dut, plan)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def lanes_serve_the_other_user(dut) -> None:
    """All lanes, for as long as no vector comes: every bit of products beside ties."""
    config = Config.from_dict(json.loads(os.environ["CONFIG"]))
    dut.write__request__ready.value = 1
    for name in ("vector", "i", "record"):
        getattr(dut, f"{name}__valid").value = 0
    await reset(dut)
    cocotb.start_soon(use_lanes(dut, config))
    edge = RisingEdge(dut.clk)
    for _ in range(repeats(3000)):
        await edge
        assert dut.vector__next_ready.value == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def lanes_without_sums_keep_their_values(dut) -> None:
    """A result stays while nothing enters, whatever is offered but the clamp."""
    dut.write__request__ready.value = 1
    for name in ("vector", "i", "record"):
        getattr(dut, f"{name}__valid").value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    lanes = len(dut.vector__o) // 8
    open_clamp = {"low": INT8[0], "high": INT8[-1]}
    kept = 0
    for _ in range(repeats(20)):
        for cycle in range(3 * STAGES):
            offers = [
                unpack(LANE_INPUT, random.getrandbits(LANE_INPUT.size)) | open_clamp
                for _ in range(lanes)
            ]
            words = [pack(LANE_INPUT, offer) for offer in offers]
            dut.vector__lane.value = pack_lanes(words, LANE_INPUT.size)
            dut.vector__valid.value = cycle == 0
            await edge
            if cycle == STAGES - 1:
                kept = int(dut.vector__o.value)
            assert cycle < STAGES or dut.vector__o.value == kept


async def _play(dut, plan: _Plan) -> None:
    dut.write__request__ready.value = 1
    dut.vector__valid.value = 0
    dut.i__valid.value = 0
    dut.record__valid.value = 0
    await reset(dut)
    cocotb.start_soon(use_lanes(dut, plan.config))
    await RisingEdge(dut.clk)
    start = min(plan.records)
    began = get_sim_time("ns")

    def check(expected: dict[int, int], name: str) -> Callable[[int], None]:
        def observe(payload: int) -> None:
            cycle = start + round(get_sim_time("ns") - began) // 10 - 1  # the one that ends now
            wanted = expected.pop(cycle, None)
            assert payload == wanted, f"cycle {cycle}: {name} is {payload:#x}, expected {wanted}"

        return observe

    StreamMonitor(dut, "write__request", callback=check(plan.writes, "write"))
    StreamMonitor(dut, "done", callback=check(plan.dones, "done"))
    edge = RisingEdge(dut.clk)
    for cycle in range(start, plan.end + 4 * STAGES + plan.config.array_size):
        for name, payloads in (("i", plan.vectors), ("record", plan.records)):
            payload = getattr(dut, f"{name}__payload")
            getattr(dut, f"{name}__valid").value = cycle in payloads
            payload.value = payloads.get(cycle, random.getrandbits(len(payload)))
        await edge
        assert dut.vector__next_ready.value == (cycle + 1 not in plan.entered), f"cycle {cycle}"
    assert not plan.writes
    assert not plan.dones


@pytest.mark.parametrize(
    ("n", "lanes", "roundings"),
    [
        (4, 4, _ALL),
        (8, 1, ("ruy", "away")),
        *breadth(
            "other numbers of lanes, and roundings that the lanes' own bench has alone",
            (4, 2, _ALL),
            (4, 1, ("tflite",)),
            (8, 8, ("tflite", "float32")),
            (16, 16, _ALL),
            (32, 4, _ALL),
        ),
    ],
)
def test_requantizer(n: int, lanes: int, roundings: tuple[str, ...]) -> None:
    config = Config(array_size=n, requant_lanes=lanes, roundings=roundings)
    simulate(
        Requantizer(config),
        __file__,
        name=f"requantizer_{n}_{lanes}_{'_'.join(roundings)}",
        extra_env={"CONFIG": json.dumps(config.as_dict())},
    )
