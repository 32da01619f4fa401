"""The chip with RAM macros, gated clocks and register slices does what it does without.

Of the macros a row that is read while it is written comes out wrong. Clocks stop for good when they
have run for longer than their engines are not idle. Slices are a memory that answers later.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tpulite.arch.build import Build
from tpulite.arch.isa import Engine
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.arch.timing import AXI_SLICES
from tpulite.bench.workload import Outcome
from tpulite.bench.workloads import parse_workload
from tpulite_tb.machines import SMALL
from tpulite_verilated.library import cached_verilog, models
from tpulite_verilated.rtl_device import RtlDevice

NAMES = ("cnn", "gemm_5x33x20", "mlp_b16_cold", "dwconv3x3_9x9x8_x2", "affine_7x6x12")
OPTIONS = replace(SMALL, axi_slices=True)
BUILD = Build(memories="macro", clock_gates=True)
LATER = MemoryTiming(
    REFERENCE_MEMORY.read_latency + AXI_SLICES, REFERENCE_MEMORY.write_response + AXI_SLICES
)

_CLEARS = 32
"""Cycles of reset, and in which engines are cleared, at most."""


@pytest.fixture(scope="module")
def plain() -> dict[str, Outcome]:
    chip = RtlDevice(SMALL, timing=LATER)
    return {name: parse_workload(name)(chip) for name in NAMES}


@pytest.fixture(scope="module")
def chip(plain: Mapping[str, Outcome]) -> RtlDevice:
    text = models(BUILD).replace(
        "assign gated = clk & open;",
        """
        parameter EDGES = 0;
        integer edges = 0;
        always @(posedge gated) edges <= edges + 1;
        assign gated = clk & open & edges != EDGES;""",
    )
    works = {
        name: sum(
            outcome.counters["cycles"] - outcome.counters[f"{name}_idle"]
            for outcome in plain.values()
        )
        for name in (engine.name.lower() for engine in Engine)
    }
    works["mxu"] += works["vpu"]  # which uses lanes of that one
    verilog, gates = re.subn(
        r"tpulite_clock_gate gate_(\w+) ",
        lambda gate: f"tpulite_clock_gate #({works[gate[1]] + _CLEARS}) gate_{gate[1]} ",
        cached_verilog(OPTIONS, BUILD),
    )
    assert gates == len(Engine)
    return RtlDevice(OPTIONS, verilog=verilog + text)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_depends_on_options(
    plain: Mapping[str, Outcome], chip: RtlDevice, name: str
) -> None:
    outcome = parse_workload(name)(chip)
    assert outcome.exact
    # Which rows buffers get depends on what the cycle model says of the machine.
    rows = {"conflicts": 0}
    assert {**outcome.counters, **rows} == {**plain[name].counters, **rows}


def test_all_large_memories_are_macros() -> None:
    text = cached_verilog(OPTIONS, BUILD)
    assert text.count("  tpulite_ram #(") >= SMALL.ub_banks + 1
    assert "no_rw_check" not in text
