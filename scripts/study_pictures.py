"""The pictures of docs/study.md, as SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.explore.energy import energy
from tpulite.explore.point import Point, pareto
from tpulite.explore.space import Space

mpl.use("Agg")
mpl.rcParams |= {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tpulite",  # equal pictures are equal files
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
}
DEFAULT = Config()
SIZES = {4: "#7b3294", 8: "#2b83ba", 16: "#1a9641", 32: "#d7601a"}
"""Colors of arrays."""

NETWORKS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e")
KINDS = {"array": "#2b83ba", "buffers": "#1a9641", "results": "#e6b422", "DRAM": "#b2182b"}

Parts = Sequence[Sequence[Point]]


def draw_all(folder: Path, parts: Parts, fields: Sequence[str]) -> None:
    """Draw all pictures of a study.

    Parameters
    ----------
    parts : sequence of sequence of Point
        Points of the grid, with one field changed, and drawn.
    fields : sequence of str
        Those that are changed one at a time.
    """
    folder.mkdir(exist_ok=True)
    pictures: dict[str, Callable[[], Figure]] = {
        "front": lambda: front([x for part in parts for x in part]),
        "size": lambda: size(parts[0]),
        "alone": lambda: alone(parts[1], fields),
        "latency": lambda: latency(parts[0]),
        "energy": lambda: energies(parts[0]),
    }
    for name, draw in pictures.items():
        figure = draw()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def near(point: Point) -> bool:
    """Tell whether a point runs everything with the reference memory."""
    return (
        not point.trouble and Space(DEFAULT, ()).memory_of(dict(point.values)) == REFERENCE_MEMORY
    )


def axes_of(count: int, columns: int, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many axes; those that are left over are not shown."""
    rows = -(-count // columns)
    figure = Figure(figsize=(7.4, 2.1 * rows + 0.4), layout="constrained")
    every = list(np.atleast_1d(figure.subplots(rows, columns, sharey=sharey)).flat)
    for each in every[count:]:
        each.set_visible(False)
    return figure, every[:count]


def plain(axis: Axis, ticks: Sequence[float]) -> None:
    """Mark a logarithmic axis with these numbers only, written as people do."""
    axis.set_ticks(ticks)
    axis.set_ticks([], minor=True)
    axis.set_major_formatter("{x:,.7g}")


def front(points: Sequence[Point]) -> Figure:
    """Cycles of all networks by area, and those that no other machine beats in the two."""
    figure = Figure(figsize=(7.4, 3.8), layout="constrained")
    plot = figure.subplots()
    able = [point for point in points if near(point)]
    for number, color in SIZES.items():
        some = [x for x in able if x.config and x.config.array_size == number]
        xs, ys = [x.size.lut for x in some], [x.objective("cycles") for x in some]
        plot.scatter(xs, ys, s=12, color=color, label=f"{number}x{number}", alpha=0.7, linewidth=0)
    best = sorted(pareto(able, ("cycles", "area")), key=lambda x: x.size.lut)
    xs, ys = [x.size.lut for x in best], [x.objective("cycles") for x in best]
    plot.step(xs, ys, where="post", color="#444444", linewidth=0.8, label="not beaten in the two")
    (default,) = {(x.size.lut, x.objective("cycles")) for x in able if x.config == DEFAULT}
    plot.scatter(*default, s=90, marker="*", color="black", zorder=3, label="default")
    plot.set(xscale="log", yscale="log", xlabel="lookup tables of an ECP5, estimated")
    plot.set(ylabel="cycles of all five networks")
    plain(plot.xaxis, (30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 150_000))
    plain(plot.yaxis, (150_000, 200_000, 300_000, 500_000, 1_000_000))
    plot.legend()
    return figure


def size(points: Sequence[Point]) -> Figure:
    """Cycles by size of the buffer, a line for each array."""
    names = list(points[0].outcomes)
    figure, axes = axes_of(len(names), 3)
    for axis, name in zip(axes, names, strict=True):
        for number, color in SIZES.items():
            line = [
                (x.config.ub_bytes / 1024, x.counts[name].cycles)
                for x in points
                if x.config and x.config.array_size == number and near(x)
            ]
            if line:
                axis.plot(*zip(*line, strict=True), ".-", color=color, label=f"{number}x{number}")
        axis.set(title=name, xscale="log", xlabel="KiB of the buffer", ylim=0)
        plain(axis.xaxis, (8, 16, 32, 64, 128, 256, 512))
        axis.yaxis.set_major_formatter("{x:,.0f}")
    axes[0].set_ylabel("cycles")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="lower right", bbox_to_anchor=(0.9, 0.1)
    )
    return figure


