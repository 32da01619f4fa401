"""Boards of litex-boards, and what of the chip fits on them.

Run as a program it writes everything that a bitstream is made of, and talks as LiteX does:

    python -m tpulite_litex.boards BOARD CHIP.v FOLDER
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tpulite.parts import FAMILY_PARTS, FAMILY_SIZES, PARTS, SIZES, Part, Size
from tpulite_litex.device_tree import write_fragment

__all__ = ["BOARDS", "Board", "board_system"]


_SYSTEM = Part(lut=5_600, ff=3_900, dsp=4, bram=16)
"""What the system around the chip takes of an ECP5, by that of a ULX3S with VexRiscv; of lookup
tables with six inputs it takes fewer."""

_FULL = 0.86
"""Of a part; nextpnr has not routed a chip that takes more."""

_SERIES_7 = "7-series"


@dataclass(frozen=True)
class Board:
    """A board whose target litex-boards has."""

    #: Module of ``litex_boards.targets``; empty for our own, :mod:`tpulite_litex.kv260`.
    target: str
    #: The FPGA: one of :data:`tpulite.parts.PARTS` or :data:`tpulite.parts.FAMILY_PARTS`, or
    #: another.
    part: str
    #: Configuration of the chip that leaves room for the system around it, by the sizes of both; of
    #: UltraScale+ by its data sheets. Only that of ``ulx3s`` was placed in it.
    config: str
    #: What the target is told: which part it has, where it knows several.
    options: Mapping[str, object] = field(default_factory=dict)
    loader: tuple[str, ...] = ()  #: How openFPGALoader reaches it; empty if it does not.
    tool: str = ""  #: The vendor's tool, if the system is made by that.
    clock: float = 50e6  #: Frequency of the system, in Hz.

    @property
    def advice(self) -> str:
        """Which configurations fit, in words."""
        if self.fitting:
            return f"{self.part} has room for {', '.join(self.fitting)}"
        others = ", ".join(name for name, board in BOARDS.items() if board.fitting)
        none = f"{self.part} has no room for a configuration next to the system"
        return f"{none}; these boards have: {others}"

    @property
    def elaborated_for(self) -> str:
        """What the chip is elaborated for, of :data:`tpulite.arch.build.TARGETS`."""
        if self.part in FAMILY_PARTS[_SERIES_7]:
            return "xilinx"
        return "generic" if self.tool else "ecp5"

    @property
    def fitting(self) -> tuple[str, ...]:
        """Configurations that fit beside the system, by the sizes of both."""
        sizes: dict[str, Part | Size] = {**SIZES}
        there = PARTS.get(self.part)
        if there is None:
            there = FAMILY_PARTS[_SERIES_7].get(self.part)
            sizes = {n: size for (family, n), size in FAMILY_SIZES.items() if family == _SERIES_7}
        if there is None:
            return (self.config,)
        return tuple(
            name
            for name, size in sizes.items()
            if all(
                getattr(size, what) + getattr(_SYSTEM, what) <= _FULL * getattr(there, what)
                for what in ("lut", "ff", "dsp", "bram")
            )
        )


_DFU = ("--dfu", "--vid", "0x1209", "--pid", "0x5af1", "--altsetting", "0")

BOARDS = {
    "ulx3s": Board(
        "radiona_ulx3s", "LFE5U-85", "ecp5-45", {"device": "LFE5U-85F"}, ("--board", "ulx3s")
    ),
    "ecpix5": Board(
        "lambdaconcept_ecpix5", "LFE5U-85", "ecp5-45", {"device": "85F"}, ("--board", "ecpix5")
    ),
    "versa_ecp5": Board("lattice_versa_ecp5", "LFE5U-45", "ecp5-25", {}, ("--cable", "ft2232")),
    "butterstick": Board("gsd_butterstick", "LFE5U-85", "ecp5-45", {"device": "85F"}, _DFU),
    "orangecrab": Board(
        # Its USB port needs a package that is not on PyPI; the UART is on pins 0 and 1.
        *("gsd_orangecrab", "LFE5U-85", "ecp5-45", {"device": "85F", "with_uart": False}),
        *(("--board", "orangeCrab"), "", 48e6),
    ),
    "colorlight_i5": Board(
        "colorlight_i5", "LFE5U-25", "ecp5-25", {"board": "i5"}, ("--board", "colorlight-i5")
    ),
    "colorlight_i9": Board(
        *("colorlight_i5", "LFE5U-45", "ecp5-25", {"board": "i9", "revision": "7.2"}),
        ("--board", "colorlight-i9"),
    ),
    "arty": Board(
        *("digilent_arty", "XC7A100T", "8x8", {"variant": "a7-100"}),
        *(("--board", "arty_a7_100t"), "Vivado"),
    ),
    "arty_a7_35": Board(
        *("digilent_arty", "XC7A35T", "ecp5-25", {"variant": "a7-35"}),
        *(("--board", "arty_a7_35t"), "Vivado"),
    ),
    "nexys_video": Board(
        "digilent_nexys_video", "XC7A200T", "16x16", {}, ("--board", "nexysVideo"), "Vivado"
    ),
    "zcu104": Board("xilinx_zcu104", "xczu7ev", "16x16", {}, (), "Vivado"),
    "kv260": Board("", "xck26", "16x16", {}, (), "Vivado"),
}
"""By the name that ``make bitstream`` has."""


def board_system(board: Board, verilog: Path):
    """Return the system of a board with the chip in it: with VexRiscv, or the processor it has.

    The target's own second cache is left out, through which the chip would not see.
    """
    from tpulite_litex.core import add_tpulite

    if not board.target:
        from tpulite_litex.kv260 import KV260System

        return KV260System(verilog, board.clock)
    target = import_module(f"litex_boards.targets.{board.target}")
    system = target.BaseSoC(
        sys_clk_freq=board.clock,
        cpu_type="vexriscv",
        uart_name="serial",
        l2_size=0,
        timer_uptime=True,
        integrated_rom_size=0x10000,
        **board.options,
    )
    if not board.options.get("with_uart", True):
        pins = import_module(f"litex_boards.platforms.{board.target}").feather_serial
        system.platform.add_extension(pins)
        system.add_uart("uart", "serial")
    add_tpulite(system, verilog)
    return system


def main(arguments: list[str]) -> None:
    """Write the sources and the scripts of a board's tools, and VexRiscv's BIOS."""
    from litex.soc.integration.builder import Builder

    name, verilog, folder = arguments
    system = board_system(BOARDS[name], Path(verilog).resolve())
    soft = bool(BOARDS[name].target)
    builder = Builder(system, output_dir=folder, bios_console="lite", compile_software=soft)
    builder.build(run=False)
    if soft:
        write_fragment(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
