"""Figure of live ranges: rows of the unified buffer to the right, time steps downward."""

from collections.abc import Callable

from bokeh.models import FixedTicker, Range1d
from bokeh.plotting import figure

from tpulite.arch.config import Config
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.schedule.live_tensors import (
    Grouped,
    LiveBuffer,
    Moment,
    Section,
    StepNumbers,
)
from tpulite.report.html.style import chart, legend_above, source, tell

__all__ = ["make_live_ranges"]

_COLORS = {"activation": "#4c78c8", "weight": "#2e9e5b", "buffer": "#f0a03c"}

_STEP, _AXIS = 16, 110
"""Pixels of a time step, and of axis and legend."""

_LEAST, _MOST = 260, 2400
"""Pixels of the figure."""

_LABELS = 80
"""Buffers that say in the figure what they hold, the largest; others do so below the mouse."""

_TICKS = (_MOST - _AXIS) // _STEP
"""Time steps that have a label, at most."""


def make_live_ranges(network: Grouped, config: Config) -> figure:
    """Return what has which rows from when to when: rectangles that can move sideways only."""
    numbers = StepNumbers.of(network.layers)
    moments = [each for section in network.sections for each in section.moments]
    cut = {i: _slices(network, each) for each in network.sections if each.cut for i in each.layers}
    buffers = list(dict.fromkeys(x for section in network.sections for x in section.buffers))
    labeled = set(sorted(buffers, key=_area, reverse=True)[:_LABELS])

    def name(moment: Moment) -> str:
        images, slices = cut.get(moment.layer, (1, 1))
        image, index = divmod(moment.slice, slices)
        texts = [f"image {image}"] * (images > 1) + [f"slice {index}"] * (slices > 1)
        return ", ".join((f"T{numbers.layers[moment.layer]}", *texts))

    height = min(max(_AXIS + _STEP * len(moments), _LEAST), _MOST)
    plot = chart(
        height,
        "pan,box_zoom,wheel_zoom,reset,save",
        x_range=Range1d(start=0, end=config.ub_rows, bounds=(0, config.ub_rows)),
        y_range=Range1d(start=len(moments), end=0),
    )
    for kind, color in _COLORS.items():
        some = [each for each in buffers if each.kind == kind]
        if not some:
            continue
        data = source(
            f"live {kind}",
            {
                "left": [each.row for each in some],
                "right": [each.row + each.rows for each in some],
                "last": [each.row + each.rows - 1 for each in some],
                "top": [each.time[0] for each in some],
                "bottom": [each.time[1] for each in some],
                "label": [each.label if each in labeled else "" for each in some],
                "x": [each.row + each.rows / 2 for each in some],
                "y": [sum(each.time) / 2 for each in some],
                "name": [f"{each.label}: {each.name}" for each in some],
                "live": [_span(each, name) for each in some],
                "rows": [each.rows for each in some],
            },
        )
        blocks = plot.quad(
            left="left",
            right="right",
            top="top",
            bottom="bottom",
            fill_color=color,
            fill_alpha=0.55,
            line_color="white",
            legend_label=kind,
            source=data,
        )
        plot.text(
            x="x",
            y="y",
            text="label",
            text_align="center",
            text_baseline="middle",
            text_font_size="11px",
            source=data,
        )
        tips = [
            *(("holds", "@name"), ("live", "@live")),
            ("rows", "@rows{0,0}: @left{0,0} to @last{0,0}"),
        ]
        tell(plot, tips, blocks)
    step = -(-len(moments) // _TICKS)
    plot.yaxis.ticker = FixedTicker(ticks=[i + 0.5 for i in range(0, len(moments), step)])
    plot.yaxis.major_label_overrides = {
        i + 0.5: name(moments[i]) for i in range(0, len(moments), step)
    }
    plot.xaxis.axis_label = "rows of the unified buffer"
    legend_above(plot)
    return plot


def _slices(network: Grouped, section: Section) -> tuple[int, int]:
    """Return the images that a section goes through, and the slices of each."""
    steps = 1 + max((each.slice for each in section.moments), default=0)
    group = section.groups[0]
    parts = len(plan_steps(network.layers, group)) * group.columns if group.slices else steps
    return (steps // parts, parts) if steps % parts == 0 else (1, steps)


def _area(each: LiveBuffer) -> float:
    """Return rows times time steps."""
    return each.rows * (each.time[1] - each.time[0])


def _span(each: LiveBuffer, name: Callable[[Moment], str]) -> str:
    first, last = (name(moment) for moment in each.lives)
    return f"from {first} to {'the end of the group' if each.stays else last}"
