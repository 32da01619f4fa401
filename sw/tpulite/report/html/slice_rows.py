"""Figure of a group that is cut: which rows of which tensor each slice needs."""

from bokeh.models import FixedTicker, Range1d
from bokeh.plotting import figure

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.graph.layers import LayerGraph
from tpulite.report.html.style import chart, layer_color, shorten, source, tell

__all__ = ["make_slice_rows"]

_LANE, _AXIS = 44, 70
"""Pixels of a tensor, and of the axis."""

_STAGGERED = 3
"""Slices below each other: then those that share rows do not hide each other."""

_KEPT = 0.35
"""Opacity of rows that are kept from the slice before."""

_NAME = 30
"""Letters of a name; the end of it tells tensors apart."""


def make_slice_rows(layers: LayerGraph, group: Group) -> figure:
    """Return the rows of each slice, the inputs of the group on top and its last output below."""
    steps = plan_steps(layers, group)
    members = [layers.layers[i] for i in group.layers]
    made = [layer.output for layer in members]
    names = [*dict.fromkeys(x for each in members for x in each.inputs if x not in made), *made]
    heights = {name: layers.activations[name].shape[0] for name in names}
    lanes = min(_STAGGERED, len(steps))
    parts = [
        (lane, number, rows, opacity)
        for lane, name in enumerate(names)
        for number, step in enumerate(steps)
        for rows, opacity in (
            (step[name].new, 1.0),
            (range(step[name].live.start, step[name].new.start), _KEPT),
        )
        if rows
    ]
    tops = [lane + 0.1 + 0.8 * (number % lanes) / lanes for lane, number, _, _ in parts]
    data = source(
        f"rows of {members[-1].name}",
        {
            "left": [rows.start for _, _, rows, _ in parts],
            "right": [rows.stop for _, _, rows, _ in parts],
            "top": tops,
            "bottom": [top + 0.8 / lanes for top in tops],
            "name": [names[lane] for lane, *_ in parts],
            "slice": [number for _, number, _, _ in parts],
            "what": ["computed or loaded" if o == 1.0 else "kept" for *_, o in parts],
            "color": [layer_color(2 * number) for _, number, _, _ in parts],  # no pale ones
            "alpha": [opacity for *_, opacity in parts],
        },
    )
    plot = chart(
        _AXIS + _LANE * len(names),
        "xpan,xbox_zoom,xwheel_zoom,reset,save",
        x_range=Range1d(start=0, end=max(heights.values())),
        y_range=Range1d(start=len(names), end=0),
    )
    blocks = plot.quad(
        left="left",
        right="right",
        top="top",
        bottom="bottom",
        fill_color="color",
        fill_alpha="alpha",
        line_color="white",
        source=data,
    )
    tips = [("tensor", "@name"), ("slice", "@slice"), ("rows", "[@left, @right), @what")]
    tell(plot, tips, blocks)
    plot.yaxis.ticker = FixedTicker(ticks=[lane + 0.5 for lane in range(len(names))])
    plot.yaxis.major_label_overrides = {
        lane + 0.5: f"{shorten(name, _NAME)} ({heights[name]})" for lane, name in enumerate(names)
    }
    plot.xaxis.axis_label = "rows of the tensor"
    return plot
