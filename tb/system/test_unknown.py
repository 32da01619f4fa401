"""No X leaves the chip: registers and memories begin unknown, and reset is all that they get.

And what four states compute is what two compute: Verilator's chip takes the same cycles. The same
holds for the chip as synthesis leaves it.
"""

import json
import os
import re
from functools import cache

import cocotb
import pytest
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite.bench.workload import Run
from tpulite.bench.workloads import parse_workload
from tpulite_tb.cells import Cells, chip_cells
from tpulite_tb.chip import ChipBench
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import SMALL
from tpulite_tb.placed import NETWORKS, placed_run
from tpulite_testing.regress import thinned
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.rtl_device import RtlDevice

INITIAL = re.compile(r"^( *reg [^$=;]*=\s*\d+'h)\w+;|^ *\w+\[\d+\] = \d+'d\w+;\n", re.MULTILINE)
"""Initial value of a register, but of the simulator's own ``$auto``, or of a word of a memory."""
_INSIDE = 3
"""Cycles for which the chip's own reset, which is in registers, outlasts that outside."""

OUTPUT = re.compile(r"^  output (?:\[\S+\] )?(\w+);", re.MULTILINE)


def without_initial_values(source: str) -> str:
    """Return Verilog whose registers and memories begin with X."""
    text, count = INITIAL.subn(lambda match: f"{match[1]}x;" if match[1] else "", source)
    assert count > SMALL.ub_rows, "no words of the buffer"
    return text


class UnknownMonitor:
    """Counts cycles, and lets the test fail when an output is not known.

    Handshakes always count, payloads of a channel while its ``valid`` is high, everything else
    when reset has left the chip.
    """

    def __init__(self, entity, names: list[str]) -> None:
        self.cycles, self.began_unknown = 0, False
        self._entity = entity
        self._ports = {}
        for name in names:
            valid = re.sub(r"^((?:m_axi|s_axil)_(?:aw|ar|w|r|b)).*", r"\1valid", name)
            free = name.endswith(("valid", "ready")) or valid == name
            port = getattr(entity, name)
            self._ports[name] = (None if free else getattr(entity, valid), port)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self._entity.clk)
            await ReadOnly()
            if self._entity.rst.value == 1:
                ports = (port for _, port in self._ports.values())
                self.began_unknown |= any(not port.value.is_resolvable for port in ports)
                continue
            self.cycles += 1
            for name, (valid, port) in self._ports.items():
                handshake = name.endswith(("valid", "ready"))
                counts = handshake or (valid is None or valid.value == 1) & (self.cycles > _INSIDE)
                known = not counts or port.value.is_resolvable
                assert known, f"{name} is {port.value} in cycle {self.cycles} after reset"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def no_output_is_unknown(dut) -> None:
    """Run a workload after reset: every bit and every count must be right, all outputs known."""
    bench = ChipBench(dut, SMALL)
    monitor = UnknownMonitor(dut, os.environ["OUTPUTS"].split())
    await bench.start()
    outcome = await bench.call(run_of(os.environ["WORKLOAD"]), bench.device)
    assert outcome.exact
    assert outcome.counters == json.loads(os.environ["COUNTERS"])
    assert monitor.cycles > 500 and monitor.began_unknown
    bench.finish()


@cache
def chip_that_begins_unknown(made_of: str) -> str:
    """Return Verilog of the chip, as RTL or as cells, whose registers and memories begin with X."""
    if made_of == "rtl":
        return without_initial_values(cached_verilog(SMALL))
    return chip_cells(SMALL, Cells(made_of)).verilog


_SHORT, _CONV = "gemm_5x33x20", "conv3x3_6x6x4_to_8"


def run_of(name: str) -> Run:
    """Return how a workload, or one of the networks that are placed, runs."""
    return placed_run(name) if name in NETWORKS else parse_workload(name)


@pytest.mark.parametrize(
    ("made_of", "workload"),
    thinned(
        [
            ("rtl", _SHORT),
            ("rtl", "cnn"),
            *((cells.value, workload) for cells in Cells for workload in (_SHORT, _CONV, "mlp")),
        ],
        ("rtl", _SHORT),
        reason="the whole chip is reset in all, and synthesis takes minutes",
    ),
)
def test_no_output_is_unknown(made_of, workload, monkeypatch) -> None:
    monkeypatch.setenv("SIM", "icarus")
    expected = run_of(workload)(RtlDevice(SMALL))
    source = cached_verilog(SMALL)
    top = source[source.index("module tpulite(") :]
    names = OUTPUT.findall(top[: top.index("endmodule")])
    assert {"m_axi_wdata", "s_axil_rdata", "irq"} <= set(names)
    simulate_verilog(
        chip_that_begins_unknown(made_of),
        __file__,
        top="tpulite",
        name=f"unknown_{made_of}_{workload}",
        extra_env={
            "OUTPUTS": " ".join(names),
            "WORKLOAD": workload,
            "COUNTERS": json.dumps(expected.counters),
        },
    )
