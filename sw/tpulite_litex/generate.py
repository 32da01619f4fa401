"""What LiteX writes of a system: headers, BIOS, Verilog, contents of memories.

Run as a program, because LiteX talks, changes the current folder and never forgets a design:

    python -m tpulite_litex.generate CHIP.v FOLDER [FIRMWARE.bin]
"""

import sys
from pathlib import Path

from litex.build.sim.config import SimConfig
from litex.soc.integration.builder import Builder

from tpulite_litex.simulated import CLOCK, SimulatedSystem

__all__ = ["SOURCES", "main"]

SOURCES = "sources.txt"
"""File of the folder ``gateware`` that lists the Verilog of the whole system."""


def main(arguments: list[str]) -> None:
    """Write the folders ``software`` and ``gateware``; what is compiled already stays."""
    verilog, folder, *firmware = map(Path, arguments)
    system = SimulatedSystem(verilog.resolve(), firmware[0].resolve() if firmware else None)
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=CLOCK)
    config.add_module("serial2console", "serial")
    config.add_module("serial2tcp", ("serial", 1), args={"port": 0})
    builder = Builder(system, output_dir=str(folder), bios_console="lite")
    builder.build(run=False, sim_config=config)
    sources = "\n".join(str(name) for name, *_ in system.platform.sources if name.endswith(".v"))
    (Path(builder.gateware_dir) / SOURCES).write_text(sources + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
