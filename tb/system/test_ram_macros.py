"""The chip with RAM macros, of which a row that is read while it is written comes out wrong."""

from dataclasses import replace

import pytest

from tpulite.bench.workloads import parse_workload
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.rtl_device import RtlDevice
from tpulite_tb.machines import SMALL


@pytest.fixture(scope="module")
def chips() -> tuple[RtlDevice, RtlDevice]:
    return RtlDevice(SMALL), RtlDevice(replace(SMALL, memories="macro"))


@pytest.mark.parametrize("name", ["cnn", "gemm_5x33x20", "mlp_b16_cold"])
def test_nothing_depends_on_collisions(chips: tuple[RtlDevice, RtlDevice], name: str) -> None:
    expected, outcome = (parse_workload(name)(chip) for chip in chips)
    assert outcome.exact
    assert outcome.counters == expected.counters


def test_all_large_memories_are_macros() -> None:
    text = cached_verilog(replace(SMALL, memories="macro"))
    assert text.count("  tpulite_ram #(") >= SMALL.ub_banks + 1
    assert "no_rw_check" not in text
