"""Elementwise arithmetic before the requantizer against the golden one, operands by operands."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from cocotb.triggers import RisingEdge
from vector_model import accumulators

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.isa import OPERANDS, RECORD, Scaling, VectorOp
from tpulite.arch.numerics import INT8
from tpulite_rtl.vpu.elementwise_lane import STAGES, ElementwiseLane
from tpulite_rtl.vpu.operand_scales import TFLITE_PLACES, OperandScales
from tpulite_rtl.vpu.window_reducer import SUM_BITS
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate

_RESULTS = repeats(int(os.environ.get("RESULTS", "3000")))
_BATCH = 10  # results with the same operands
_IN_TURNS = (VectorOp.ADD, VectorOp.SUB)
_OPERATIONS = (VectorOp.SUM, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.AFFINE)
_GAINS = next(field.range for field in RECORD.fields if field.name == "gain")
_LARGEST = 255 * 255  # vectors in a window


class _Bench(wiring.Component):
    """A lane, and what is prepared for it."""

    operation: Signal
    operands: data.View
    second: Signal
    a: Signal
    b: Signal
    gain: Signal
    o: Signal

    def __init__(self) -> None:
        self.lane, self.scales = ElementwiseLane(), OperandScales(Config())
        members = {
            **{name: self.scales.signature.members[name] for name in ("operation", "operands")},
            **{
                name: self.lane.signature.members[name]
                for name in ("moves", "second", "a", "b", "gain", "o")
            },
        }
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.scales, m.submodules.lane = self.scales, self.lane
        m.d.comb += [
            self.scales.operation.eq(self.operation),
            self.scales.operands.eq(self.operands),
            self.scales.second.eq(self.second),
            self.scales.moves.eq(self.moves),
            self.lane.scales.eq(self.scales.o),
            self.lane.moves.eq(self.moves),
            self.lane.second.eq(self.second),
            self.lane.a.eq(self.a),
            self.lane.b.eq(self.b),
            self.lane.gain.eq(self.gain),
            self.o.eq(self.lane.o),
        ]
        return m


def _draw_operands() -> dict[str, int]:
    """Draw operands; half of the scales bring values right onto, or beside, a half."""
    values: dict[str, int] = {"scaling": random.choice([Scaling.TFLITE] * 3 + [Scaling.EXACT])}
    for name in ("a", "b"):
        values[f"{name}_zero_point"] = random.choice([0, INT8[0], INT8[-1], random.choice(INT8)])
        values[f"{name}_multiplier"] = random.choice([0, (1 << 31) - 1, random.getrandbits(31)])
        values[f"{name}_shift"] = random.choice([0, 31, random.randrange(32)])
        if random.random() < 0.6:
            # x * 2**places / 2**11 / 2**shift: a half for some x, or beside it by the last bit, by
            # about one of what is left after the first rounding, or by any bit.
            shift = random.randrange(29)  # with larger ones there is no half
            places = min(shift + random.randint(3, 11), 31)
            bit = random.choice([0, min(places - shift + 1, places - 1), random.randrange(places)])
            beside = (1 << places) + random.choice([-1, -1, 0, 1]) * (1 << bit)
            values |= {f"{name}_multiplier": min(beside, (1 << 31) - 1), f"{name}_shift": shift}
    return values


def _draw_byte(name: str, operands: dict[str, int]) -> int:
    """Draw any byte, or an extreme, or one whose product is as near to a half as any."""
    zero_point = operands[f"{name}_zero_point"]
    half = 1 << (TFLITE_PLACES + operands[f"{name}_shift"] - 1)
    x = round(half / max(operands[f"{name}_multiplier"], 1))
    beside = [min(max(zero_point + signed, INT8[0]), INT8[-1]) for signed in (-x, x)]
    return random.choice([INT8[0], INT8[-1], random.choice(INT8), *beside])


def _draw_bytes(operation: VectorOp, operands: dict[str, int]) -> tuple[int, int, int]:
    """Draw A (of SUM: a whole sum), B and a gain."""
    a, b = (_draw_byte(name, operands) for name in ("a", "b"))
    if operation == VectorOp.SUM:
        a = random.choice([-128 * _LARGEST, 127 * _LARGEST, random.randint(-(1 << 20), 1 << 20)])
    return a, b, random.choice([_GAINS[0], _GAINS[-1], random.choice(_GAINS)])


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(operation=_OPERATIONS, idle=[0.0, 0.4])
async def equals_the_golden_arithmetic(dut, operation: VectorOp, idle: float) -> None:
    """One result a cycle, or every other one, or fewer; garbage wherever nobody should look."""
    edge = RisingEdge(dut.clk)
    await reset(dut)
    results: set[int] = set()
    for _ in range(_RESULTS // _BATCH):
        operands = _draw_operands()
        dut.moves.value = 0
        dut.operation.value = operation
        dut.operands.value = OPERANDS.pack(**operands)
        for _ in range(2):  # for the scales
            await edge
        # Stage s holds what entered s cycles ago; the last one's register shows the result.
        stages: list[tuple[int, int, int] | None] = [None] * (STAGES + 1)
        left, first = _BATCH, None  # drawn, and only A has entered
        while left or first or any(stages):
            second, first = first, None
            drawn = second
            if not second and left and random.random() >= idle:
                drawn = _draw_bytes(operation, operands)
                left -= 1
                first = drawn if operation in _IN_TURNS else None
            dut.moves.value = 0
            while random.random() < idle / 2:
                await edge
            dut.moves.value = 1
            stages = [None if first else drawn, *stages[:-1]]
            a, b = random.getrandbits(SUM_BITS - 1), random.choice(INT8)
            if drawn:
                a, b = a if second else drawn[0], b if first else drawn[1]
            dut.second.value = second is not None
            dut.a.value, dut.b.value = a % (1 << SUM_BITS), b % 256
            dut.gain.value = (drawn[2] if drawn else random.getrandbits(16)) % (1 << 16)
            await edge
            if (done := stages[STAGES]) is not None:
                (expected,) = accumulators(operation, operands, [done[2]], [[done[0]]], [done[1]])
                assert dut.o.value.to_signed() == expected, f"{done} with {operands}"
                results.add(expected)
    assert len(results) > 100


@pytest.mark.parametrize("style", ["dsp", "logic"])
def test_elementwise_lane(style: str) -> None:
    build = Build(multipliers=style)
    simulate(_Bench(), __file__, name=f"elementwise_lane_{style}", build=build)


def test_elementwise_lane_of_a_gw5a() -> None:
    simulate(_Bench(), __file__, name="elementwise_lane_gw5a", build=Build(target="gw5a"))
