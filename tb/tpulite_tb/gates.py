"""Workloads on the cells of the chip, beside the same on its RTL."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.bench.workloads import parse_workload
from tpulite_silicon.simulation import CellNetlist
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["WORKLOADS", "Comparison", "compare"]

WORKLOADS = ("mlp_b16_cold", "conv3x3_6x6x4_to_8", "dwconv3x3_6x6x4_x1", "cnn")
"""What runs on cells: the digits' networks, and a convolution of each kind."""

_STALLS = {"stall": 0.3, "jitter": 7, "seed": 1}
"""A memory that pauses and answers late, in the same cycles for both."""


@dataclass(frozen=True)
class Comparison:
    """A workload that has run on cells and on the RTL."""

    exact: bool  #: Whether every bit of the result is right.
    #: Counters of the chip, and those of the RTL.
    counters: Mapping[str, int]
    expected: Mapping[str, int]
    speed: float  #: Cycles of the cells in a second.

    @property
    def equal(self) -> bool:
        """Whether all is right, and takes the same cycles."""
        return self.exact and self.counters == self.expected


def compare(config: Config, netlist: CellNetlist, workload: str, *, stalls: bool) -> Comparison:
    """Run a workload on the cells and on the RTL of a machine.

    Parameters
    ----------
    config : Config
        The machine.
    netlist : CellNetlist
        Its cells.
    workload : str
        A name as in ``tpulite bench``.
    stalls : bool
        Whether the memory pauses and answers late.
    """
    run, options = parse_workload(workload), _STALLS if stalls else {}
    chip = RtlDevice(config, verilog=netlist.verilog, **options)
    outcome, expected = run(chip), run(RtlDevice(config, **options))
    speed = chip.cycles / chip.seconds
    return Comparison(outcome.exact, outcome.counters, expected.counters, speed)
