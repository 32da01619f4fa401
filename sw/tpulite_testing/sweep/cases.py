"""All cases of the sweep, and the machines that they are compiled for."""

import math
from collections.abc import Iterator
from functools import cache

from tpulite_testing.sweep.blocks import block_cases
from tpulite_testing.sweep.case import Case
from tpulite_testing.sweep.movement import movement_cases
from tpulite_testing.sweep.products import product_cases
from tpulite_testing.sweep.vectors import vector_cases

__all__ = ["BUFFERS", "MACHINE", "cases", "measurements", "quick_cases"]

MACHINE = "16x16"

BUFFERS = ("16x16,ub_rows=8192", "16x16,ub_rows=4096")
"""Machines with a smaller buffer, the largest first."""

_BUFFERED = ("DEPTHWISE_CONV_2D", "SQUEEZE_EXCITE")
"""Operators that are compiled for them, too."""

_QUICK_BETWEEN = (
    *("MEAN", "REDUCE_MAX", "SOFTMAX", "PRELU", "SPLIT", "PACK", "SPACE_TO_DEPTH"),
    "SQUEEZE_EXCITE",
)
"""Operators of which a small case between convolutions compiles in less than a second."""


@cache
def cases() -> dict[tuple[str, str, str], Case]:
    """Return all cases by their keys."""
    found: dict[tuple[str, str, str], Case] = {}
    for make in (product_cases, vector_cases, movement_cases, block_cases):
        for case in make():
            if case.key in found:
                raise ValueError(f"{' '.join(case.key)}: twice in the sweep")
            found[case.key] = case
    return found


def measurements() -> Iterator[tuple[str, Case]]:
    """Yield machines and cases, in the order of the table."""
    for case in cases().values():
        yield MACHINE, case
        if case.operator in _BUFFERED:
            yield from ((machine, case) for machine in BUFFERS)


def quick_cases() -> list[Case]:
    """Return the smallest case of each operator alone, and of some between convolutions."""
    smallest: dict[tuple[str, str], Case] = {}
    for case in cases().values():
        group = case.operator, case.mode
        if case.mode == "between" and case.operator not in _QUICK_BETWEEN:
            continue
        if group not in smallest or _size(case) < _size(smallest[group]):
            smallest[group] = case
    return list(smallest.values())


def _size(case: Case) -> int:
    return math.prod(case.extents)
