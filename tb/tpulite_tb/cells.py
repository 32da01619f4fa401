"""The chip and its components as synthesis leaves them."""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from amaranth.lib import wiring

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite_silicon.design import chip_design, elaborated
from tpulite_silicon.simulated_ecp5 import SIMULATED_ECP5
from tpulite_silicon.simulated_gates import SIMULATED_GATES
from tpulite_silicon.simulation import CellNetlist, Technology, cell_netlist

__all__ = ["Cells", "chip_cells", "component_cells"]


class Cells(StrEnum):
    """What a chip is made of."""

    GATES = "gates"
    """The generic library: gates, flip-flops, RAM macros."""
    ECP5 = "ecp5"
    """Those of an ECP5: lookup tables, carries, flip-flops, multipliers, memories."""

    @property
    def technology(self) -> Technology:
        """Synthesis, and models of the cells."""
        return SIMULATED_GATES if self is Cells.GATES else SIMULATED_ECP5


def chip_cells(
    config: Config,
    cells: Cells,
    progress: Callable[[int, int], None] = lambda *_: None,
    build: Build | None = None,
) -> CellNetlist:
    """Return the cells of a chip to simulate; see :func:`cell_netlist` for ``progress``."""
    design = chip_design(config, replace(Build.of(build), target=cells.value))
    return cell_netlist(design, cells.technology, top="tpulite", progress=progress)


def component_cells(
    component: wiring.Component, ports: list, cells: Cells, build: Build | None = None
) -> CellNetlist:
    """Return the cells of a component to simulate; its top module is ``dut``."""
    build = Build.of(build)
    design = elaborated(component, replace(build, target=cells.value, memories="generic"), ports)
    return cell_netlist(design, cells.technology, top="dut")
