"""Fit the explorer's model of area to configurations that were synthesized, and say how good it is.

make synth CONFIG=... for each of FITTED_TO, then
python scripts/area.py

Writes sw/tpulite/explore/area.csv. Other configurations of sw/tpulite/parts.csv are held out.
"""

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import numpy as np

from tpulite.configs import named_config
from tpulite.explore.area import FITTED, GROUPS, Weights, area, group_of
from tpulite.parts import SIZES, Part, Size
from tpulite_rtl.verilated.toolchain import build_root

TABLE = Path(__file__).resolve().parents[1] / "sw/tpulite/explore/area.csv"

FITTED_TO = (
    "4x4",
    "4x4,queue_depth=4,ub_rows=4096,acc_rows=256",
    "4x4,multipliers=logic,ub_rows=1024",
    "8x8",
    "ecp5-25",
    "ecp5-45",
)


def fit(reports: Mapping[str, dict]) -> Weights:
    """Return the weights, no less than 0, that come nearest to what groups of blocks take."""
    configs = {name: named_config(name) for name in reports}
    weights: dict[tuple[str, str], dict[str, float]] = {}
    for name, group in GROUPS.items():
        terms = {term: [f(c) for c in configs.values()] for term, f in group.terms.items()}
        matrix = np.array(list(terms.values()), dtype=float).T
        for resource in FITTED:
            sizes = [
                sum(b[resource] for b in report["blocks"] if group_of(b["name"]) == name)
                for report in reports.values()
            ]
            found = nonnegative(matrix, np.array(sizes, dtype=float))
            for term, weight in zip(terms, found, strict=True):
                weights.setdefault((name, term), {})[resource] = float(f"{weight:.4g}")
    return weights


def nonnegative(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return least squares of relative errors, without terms whose weight would be negative."""
    scale = 1 / np.maximum(values, 1)
    used = [column for column in range(matrix.shape[1]) if matrix[:, column].any()]
    result = np.zeros(matrix.shape[1])
    while used:
        part, *_ = np.linalg.lstsq(matrix[:, used] * scale[:, None], values * scale, rcond=None)
        if part.min() >= 0:
            result[used] = part
            break
        used.pop(int(part.argmin()))
    return result


def main() -> None:
    """Fit, print errors, write."""
    reports = {name: report for name in FITTED_TO if (report := read_report(name))}
    weights = fit(reports)
    rows = [{"group": g, "term": t, **found} for (g, t), found in weights.items()]
    TABLE.write_text(as_csv(rows))
    for name, report in reports.items():
        print(f"fitted to {name}: {errors(name, Part(**report['chip']), weights)}")
    for name, size in SIZES.items():
        if name not in FITTED_TO:
            print(f"held out {name}: {errors(name, size, weights)}")


def errors(name: str, measured: Part | Size, weights: Weights) -> str:
    """Return what was measured, and by how much the estimate is off."""
    estimate = area(named_config(name), weights)
    pairs = {x: (getattr(measured, x), getattr(estimate, x)) for x in ("lut", "ff", "dsp", "bram")}
    return ", ".join(
        f"{x} {is_:,} ({est / is_ - 1:+.1%})" for x, (is_, est) in pairs.items() if is_ or est
    )


def read_report(name: str) -> dict:
    """Return what was synthesized of this definition of a configuration, nothing if it is not."""
    path = build_root() / "synth" / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if found.get("hash") == f"{named_config(name).hash:#010x}" else {}


def as_csv(rows: list[dict]) -> str:
    """Return a table."""
    text = StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    main()
