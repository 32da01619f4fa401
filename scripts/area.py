"""Fit the explorer's model of area to configurations that were synthesized, and say how good it is.

make synth CONFIG=... and make timing CONFIG=... for each of FITTED_TO, then
python scripts/area.py

Writes sw/tpulite/explore/area.csv. Other configurations of sw/tpulite/parts.csv are held out.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.arch.build import Build
from tpulite.cli.common import save_csv
from tpulite.configs import named_chip
from tpulite.explore.area import FITTED, GROUPS, Weights, area, gates, group_of
from tpulite.parts import SIZES
from tpulite_silicon.report import known_report

TABLE = Path(__file__).resolve().parents[1] / "sw/tpulite/explore/area.csv"

FITTED_TO = (
    "4x4",
    "4x4,queue_depth=4,ub_rows=4096,acc_rows=256",
    "4x4,multipliers=logic,ub_rows=1024",
    "8x8",
    "ecp5-25,memories=generic",
    "ecp5-25,memories=generic,queue_depth=2",
    "ecp5-45,memories=generic,requant_lanes=4",
)
"""Queues that are lookup tables: those in block RAM are worked out. The table is older: the last
one had every other column in logic then."""


def fit(resource: str, reports: Mapping[str, dict]) -> dict[tuple[str, str], float]:
    """Return the weights, no less than 0, that come nearest to what groups of blocks take."""
    chips = [named_chip(name) for name in reports]
    if resource == "gates":  # know no DSP blocks
        chips = [(config, Build()) for config, _ in chips]
    weights = {}
    for name, group in GROUPS.items():
        matrix = np.array([[float(f(*chip)) for f in group.terms.values()] for chip in chips])
        sizes = [
            sum(b[resource] for b in report["blocks"] if group_of(b["name"]) == name)
            for report in reports.values()
        ]
        found = nonnegative(matrix, np.array(sizes, dtype=float))
        weights |= {(name, t): float(f"{w:.4g}") for t, w in zip(group.terms, found, strict=True)}
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
    reports = {
        kind: {name: report for name in FITTED_TO if (report := known_report(kind, name))}
        for kind in ("synth", "timing")
    }
    found = {x: fit(x, reports["timing" if x == "gates" else "synth"]) for x in FITTED}
    weights = {key: {x: found[x][key] for x in FITTED} for key in found["lut"]}
    rows = [{"group": g, "term": t, **each} for (g, t), each in weights.items()]
    save_csv(TABLE, rows)
    for name in FITTED_TO:
        measured = {k: known_report(k, name).get("chip", {}) for k in ("synth", "timing")}
        print(f"fitted to {name}: {errors(name, measured['synth'] | measured['timing'], weights)}")
    for name, size in SIZES.items():
        if name not in FITTED_TO:
            print(f"held out {name}: {errors(name, asdict(size), weights)}")


def errors(name: str, measured: Mapping[str, Any], weights: Weights) -> str:
    """Return what was measured, and by how much the estimate is off."""
    config, build = named_chip(name)
    estimate = asdict(area(config, build, weights)) | {"gates": gates(config, weights)}
    pairs = {x: (measured[x], y) for x, y in estimate.items() if measured.get(x)}
    return ", ".join(f"{x} {is_:,} ({est / is_ - 1:+.1%})" for x, (is_, est) in pairs.items())


if __name__ == "__main__":
    main()
