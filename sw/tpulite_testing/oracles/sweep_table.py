"""Print how many elements of each operator equal each library's.

The table of docs/exactness.md is what ``python -m tpulite_testing.oracles.sweep_table 400`` prints,
and ``--only OPERATOR...`` some of its rows.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from tpulite.quant.exactness import Exactness
from tpulite_testing.drawn import onnx_cases
from tpulite_testing.drawn.operator_cases import OPERATORS, Case, draw_case
from tpulite_testing.oracles.litert import KERNELS, run_golden, run_litert

__all__ = ["main"]


def main(count: int, seed: int, operators: Sequence[str] = ()) -> int:
    """Print the table, or the rows of some operators; return how many elements differ."""
    names = [*KERNELS, Exactness.ORT]
    print("| operator | " + " | ".join(f"`{name}`" for name in names) + " |")
    print("| --- |" + " ---: |" * len(names))
    differ = 0
    for op in operators or dict.fromkeys((*OPERATORS, *onnx_cases.OPERATORS)):
        cells = []
        for name in names:
            cell, wrong = _count(op, name, range(seed, seed + count))
            cells.append(cell)
            differ += wrong
        print(f"| {op} | " + " | ".join(cells) + " |")
    return differ


def _count(op: str, exactness: Exactness, seeds: range) -> tuple[str, int]:
    if op not in (onnx_cases.OPERATORS if exactness == Exactness.ORT else OPERATORS):
        return "", 0
    equal = wrong = left = 0
    for seed in seeds:
        case, theirs = _draw(op, exactness, seed)
        try:
            ours = run_golden(case, exactness)
        except ValueError:
            left += 1
            continue
        same = int(np.count_nonzero(ours == theirs()))
        equal, wrong = equal + same, wrong + ours.size - same
    if left == len(seeds):
        return "host", 0
    words = [f"{equal:,}", f"**{wrong} differ**" * bool(wrong), f"({left} host)" * bool(left)]
    return " ".join(word for word in words if word), wrong


def _draw(op: str, exactness: Exactness, seed: int) -> tuple[Case, Callable[[], np.ndarray]]:
    if exactness == Exactness.ORT:
        case, model = onnx_cases.draw_onnx_case(op, seed)
        return case, lambda: onnx_cases.run_ort(case, model)
    case = draw_case(op, seed)
    return case, lambda: run_litert(case, exactness)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--only", nargs="+", default=(), metavar="OPERATOR")
    given = parser.parse_args()
    sys.exit(bool(main(given.cases, given.seed, given.only)))
