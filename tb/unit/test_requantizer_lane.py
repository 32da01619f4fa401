"""The requantizer's arithmetic against the golden one, a record of its own for every sum."""

import os
import random
from typing import Any

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from scale_draw import draw_scaled

from tpulite.arch.isa import RECORD
from tpulite.arch.numerics import INT32, Rounding, requantize
from tpulite_rtl.lib.multiplier import STYLES
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_testing.regress import breadth

_RESULTS = repeats(int(os.environ.get("RESULTS", "4000")))
_STAGE_OF = {"bias": 0, "shift": 1, "rounding": 1, "multiplier": 2, "zero_point": STAGES - 2}
_WIDTHS = {field.name: field.width for field in RECORD.fields if field.name != "gain"}


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
            drawn = draw_scaled(random.choice(roundings))
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
