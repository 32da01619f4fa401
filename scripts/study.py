"""Measure five networks on 200 machines, and write the tables and pictures of docs/study.md.

make study

Outcomes are kept: a second run measures only what the compiler's sources have changed.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from markdown_table import table
from study_pictures import draw_all
from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.cache import cache_home
from tpulite.compiler.options import Options
from tpulite.executors import LocalExecutor
from tpulite.executors.kept import Records
from tpulite.explore.measure import measure
from tpulite.explore.point import Point, pareto, two_digits
from tpulite.explore.space import Space, read_axes
from tpulite.explore.study import Store, Study
from tpulite.runtime.model import Model
from tpulite.zoo import find_network

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "study.md"
BEGIN, END = "<!-- tables: scripts/study.py -->\n", "<!-- end -->\n"

NETWORKS = ("resnet8", "kws", "vww", "ad", "kws_on_off")
DEFAULT = Config()

GRID = ("array_size=8..32", "ub_rows=1024..16384", "dram_latency=25..200")
"""All combinations: what is large, and how far away the DRAM is."""

LEAN = {"ub_rows": 4096, "ub_banks": 4, "acc_rows": 128, "vector_lanes": 4}
"""What the study suggests instead of the default machine."""

ALONE = (
    "ub_banks=4..32",
    "acc_rows=64..1024",
    "queue_depth=2..64",
    "burst_beats=2..256",
    "dma_bursts=1..32",
    "requant_lanes=1..16",
    "vector_lanes=1..16",
    "dram_latency=12..768",
)
"""One at a time, all else as in the default machine."""

DRAWN = (
    "array_size=4..32",
    "ub_rows=2048..16384",
    "acc_rows=128..1024",
    "requant_lanes=1..16",
    "vector_lanes=1..16",
    "burst_beats=8..64",
    "dma_bursts=2..16",
)
"""Drawn at random, until there are :data:`POINTS`."""

POINTS, SEED = 200, 2024
OBJECTIVES = ("cycles", "area", "bram", "energy")


def machines() -> tuple[list[dict], list[dict], list[dict]]:
    """Return the values of the points: of the grid, one at a time, and drawn."""
    grid = list(Space(DEFAULT, read_axes(GRID)).grid())
    alone = [values for axis in ALONE for values in Space(DEFAULT, read_axes([axis])).grid()]
    space = Space(DEFAULT, read_axes(DRAWN))
    drawn = [values for values in space.sample(2 * POINTS, SEED) if _possible(space, values)]
    count = POINTS - len(grid) - len(alone)
    chosen = [drawn[i * len(drawn) // count] for i in range(count)]
    return grid, alone, [*chosen[:-1], LEAN]


def _possible(space: Space, values: dict) -> bool:
    try:
        space.config(values)
    except ValueError:
        return False
    return True


def bounds(point: Point) -> dict[str, tuple[float, float, float]]:
    """Return for each network its cycles, and the parts in which the array, and DRAM, works."""
    assert point.config is not None
    size = point.config.array_size
    return {
        name: (
            counts.cycles,
            counts.macs / size**2 / counts.cycles,
            (counts.read_bytes + counts.written_bytes) / BEAT_BYTES / counts.cycles,
        )
        for name, counts in point.counts.items()
    }


def tables(parts: Sequence[Sequence[Point]]) -> list[str]:
    """Return the tables of the page."""
    grid, alone, drawn = parts
    default = next(x for x in alone if x.config == DEFAULT and "dram_latency" not in x.values)
    lines = ["## Tables", "", "The default machine:", ""]
    rows = [
        (
            name,
            f"{cycles:,.0f}",
            f"{array:.0%}",
            f"{dram:.0%}",
            *(two_digits(x / 1000) for x in _energy(default, name)),
        )
        for name, (cycles, array, dram) in bounds(default).items()
    ]
    lines += table("network|cycles|array busy|DRAM busy|array uJ|buffers|results|DRAM", rows)
    lines += [
        "One field at a time: cycles of the slowest and the fastest value to the default's.",
        "",
    ]
    rows = []
    for axis in ALONE:
        field = axis.split("=")[0]
        points = [point for point in alone if field in point.values and not point.trouble]
        row = [f"`{axis}`"]
        for name in NETWORKS:
            ratios = [x.counts[name].cycles / default.counts[name].cycles for x in points]
            row.append(f"{max(ratios):.2f} to {min(ratios):.2f}")
        rows.append(row)
    lines += table("|".join(("field", *NETWORKS)), rows)
    near = [x for x in (*grid, *alone, *drawn) if not x.trouble and _near(x)]
    best = pareto(near, ("cycles", "area"))
    lines += [
        f"Not beaten in cycles (of all five) and area, of the {len(near)} points with the "
        "reference memory that run all five:",
        "",
    ]
    rows = sorted(
        {
            (
                point.objective("cycles"),
                ", ".join(f"{x}={point.shown(x)}" for x in point.values if x != "dram_latency"),
                f"{point.objective('cycles'):,}",
                *(point.shown(name) for name in OBJECTIVES[1:]),
            )
            for point in best
        }
    )
    lines += table("machine|cycles|LUT|block RAM|uJ", [row[1:] for row in rows])
    bad = [x for x in (*grid, *alone, *drawn) if x.trouble]
    said = f"{len(bad) or 'None'} of the {POINTS} points fails to run all five networks."
    return [*lines, said, ""]


def _near(point: Point) -> bool:
    return Space(DEFAULT, ()).memory_of(dict(point.values)) == REFERENCE_MEMORY


def _energy(point: Point, name: str) -> tuple[float, float, float, float]:
    alone = Point(point.values, point.config, {name: point.outcomes[name]}).energy
    return alone.array, alone.buffers, alone.results, alone.dram


def main() -> None:
    """Measure, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, help="processes; one for each core without it")
    workers = parser.parse_args().workers
    networks = {name: Model.load(find_network(name)).layers for name in NETWORKS}
    chosen = machines()
    study = Study(networks, Space(DEFAULT, ()), Options(), Store(Records(cache_home() / "explore")))
    with LocalExecutor(measure, networks, workers) as executor:
        tell = lambda known, all_: print(f"\r{known} of {all_}", end="", flush=True)  # noqa: E731
        points = study.points([x for each in chosen for x in each], executor, tell)
    print()
    starts = (0, len(chosen[0]), len(chosen[0]) + len(chosen[1]), len(points))
    parts = [points[start:stop] for start, stop in pairwise(starts)]
    draw_all(DOCS / "study", parts, [axis.split("=")[0] for axis in ALONE])
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([head + BEGIN, *tables(parts), END + rest.partition(END)[2]]))


if __name__ == "__main__":
    main()
