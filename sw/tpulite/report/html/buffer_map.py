"""Figure over time: what lies in which rows of the unified buffer."""

from collections.abc import Sequence

import numpy as np
from bokeh.models import NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from tpulite.report.buffer_map import Block, map_buffer
from tpulite.report.html.style import chart, in_turn, layer_color, source, tell
from tpulite.report.traced_run import TracedRun

__all__ = ["make_buffer_map"]

_LIGHT = 0.4
"""Opacity of weights and inputs; activations are opaque."""

_BEFORE = "#888888"
"""Color of what lies there before the run."""


def make_buffer_map(runs: Sequence[TracedRun], timeline: figure) -> figure:
    """Return rows of the unified buffer over the same cycles as a timeline."""
    found = [
        (begin, before, run, block)
        for begin, before, run in in_turn(runs)
        for block in map_buffer(run)
    ]
    data = source(
        "buffer",
        {
            "start": np.array([begin + x.start for begin, _, _, x in found], np.int32),
            "stop": np.array([begin + x.stop for begin, _, _, x in found], np.int32),
            "row": np.array([x.row for *_, x in found], np.int32),
            "end": np.array([x.end for *_, x in found], np.int32),
            "last": np.array([x.end - 1 for *_, x in found], np.int32),
            "name": [_name(run, x) for *_, run, x in found],
            "color": [
                layer_color(before + x.layer) if x.layer >= 0 else _BEFORE
                for _, before, _, x in found
            ],
            "alpha": [1.0 if x.kind == "activations" else _LIGHT for *_, x in found],
        },
    )
    rows = max((run.program.config.ub_rows for run in runs), default=0)
    plot = chart(
        420,
        "pan,box_zoom,xwheel_zoom,reset,save",
        active_scroll="xwheel_zoom",
        x_range=timeline.x_range,
        y_range=Range1d(start=0, end=rows, bounds=(0, rows)),
    )
    blocks = plot.quad(
        left="start",
        right="stop",
        bottom="row",
        top="end",
        fill_color="color",
        fill_alpha="alpha",
        line_color=None,
        source=data,
    )
    tips = [
        *(("holds", "@name"), ("rows", "@row{0,0} to @last{0,0}")),
        ("cycles", "from @start{0,0} to @stop{0,0}"),
    ]
    tell(plot, tips, blocks)
    plot.xaxis.axis_label, plot.yaxis.axis_label = "cycles", "rows"
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    return plot


def _name(run: TracedRun, block: Block) -> str:
    if block.layer < 0:
        return block.kind
    return f"{run.program.layers[block.layer].name}: {block.kind}"
