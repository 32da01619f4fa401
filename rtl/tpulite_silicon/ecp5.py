"""What the chip takes of a Lattice ECP5, block by block."""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from tpulite.parts import Part
from tpulite_silicon.design import Design
from tpulite_silicon.sizes import block_sizes
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
    """Return :func:`~tpulite_silicon.sizes.block_sizes` in ``lut``, ``ff``, ``dsp``, ``bram``."""
    return block_sizes(design, ecp5_cells_of, lambda cells: asdict(size_of(cells)), progress)
