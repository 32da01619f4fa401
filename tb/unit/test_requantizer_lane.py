"""The requantizer's arithmetic against the golden one, a record of its own for every sum."""

import os
import random
from typing import Any

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import INT8, INT32, Rounding, requantize, wrap32
from tpulite_rtl.lib.multiplier import STYLES
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

_RESULTS = repeats(int(os.environ.get("RESULTS", "4000")))
_STAGE_OF = {"bias": 0, "shift": 1, "rounding": 1, "multiplier": 2, "zero_point": STAGES - 2}
_WIDTHS = {field.name: field.width for field in RECORD.fields if field.name != "gain"}

# Accumulator, multiplier, point: products that are one larger than a tie of FLOAT32 plus all that
# its first rounding takes away. A tie just above 0, which has no other ones nearby.
_JUST_BEYOND = ((141591, 1987944103, 49), (567009, 1985682721, 51), (4208555, 2140211971, 54))


def _scale_anyhow(rounding: Rounding) -> tuple[int, int, int]:
    """Draw any accumulator, multiplier and shift, extremes often."""
    acc = random.choice([random.choice(INT32) >> random.randrange(32), INT32[0], INT32[-1], 0, -1])
    multipliers = [0, 1, 1 << 23, (1 << 24) - 1, 1 << 30, (1 << 31) - 1]
    multiplier = random.choice([random.getrandbits(random.randint(1, 31)), *multipliers])
    shifts = range(-60, 12) if rounding == Rounding.FLOAT32 else range(-31, 31)
    return acc, multiplier, random.choice([random.choice(shifts), random.randrange(-128, 128)])


def _scale_to_tie(rounding: Rounding) -> tuple[int, int, int]:
    """Draw a product at or beside what rounds either way; in and just outside int8."""
    if rounding == Rounding.FLOAT32 and random.random() < 0.02:
        acc, multiplier, point = random.choice(_JUST_BEYOND)
        return random.choice([acc, -acc]), multiplier, -point
    bits = random.choice([24, 31, random.randint(1, 31)])
    significant = random.getrandbits(bits) | 1 << (bits - 1)
    places = 0
    if bits <= 24 and random.random() < 0.5:
        places = random.randint(0, 31 - bits)
    acc = significant << places
    if bits == 24 and places and random.random() < 0.8:
        # Exactly, or nearly, between two numbers of 24 significant bits.
        acc += (1 << (places - 1)) + random.choice([-1, 0, 0, 0, 1])
    halves = 2 * random.randrange(300) + 1
    multiplier_bits = random.choice([24, 24, 31])
    point = max(1, acc.bit_length() + multiplier_bits - halves.bit_length() + 1)
    tie = halves << (point - 1)
    # Float32 rounds to 24 bits first: what is this close to a tie ends on it.
    close = 1 << max(tie.bit_length() - 25, 0)
    target = tie + random.choice([-close, 0, close])
    multiplier = max(0, target // acc + random.choice([0, 0, 1, -1]))
    multiplier = min(multiplier, (1 << 31) - 1)
    shift = (0 if rounding == Rounding.FLOAT32 else 31) - point
    return random.choice([acc, -acc]), multiplier, max(shift, -128)


def _scale_beside_tie(rounding: Rounding) -> tuple[int, int, int]:
    """Draw factors whose product is where a rounding turns, or beside it by any power of two.

    One is small and odd, so that there is another with which any bits are the lowest ones.
    """
    bits = random.choice([24, 31, random.randint(2, 31)])
    small = random.randrange(1, 256, 2)
    places = random.choice([0, 0, random.randint(0, 22)])
    turn = 1 << (bits - 1)
    if rounding == Rounding.TFLITE and places <= 30:
        turn -= random.choice([0, 1 << (30 - places)])  # what its first rounding adds
    if rounding == Rounding.FLOAT32:
        turn += random.choice([-1, 0, 1]) << max(0, bits - random.randint(17, 26))  # half a unit
    turn += random.choice([-1, 0, 1]) << random.randrange(bits)
    large = turn * pow(small, -1, 1 << bits) % (1 << bits)
    if random.random() < 0.5:
        acc, multiplier = small << places, large
    else:
        acc, multiplier = large, small << places
    shift = (0 if rounding == Rounding.FLOAT32 else 31) - bits - places
    return random.choice([acc, -acc]), multiplier, shift


def _draw(rounding: Rounding) -> tuple[int, dict[str, Any]]:
    """Draw a sum and a record."""
    scale = random.choice([_scale_anyhow, _scale_to_tie, *[_scale_beside_tie] * 4])
    acc, multiplier, shift = scale(rounding)
    bias = random.choice([0, random.choice(INT32)])
    bounds = (random.choice(INT8), random.choice(INT8))  # in order or not
    low, high = random.choice([(INT8[0], INT8[-1])] * 3 + [bounds])
    return wrap32(acc - bias), {
        "bias": bias,
        "multiplier": multiplier,
        "shift": shift,
        "rounding": rounding,
        "zero_point": random.choice([0, 0, INT8[0], INT8[-1], random.choice(INT8)]),
        "low": low,
        "high": high,
    }


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5])
async def equals_the_golden_arithmetic(dut, idle: float) -> None:
    """One sum a cycle, or fewer; every field garbage but in the stage that needs it."""
    roundings = [Rounding[name] for name in os.environ["ROUNDINGS"].split()]
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
        RequantizerLane(roundings, style),
        __file__,
        name=f"requantizer_lane_{'_'.join(names).lower()}_{style}",
        extra_env={"ROUNDINGS": " ".join(names)},
    )
