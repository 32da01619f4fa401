"""On which simulators ``make test`` runs the sizes of a bench, and how much they draw there."""

from collections.abc import Mapping

__all__ = ["PARTS", "SIMULATORS", "runs_of"]

SIMULATORS = ("verilator", "icarus")

PARTS: Mapping[str, int] = {"verilator": 1, "icarus": 6}
"""Of how many parts of its draws a first size makes one: Icarus takes ten times as long."""

_OTHER_SIZES = 4
"""The same of a size that runs nowhere else."""

_COMPILED = (
    "accumulator",
    "dispatcher",
    "matrix_unit",
    "preparation",
    "vector_engine",
    "vector_sequencer",
)
"""Benches that Icarus takes longer to run in a larger size than a C++ compiler and Verilator."""


def runs_of(bench: str, sizes: int) -> list[Mapping[str, int]]:
    """Return for each size of a bench its simulators, and of how many parts they draw one.

    The first size, the smallest that has all of the component, draws in full on Verilator and a
    part on Icarus, so that what only one of them shows has been seen on the other. The rest run on
    Icarus alone, whose models need no C++, or on Verilator alone if Icarus would take longer.

    Examples
    --------
    >>> runs_of("fifo", 3)[1:]
    [{'icarus': 4}, {'icarus': 4}]
    """
    other = SIMULATORS[0] if bench in _COMPILED else SIMULATORS[1]
    return [PARTS, *[{other: _OTHER_SIZES}] * (sizes - 1)]
