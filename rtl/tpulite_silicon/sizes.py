"""What the chip takes, block by block, in cells of whatever it is synthesized for."""

from collections import Counter
from collections.abc import Callable, Mapping

from tpulite_silicon.design import Design, Module, joint_name
from tpulite_silicon.synthesis import gates_of
from tpulite_silicon.timed import Library

__all__ = ["block_sizes", "cell_sizes"]


def block_sizes(
    design: Design,
    synthesize: Callable[[Design, Module], dict],
    size_of: Callable[[Mapping[str, int]], dict[str, int]],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict:
    """Return the sizes of the chip and of all instances of each block, as plain values.

    Blocks are synthesized alone, so nothing is optimized across their borders.

    Parameters
    ----------
    design : Design
    synthesize : callable
        Returns Yosys's JSON of a block.
    size_of : callable
        Returns the size of so many cells of each kind; its first number orders the blocks.
    progress : callable
        Is told before each block how many are done, and of how many.
    """
    blocks = list(design.blocks())
    cells: dict[str, Counter[str]] = {}
    for done, module in enumerate(blocks):
        progress(done, len(blocks))
        netlist = synthesize(design, module)
        cells[module.name] = Counter(cell["type"] for cell in netlist["cells"].values())

    total: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = {}
    count: Counter[str] = Counter()
    for instance, module in design.instances():
        name = joint_name(instance)
        total += cells[module.name]
        rows.setdefault(name, Counter()).update(cells[module.name])
        count[name] += 1
    sizes = {name: size_of(row) for name, row in rows.items()}
    return {
        "chip": size_of(total),
        "blocks": sorted(
            ({"name": name, "count": count[name], **size} for name, size in sizes.items()),
            key=lambda row: -next(iter(sizes[row["name"]].values())),
        ),
    }


def cell_sizes(
    design: Design, library: Library, progress: Callable[[int, int], None] = lambda *_: None
) -> dict:
    """Return :func:`block_sizes` in a library of standard cells.

    Sizes are ``um2``, the area in the library's unit without memory macros, ``cells``, ``ff``, and
    ``macros``, the memories that are left for macros.
    """
    known = library.gates | library.registers

    def size_of(cells: Mapping[str, int]) -> dict[str, int]:
        taken = {name: count for name, count in cells.items() if name in known}
        return {
            library.area_unit: round(sum(known[name].area * n for name, n in taken.items())),
            "cells": sum(taken.values()),
            "ff": sum(count for name, count in taken.items() if name in library.registers),
            "macros": cells.get("$mem_v2", 0),
        }

    def synthesize(design: Design, module: Module) -> dict:
        return gates_of(design, module, library)

    return block_sizes(design, synthesize, size_of, progress)
