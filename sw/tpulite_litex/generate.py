"""What LiteX writes of a system: headers, BIOS, Verilog, contents of memories.

Run as a program, because LiteX talks, changes the current folder and never forgets a design:

    python -m tpulite_litex.generate CHIP.v FOLDER --cpu vexriscv [--firmware FIRMWARE.bin]
"""

from pathlib import Path

import click
from litex.build.sim.config import SimConfig
from litex.soc.integration.builder import Builder

from tpulite_litex.device_tree import write_fragment
from tpulite_litex.simulated import SimulatedSystem
from tpulite_litex.system import CLOCK

__all__ = ["SOURCES", "main"]

SOURCES = "sources.txt"
"""File of the folder ``gateware`` that lists the Verilog of the whole system."""


@click.command()
@click.argument("verilog", type=Path)
@click.argument("folder", type=Path)
@click.option("--cpu", required=True)
@click.option("--chip-clock", type=int, default=0, help="In Hz, if the chip has one of its own.")
@click.option("--firmware", type=Path)
def main(verilog: Path, folder: Path, cpu: str, chip_clock: int, firmware: Path | None) -> None:
    """Write the folders ``software`` and ``gateware``; what is compiled already stays."""
    image = firmware.resolve() if firmware else None
    system = SimulatedSystem(verilog.resolve(), image, cpu, chip_clock=bool(chip_clock))
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=CLOCK)
    if chip_clock:
        config.add_clocker("chip_clk", freq_hz=chip_clock)
    config.add_module("serial2console", "serial")
    builder = Builder(system, output_dir=str(folder), bios_console="lite")
    builder.build(run=False, sim_config=config)
    write_fragment(folder)
    sources = "\n".join(str(name) for name, *_ in system.platform.sources if name.endswith(".v"))
    (Path(builder.gateware_dir) / SOURCES).write_text(sources + "\n")


if __name__ == "__main__":
    main()