def alone(points: Sequence[Point], fields: Sequence[str]) -> Figure:
    """Cycles by one field at a time, to those of the default machine."""
    (default, *_) = (x for x in points if x.config == DEFAULT and near(x))
    figure, axes = axes_of(len(fields), 3, sharey=True)
    for axis, field in zip(axes, fields, strict=True):
        some = [x for x in points if field in x.values and not x.trouble]
        for name, color in zip(default.outcomes, NETWORKS, strict=True):
            ys = [x.counts[name].cycles / default.counts[name].cycles for x in some]
            axis.plot([x.values[field] for x in some], ys, ".-", color=color, label=name)
        usual = 50 if field == "dram_latency" else getattr(DEFAULT, field)
        axis.axvline(usual, color="#888888", linewidth=0.6, linestyle=":")
        axis.set(title=field, xscale="log", yscale="log")
        plain(axis.xaxis, [x.values[field] for x in some])
        plain(axis.yaxis, (1, 1.5, 2, 3, 4, 6, 8))
        axis.tick_params(axis="x", labelsize=6.5)
    axes[0].set_ylabel("cycles to the default's")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="lower right", bbox_to_anchor=(0.95, 0.1)
    )
    return figure


def latency(points: Sequence[Point]) -> Figure:
    """Cycles of each array by the latency of DRAM, to those with the nearest."""
    names = list(points[0].outcomes)
    figure, axes = axes_of(len(names), 3, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        for number, color in SIZES.items():
            cycles = {
                x.values["dram_latency"]: x.counts[name].cycles
                for x in points
                if x.config
                and (x.config.array_size, x.config.ub_rows) == (number, DEFAULT.ub_rows)
                and not x.trouble
            }
            if not cycles:
                continue
            ys = [each / cycles[min(cycles)] for each in cycles.values()]
            axis.plot(list(cycles), ys, ".-", color=color, label=f"{number}x{number}")
        axis.set(title=name, xlabel="cycles of a read's latency")
    axes[0].set_ylabel("cycles to those at 25")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="lower right", bbox_to_anchor=(0.9, 0.1)
    )
    return figure


def energies(points: Sequence[Point]) -> Figure:
    """Where the energy goes, by size of the buffer of the default array."""
    names = list(points[0].outcomes)
    some = [x for x in points if near(x) and x.config and x.config.array_size == DEFAULT.array_size]
    figure, axes = axes_of(len(names), 5)
    figure.set_figheight(2.6)
    for axis, name in zip(axes, names, strict=True):
        found = [energy(x.config, [x.counts[name]]) for x in some if x.config]
        parts = [(x.array, x.buffers, x.results, x.dram) for x in found]
        below = np.zeros(len(found))
        for kind, values in zip(KINDS, np.array(parts).T / 1000, strict=True):
            axis.bar(range(len(found)), values, 0.7, below, color=KINDS[kind], label=kind)
            below += values
        labels = [f"{x.config.ub_bytes // 1024}" for x in some if x.config]
        axis.set_xticks(range(len(found)), labels, fontsize=6.5)
        axis.set(title=name, xlabel="KiB")
    axes[0].set_ylabel("uJ a run, within a factor of two")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
