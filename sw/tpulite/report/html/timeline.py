"""Figures over time: what each engine does, command by command, and what DRAM moves."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from bokeh.models import DataRange1d, FixedTicker, Range1d
from bokeh.plotting import figure

from tpulite.arch.isa import Engine
from tpulite.report.executed import bytes_a_cycle, command_layers, executed
from tpulite.report.html.style import chart, in_turn, layer_color, legend_above, source, tell
from tpulite.report.traced_run import TracedRun

__all__ = ["make_bandwidth", "make_timeline"]

_TOOLS = "xpan,xbox_zoom,xwheel_zoom,reset,save"
_BINS = 1000
"""Stretches of a run over which the bandwidth is averaged: about one for each pixel."""


class _Slice(NamedTuple):
    """A command on the track of its engine; cycles count from the start of the first run."""

    first: int
    start: int
    stop: int
    number: int
    row: int
    layer: str
    color: str
    opcode: str


_NUMBERS = ("first", "start", "stop", "number", "row")


def make_timeline(runs: Sequence[TracedRun]) -> figure:
    """Return a track for each engine, with its commands in the colors of their layers."""
    slices = [
        each
        for begin, color, run in in_turn(runs)
        for engine in run.traces
        for each in _slices(run, engine, begin, color)
    ]
    columns: dict[str, Any] = {
        name: [getattr(each, name) for each in slices] for name in _Slice._fields
    }
    for name in _NUMBERS:
        columns[name] = np.array(columns[name], np.int32)  # the page holds arrays in binary
    data = source("commands", columns)
    end = sum(run.cycles for run in runs)
    plot = chart(
        260,
        _TOOLS,
        active_scroll="xwheel_zoom",
        x_range=Range1d(start=0, end=end, bounds=(0, end)),
        y_range=Range1d(start=len(Engine) - 0.5, end=-0.5),
    )
    bars: dict[str, Any] = {"y": "row", "height": 0.8, "source": data, "line_color": None}
    plot.hbar(left="first", right="start", fill_color="#e4e4e4", **bars)
    work = plot.hbar(left="start", right="stop", fill_color="color", **bars)
    tips = [
        *(("layer", "@layer"), ("command", "@opcode @number")),
        *(("waits from", "@first{0,0}"), ("works", "from @start{0,0} to @stop{0,0}")),
    ]
    tell(plot, tips, work)
    plot.yaxis.ticker = FixedTicker(ticks=[int(engine) for engine in Engine])
    plot.yaxis.major_label_overrides = {int(engine): engine.name for engine in Engine}
    plot.ygrid.grid_line_color = None
    return plot


def make_bandwidth(runs: Sequence[TracedRun], timeline: figure) -> figure:
    """Return the bytes a cycle that LOAD and STORE move, over the same cycles as a timeline."""
    plot = chart(
        240,
        _TOOLS,
        active_scroll="xwheel_zoom",
        x_range=timeline.x_range,
        y_range=DataRange1d(start=0),
    )
    end = sum(run.cycles for run in runs)
    edges = np.linspace(0, end, _BINS + 1)
    for engine, word, color in (
        (Engine.LOAD, "read", "#1f77b4"),
        (Engine.STORE, "written", "#d62728"),
    ):
        steps = [
            (begin + cycle, rate)
            for begin, _, run in in_turn(runs)
            for cycle, rate in bytes_a_cycle(run, engine)
        ]
        cycle, rate = np.array([*steps, (end, 0.0)]).T
        moved = np.concatenate([[0], np.cumsum(np.diff(cycle) * rate[:-1])])
        mean = np.diff(np.interp(edges, cycle, moved)) / np.diff(edges)
        exact = source(f"{word} exactly", {"cycle": cycle, "rate": rate})
        average = source(word, {"cycle": edges, "rate": np.append(mean, 0)})
        style: dict[str, Any] = {"x": "cycle", "y": "rate", "mode": "after", "color": color}
        plot.step(**style, source=exact, alpha=0.3, legend_label=f"{word}, by command")
        plot.step(**style, source=average, line_width=2, legend_label=f"{word}, on average")
    plot.yaxis.axis_label = "bytes a cycle"
    plot.xaxis.axis_label = "cycles"
    legend_above(plot)
    return plot


def _slices(run: TracedRun, engine: Engine, begin: int, before: int) -> Iterator[_Slice]:
    """Yield the commands of an engine that starts in a cycle, after so many layers of others."""
    owners = command_layers(run.program)
    for number, first, start, stop, _ in executed(run.traces[engine]):
        owner, opcode = int(owners[number]), run.program.commands[number].opcode.name
        layer, color = run.program.layers[owner].name, layer_color(before + owner)
        cycles = begin + first, begin + start, begin + stop
        yield _Slice(*cycles, number, int(engine), layer, color, opcode)
