"""Boards of litex-boards, and what of the chip fits on them.

Run as a program it writes everything that a bitstream is made of, and talks as LiteX does:

    python -m tpulite_litex.boards BOARD CHIP.v FOLDER
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

__all__ = ["BOARDS", "Board", "board_system"]


@dataclass(frozen=True)
class Board:
    """A board whose target litex-boards has.

    Parameters
    ----------
    target : str
        Module of ``litex_boards.targets``.
    config : str
        The largest configuration of the chip that leaves room for the system around it, by the
        sizes of both; it was not placed in it.
    clock : float
        Frequency of the system, in Hz.
    device : str
        The part, where the target knows several.
    """

    target: str
    config: str
    clock: float
    device: str = ""


BOARDS = {
    "ulx3s": Board("radiona_ulx3s", "ecp5-45", 50e6, "LFE5U-85F"),
    "ecpix5": Board("lambdaconcept_ecpix5", "ecp5-45", 50e6, "85F"),
    "versa_ecp5": Board("lattice_versa_ecp5", "ecp5-25", 50e6),
    "butterstick": Board("gsd_butterstick", "ecp5-45", 50e6, "85F"),
    "arty": Board("digilent_arty", "ecp5-25", 50e6),
}
"""By the name that ``make bitstream`` has; the last one needs its vendor's tool."""


def board_system(board: Board, verilog: Path):
    """Return the system of a board with the chip in it.

    The target's own second cache is left out, through which the chip would not see.
    """
    from tpulite_litex.core import add_tpulite

    target = import_module(f"litex_boards.targets.{board.target}")
    system = target.BaseSoC(
        sys_clk_freq=board.clock,
        cpu_type="vexriscv",
        uart_name="serial",
        l2_size=0,
        timer_uptime=True,
        integrated_rom_size=0x10000,
        **({"device": board.device} if board.device else {}),
    )
    add_tpulite(system, verilog)
    return system


def main(arguments: list[str]) -> None:
    """Write the sources and the scripts of a board's tools, with the BIOS compiled."""
    from litex.soc.integration.builder import Builder

    name, verilog, folder = arguments
    system = board_system(BOARDS[name], Path(verilog).resolve())
    Builder(system, output_dir=folder, bios_console="lite").build(run=False)


if __name__ == "__main__":
    main(sys.argv[1:])
