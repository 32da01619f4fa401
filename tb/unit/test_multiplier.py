# amaranth: UnusedElaboratable=no
"""Products of pairs of operands, added to a third one, in every style."""

import random
from collections import Counter

import cocotb
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import ReadOnly, Timer

from tpulite.arch.build import Build
from tpulite_rtl.lib.multiplier import STYLES, multiply_add
from tpulite_silicon.design import elaborated
from tpulite_silicon.families import FAMILIES, part_of
from tpulite_silicon.synthesis import ecp5_cells_of
from tpulite_tb.cells import Cells
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate
from tpulite_testing.regress import breadth

_PARALLEL = 16
_MORE = 2
"""Bits of a sum beyond those of a product."""


class _Products(wiring.Component):
    """Many multipliers with operands of their own, and one and a summand in common."""

    def __init__(self, *, a_width: int, b_width: int, style: str) -> None:
        self.style = style
        super().__init__(
            {
                "a": In(data.ArrayLayout(signed(a_width), _PARALLEL)),
                "b": In(signed(b_width)),
                "c": In(signed(a_width + b_width + _MORE)),
                "o": Out(data.ArrayLayout(signed(a_width + b_width + _MORE), _PARALLEL)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for i in range(_PARALLEL):
            result = multiply_add(m, self.a[i], self.b, self.c, style=self.style, platform=platform)
            m.d.comb += self.o[i].eq(result)
        return m


def _pack(values, width: int) -> int:
    return sum((value & ((1 << width) - 1)) << (width * i) for i, value in enumerate(values))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def multiplies_pairs_of_operands(dut) -> None:
    """All values of both operands, and drawn summands, whose sums may wrap.

    Values take turns among the multipliers, so that each of these meets all their bits.
    On Icarus, which is slow, the first and the last value of one operand and some more, and a part
    of those of the other.
    """
    a_width, b_width, width = len(dut.a) // _PARALLEL, len(dut.b), len(dut.c)
    a_values = range(-1 << (a_width - 1), 1 << (a_width - 1))
    b_values = range(-1 << (b_width - 1), 1 << (b_width - 1))
    starts = list(a_values[::_PARALLEL])
    if cocotb.SIM_NAME == "Icarus Verilog":
        starts = [starts[0], starts[-1], random.choice(starts)]
        b_values = [b_values[0], b_values[-1], *random.choices(b_values, k=repeats(len(b_values)))]
    for start in starts:
        for b in b_values:
            turn = b % _PARALLEL
            row = [start + (turn + place) % _PARALLEL for place in range(_PARALLEL)]
            dut.a.value = _pack(row, a_width)
            dut.b.value = b
            dut.c.value = c = random.choice([0, -1, random.getrandbits(width)]) % (1 << width)
            await Timer(1, unit="ns")
            await ReadOnly()
            expected = _pack([a * b + c for a in row], width)
            assert int(dut.o.value) == expected, f"{row} times {b} plus {c}"
            await Timer(1, unit="ns")


@pytest.mark.parametrize(
    ("a_width", "b_width", "style"),
    [
        *((9, 8, style) for style in STYLES),
        *breadth("the array has no others than 9x8", *((6, 5, style) for style in STYLES)),
    ],
)
def test_multiplier(a_width: int, b_width: int, style: str) -> None:
    simulate(
        _Products(a_width=a_width, b_width=b_width, style=style),
        __file__,
        name=f"multiplier_{style}_{a_width}x{b_width}",
    )


@pytest.mark.parametrize(
    ("a_width", "b_width"), [(9, 8), *breadth("the array has no others than 9x8", (12, 5))]
)
def test_multipliers_of_a_gw5a(a_width: int, b_width: int) -> None:
    component = _Products(a_width=a_width, b_width=b_width, style="dsp")
    name = f"multiplier_gw5a_{a_width}x{b_width}"
    simulate(component, __file__, name=name, build=Build(target="gw5a"))


@pytest.mark.parametrize(
    ("a_width", "b_width"), [(9, 8), *breadth("the lanes have no others", (8, 8), (6, 5))]
)
def test_chains_of_a_7_series_part_multiply(a_width: int, b_width: int) -> None:
    component = _Products(a_width=a_width, b_width=b_width, style="logic")
    name = f"multiplier_carry4_{a_width}x{b_width}"
    simulate(component, __file__, name=name, build=Build(target="xilinx"))


@pytest.mark.parametrize(
    ("a_width", "b_width"),
    [(9, 8), (5, 2), (6, 5), *breadth("all numbers of digits", (5, 3), (5, 6), (4, 7))],
)
def test_chains_of_an_ecp5_multiply(a_width: int, b_width: int, monkeypatch) -> None:
    monkeypatch.setenv("CELLS", Cells.ECP5)
    component = _Products(a_width=a_width, b_width=b_width, style="logic")
    simulate(component, __file__, name=f"multiplier_chains_{a_width}x{b_width}")


def test_chains_of_an_ecp5_need_no_other_tables():
    component = _Products(a_width=9, b_width=8, style="logic")
    design = elaborated(component, Build(target="ecp5"))
    (block,) = design.blocks()
    cells = Counter(cell["type"] for cell in ecp5_cells_of(design, block)["cells"].values())
    assert set(cells) == {"CCU2C"}
    assert cells["CCU2C"] == _PARALLEL * (4 * 6 + 2 * 6 + 7 + 10)  # bits of its chains, in pairs


def test_chains_of_a_7_series_part_need_little_more_than_a_table_a_bit():
    component = _Products(a_width=9, b_width=8, style="logic")
    width = 9 + 8 + _MORE
    bits = sum(width - 2 * digit for digit in range(4))
    found = part_of(elaborated(component, Build(target="xilinx")), FAMILIES["7-series"])
    assert (found.ff, found.dsp, found.bram) == (0, 0, 0)
    assert bits <= found.lut / _PARALLEL <= 1.25 * bits


def test_products_of_a_gw5a_are_instances():
    component = _Products(a_width=9, b_width=8, style="dsp")
    text = rtlil.convert(component, platform=Build(target="gw5a"))
    assert text.count("  cell \\MULT12X12 ") == _PARALLEL
    assert "$mul" not in text


def test_logic_leaves_nothing_to_a_dsp():
    def cells(style: str) -> str:
        return rtlil.convert(_Products(a_width=9, b_width=8, style=style))

    assert "$mul" in cells("dsp")
    assert "$mul" not in cells("logic")


def test_rejects_unknown_style():
    with pytest.raises(
        ValueError, match=r"^Multiplier style must be one of \('dsp', 'logic'\), not 'lut'$"
    ):
        rtlil.convert(_Products(a_width=9, b_width=8, style="lut"))


def test_rejects_unsigned_operands():
    m = Module()
    component = _Products(a_width=9, b_width=8, style="dsp")
    with pytest.raises(
        ValueError, match=r"^Operand of a product must be signed, not unsigned\(8\)$"
    ):
        multiply_add(m, component.a[0], component.b.as_unsigned(), component.c, style="logic")


def test_rejects_operands_wider_than_a_gw5a_has():
    m = Module()
    component = _Products(a_width=13, b_width=8, style="dsp")
    with pytest.raises(ValueError, match=r"^Operand of a MULT12X12 must not be signed\(13\)$"):
        multiply_add(
            m,
            component.a[0],
            component.b,
            component.c,
            style="dsp",
            platform=Build(target="gw5a"),
        )


def test_rejects_sums_narrower_than_products():
    m = Module()
    component = _Products(a_width=9, b_width=8, style="dsp")
    with pytest.raises(ValueError, match=r"^Product of 17 bits cannot be added to 16$"):
        multiply_add(m, component.a[0], component.b, component.c[:16].as_signed(), style="logic")
