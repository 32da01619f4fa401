"""The processing element, cycle by cycle."""

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge

from tpulite.arch.build import Build
from tpulite_rtl.mxu.processing_element import ProcessingElement
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import width_of

PSUM_WIDTH = 20


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def multiplies_and_adds(dut) -> None:
    """Random inputs in every cycle: both modes, swaps, and weights written in the same cycle."""
    edge = RisingEdge(dut.clk)
    transposes = hasattr(dut, "capture")
    dut.weight_enable.value = 0
    if transposes:
        dut.capture.value = dut.i_weight.value = 0
    for name in ("i_activation", "i_first", "i_depthwise", "i_psum"):
        port = getattr(dut, name)
        port.value = (1 << width_of(port)) - 1
    await reset(dut)
    for name in ("o_activation", "o_first", "o_depthwise", "o_psum"):
        assert getattr(dut, name).value == 0, f"{name} after reset"
    dut.i_first.value = 0
    await edge
    shadow = active = None
    due: dict[str, int | None] = {}
    checked = 0
    for _ in range(2000):
        passing, column = random.randrange(-128, 128), random.randrange(-128, 128)
        beside = random.randrange(-255, 256)  # beside a vector of a transposed tile, a weight
        first, depthwise = random.random() < 0.2, random.randrange(2)
        psum = random.randrange(-(1 << 18), 1 << 18)
        weight, enable = random.randrange(-255, 256), random.random() < 0.3
        dut.i_activation.value = passing
        dut.column.value = column
        dut.i_first.value = first
        dut.i_depthwise.value = depthwise
        dut.i_psum.value = psum
        dut.weight.value = weight
        dut.weight_enable.value = enable
        capture = transposes and not enable and random.random() < 0.3
        if transposes:
            beside = beside if capture or random.random() < 0.3 else passing
            dut.i_weight.value, dut.capture.value = beside, capture
        await edge
        for name, value in due.items():
            if value is not None:
                port = getattr(dut, name)
                assert int(port.value) == value % (1 << width_of(port)), name
                checked += 1
        if first:
            active = shadow
        if enable:
            shadow = weight
        if capture:
            shadow = beside
        activation = column if depthwise else passing
        due = {
            **({"o_weight": beside} if transposes else {}),
            "o_activation": beside if transposes else passing,
            "o_first": first,
            "o_depthwise": depthwise,
            "o_psum": None if active is None else psum + active * activation,
        }
    assert checked > 7000


@pytest.mark.parametrize(("style", "transposes"), [("dsp", False), ("logic", False), ("dsp", True)])
def test_processing_element(style: str, transposes: bool) -> None:
    element = ProcessingElement(psum_width=PSUM_WIDTH, style=style, transposes=transposes)
    name = f"processing_element_{style}{'_transposed' * transposes}"
    simulate(element, __file__, name=name)


@pytest.mark.parametrize(
    ("target", "style", "transposes"),
    [
        ("gw5a", "dsp", False),
        ("xilinx", "dsp", False),
        ("xilinx", "dsp", True),
        ("xilinx", "logic", False),
    ],
)
def test_processing_element_of_a_part(target: str, style: str, transposes: bool) -> None:
    element = ProcessingElement(psum_width=PSUM_WIDTH, style=style, transposes=transposes)
    build = Build(target=target)
    name = f"processing_element_{target}_{style}{'_transposed' * transposes}"
    simulate(element, __file__, name=name, build=build)
