"""Rows of tables that differ in a time step alone, of which one line stands for all."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tpulite.graph.passes.split_lstm import STEP_PARTS

Row = TypeVar("Row")

_STEP = re.compile(rf"(.*/(?:{'|'.join(STEP_PARTS)}))(\d+)")
"""The names that the parts of an unrolled operator have."""

_FEWEST = 4
"""Rows that are worth one line."""


def join_steps(
    rows: Sequence[Row], name: Callable[[Row], str], alike: Callable[[Row], Hashable]
) -> list[tuple[str, list[Row]]]:
    """Return the lines of a table, each with its name and its rows.

    All time steps of an LSTM are a line, and then also rows of one name, such as what the CPU
    computes between steps. Other rows are lines of their own.

    Parameters
    ----------
    rows : sequence
        Rows in order.
    name : callable
        Returns the name of a row.
    alike : callable
        Returns what rows of a line have in common besides their names.

    Examples
    --------
    >>> rows = ["start", "lstm/cell0", "lstm/cell1", "lstm/cell2", "lstm/cell3", "dense"]
    >>> [line for line, _ in join_steps(rows, str, len)]
    ['start', 'lstm/cell0–3', 'dense']
    """
    found = [_STEP.fullmatch(name(row)) for row in rows]
    keys = [
        (step[1] if step else name(row), alike(row)) for row, step in zip(rows, found, strict=True)
    ]
    numbers: dict[Hashable, list[int]] = {}
    for key, step in zip(keys, found, strict=True):
        if step:
            numbers.setdefault(key, []).append(int(step[2]))
    joined = {
        k for k, each in numbers.items() if len(each) >= _FEWEST and each == [*range(len(each))]
    }
    if not joined:
        return [(name(row), [row]) for row in rows]
    joined |= {
        key for key, count in Counter(keys).items() if count >= _FEWEST and key not in numbers
    }
    lines: dict[Hashable, list[Row]] = {}
    for place, (row, key) in enumerate(zip(rows, keys, strict=True)):
        lines.setdefault(key if key in joined else place, []).append(row)
    return [(_span([name(row) for row in line]), line) for line in lines.values()]


def _span(names: Sequence[str]) -> str:
    first, last = names[0], names[-1]
    if len(names) == 1:
        return first
    step = _STEP.fullmatch(last)
    return f"{first}–{step[2]}" if step else f"{first} ({len(names)} times)"
