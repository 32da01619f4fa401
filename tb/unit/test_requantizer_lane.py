"""The requantizer's arithmetic against the golden one, a record of its own for every sum."""

import os
import random
from typing import Any

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from scale_draw import draw_scaled

from tpulite.arch.build import Build
from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import INT8, INT32, Rounding, requantize, wrap32
from tpulite_rtl.lib.multiplier import STYLES
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

_RESULTS = repeats(int(os.environ.get("RESULTS", "5000")))
_STAGE_OF = {"bias": 0, "shift": 1, "rounding": 1, "multiplier": 2, "zero_point": STAGES - 2}
_WIDTHS = {field.name: field.width for field in RECORD.fields if field.name != "gain"}


def _draw(rounding: Rounding) -> tuple[int, dict[str, Any]]:
    """Draw a sum and a record for it, some of them with what is rare among those of all benches."""
    value, record = draw_scaled(rounding)
    acc = wrap32(value + record["bias"])
    if random.random() < 0.1:  # bounds beside the result, if that is small
        for name in ("low", "high"):
            bound = record["zero_point"] + random.randint(-4, 4)
            record[name] = min(max(bound, INT8[0]), INT8[-1])
    is_float, draw = rounding == Rounding.FLOAT32, random.random()
    if draw < 0.25:
        acc, scale = _lowest_one(rounding)
        record |= scale
    elif is_float and draw < 0.5:
        acc, scale = _beside_unit()
        record |= scale
    if is_float and 0 < abs(acc) < 1 << 24 and random.random() < 0.3:
        # A sum that is not exact in 24 bits, and rounds to this one.
        exponent = random.randint(1, 7)
        places = 24 + exponent - acc.bit_length()
        if record["shift"] - places >= -128:
            less_or_more = random.choice([-1, 1]) * random.randint(1, 1 << (exponent - 1))
            acc = (acc << places) + less_or_more
            record["shift"] -= places
    return wrap32(acc - record["bias"]), record


def _lowest_one(rounding: Rounding) -> tuple[int, dict[str, int]]:
    """Draw a product with its lowest one in any place; often a half or 3/4 are cut off."""
    place = random.randrange(62)
    left = random.randint(max(0, place - 30), min(place, 31))

    def odd(places: int) -> int:
        return random.getrandbits(random.randint(0, min(5, 31 - places))) << places | 1 << places

    acc, multiplier = odd(left), odd(place - left)
    cut = random.choice([1, 1, 2, 2, random.randint(-24, 0)])
    is_negative = not acc * multiplier >> place & 2 if cut == 2 else random.random() < 0.5
    shift = (0 if rounding == Rounding.FLOAT32 else 31) - place - cut
    return -acc if is_negative else acc, {"multiplier": multiplier, "shift": shift}


def _beside_unit() -> tuple[int, dict[str, int]]:
    """Draw a product up to a unit of its 24 bits from a tie, half of them within half a unit."""
    half = random.randrange(29)  # its place
    halves = 2 * random.getrandbits(random.randrange(8)) + 1
    point = 25 + half - halves.bit_length()
    target = (halves << point) + random.randrange(-2 << half, 2 << half)
    bits = random.randint(max(1, half - 4), max(1, half))
    acc = random.getrandbits(bits) | 1 << (bits - 1)
    scale = {"multiplier": target // acc, "shift": -1 - point}
    return random.choice([-1, 1]) * acc, scale


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5])
async def equals_the_golden_arithmetic(dut, idle: float) -> None:
    """One sum a cycle, or fewer; every field garbage but in the stage that needs it."""
    roundings = [Rounding[name] for name in os.environ["ROUNDINGS"].split()]
    most_cases = (Rounding.FLOAT32, Rounding.FLOAT32, Rounding.AWAY)
    roundings += [rounding for rounding in most_cases if rounding in roundings]
    dut.valid.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    stages: list[tuple[int, dict[str, Any]] | None] = [None] * STAGES
    results: set[int] = set()
    left = _RESULTS
    while left or any(stages):
        drawn = None
        if left and random.random() >= idle:
            drawn = _draw(random.choice(roundings))
            left -= 1
        stages = [drawn, *stages[:-1]]
        dut.valid.value = sum(1 << stage for stage in range(STAGES - 1) if stages[stage])
        dut.sum.value = drawn[0] if drawn else random.choice(INT32)
        for name, width in _WIDTHS.items():
            entry = stages[_STAGE_OF.get(name, STAGES - 1)]
            value = entry[1][name] if entry else random.getrandbits(width)
            getattr(dut, name).value = value & ((1 << width) - 1)
        await edge
        if stages[-1]:
            value, record = stages[-1]
            expected = requantize(value, **record)
            assert dut.o.value.to_signed() == expected, f"{value} with {record}"
            results.add(expected)
    assert len(results) > 100


_SOME = (
    (Rounding.TFLITE,),
    (Rounding.RUY,),
    (Rounding.SINGLE,),
    (Rounding.FLOAT32,),
    (Rounding.AWAY,),
    (Rounding.TFLITE, Rounding.AWAY),
)
"""Lanes that lack roundings."""


@pytest.mark.parametrize(
    ("roundings", "style"),
    [
        *((tuple(Rounding), style) for style in STYLES),
        *((some, STYLES[0]) for some in _SOME),
        *breadth(
            "the style is the multiplier's, which has its bench, and all roundings are above",
            *((some, style) for some in _SOME for style in STYLES[1:]),
        ),
    ],
)
def test_requantizer_lane(roundings: tuple[Rounding, ...], style: str) -> None:
    names = [rounding.name for rounding in roundings]
    simulate(
        RequantizerLane(roundings),
        __file__,
        name=f"requantizer_lane_{'_'.join(names).lower()}_{style}",
        extra_env={"ROUNDINGS": " ".join(names)},
        build=Build(multipliers=style),
    )


@pytest.mark.parametrize(("target", "multipliers"), [("gw5a", "dsp"), ("xilinx", "half_dsp")])
@pytest.mark.parametrize(
    "roundings", [tuple(Rounding), (Rounding.TFLITE,), (Rounding.SINGLE,), (Rounding.FLOAT32,)]
)
def test_requantizer_lane_of_a_part(
    roundings: tuple[Rounding, ...], target: str, multipliers: str
) -> None:
    """Products are cut into pieces; lanes that only double or only round floats cut others."""
    names = [rounding.name for rounding in roundings]
    simulate(
        RequantizerLane(roundings),
        __file__,
        name=f"requantizer_lane_{'_'.join(names).lower()}_{target}",
        extra_env={"ROUNDINGS": " ".join(names)},
        build=Build(target=target, multipliers=multipliers),
    )
