"""What the chip takes of a Lattice ECP5, block by block."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict

from tpulite.parts import Part
from tpulite_silicon.design import Design, joint_name
from tpulite_silicon.synthesis import ecp5_cells_of

__all__ = ["size_of", "sizes"]


_LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
"""Lookup tables that a cell occupies: a carry cell two, a distributed RAM two slices and a half."""


def size_of(cells: Mapping[str, int]) -> Part:
    """Sum up cells as Yosys calls them.

    Examples
    --------
    >>> size_of({"LUT4": 10, "CCU2C": 2, "TRELLIS_FF": 7, "MULT18X18D": 1})
    Part(lut=14, ff=7, dsp=1, bram=0)
    """
    return Part(
        lut=sum(luts * cells.get(cell, 0) for cell, luts in _LUTS.items()),
        ff=cells.get("TRELLIS_FF", 0),
        dsp=cells.get("MULT18X18D", 0),
        bram=cells.get("DP16KD", 0),
    )


def sizes(design: Design, progress: Callable[[int, int], None] = lambda *_: None) -> dict:
    """Return the sizes of the chip and of all instances of each block, as plain values.

    Before each block ``progress`` is told how many are done, and of how many. Blocks are
    synthesized alone, so nothing is optimized across their borders.
    """
    blocks = list(design.blocks())
    cells: dict[str, Counter[str]] = {}
    for done, module in enumerate(blocks):
        progress(done, len(blocks))
        netlist = ecp5_cells_of(design, module)
        cells[module.name] = Counter(cell["type"] for cell in netlist["cells"].values())

    total: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = {}
    count: Counter[str] = Counter()
    for instance, module in design.instances():
        name = joint_name(instance)
        total += cells[module.name]
        rows.setdefault(name, Counter()).update(cells[module.name])
        count[name] += 1
    return {
        "chip": asdict(size_of(total)),
        "blocks": sorted(
            ({"name": n, "count": count[n], **asdict(size_of(row))} for n, row in rows.items()),
            key=lambda row: -row["lut"],
        ),
    }
