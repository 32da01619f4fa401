"""Figure: the cycles of each layer as a bar, by what they are spent on."""

from bokeh.models import DataRange1d, FixedTicker, Range1d
from bokeh.plotting import figure

from tpulite.report.html.style import COLORS, chart, legend_above, shorten, source, tell
from tpulite.report.profile import Profile
from tpulite.report.spending import Cause

__all__ = ["make_layer_bars"]

_ROW = 18
"""Pixels of a bar and the space after it: one line of text."""

_AXIS = 90
"""Pixels of title, axis and legend."""

_NAME = 36
"""Letters of a name beside its bar; the end of it tells layers apart."""


def make_layer_bars(profile: Profile) -> figure:
    """Return a bar for each layer of the machine, the first on top."""
    layers = [layer for layer in profile.layers if layer.where == "machine"]
    rows = list(range(len(layers)))
    causes = [cause for cause in Cause if any(cause in layer.spent for layer in layers)]
    data = source(
        "layers",
        {
            "row": rows,
            "name": [layer.name for layer in layers],
            "cycles": [layer.cycles for layer in layers],
            "share": [layer.cycles / max(1, profile.cycles) for layer in layers],
            "utilization": [layer.utilization for layer in layers],
            "macs": [layer.macs for layer in layers],
            "spending": [layer.spending() or "works only while others do" for layer in layers],
            **{cause.name: [layer.spent.get(cause, 0) for layer in layers] for cause in causes},
        },
    )
    plot = chart(
        _AXIS + _ROW * max(3, len(layers)),
        "xpan,xbox_zoom,xwheel_zoom,reset,save",
        x_range=DataRange1d(start=0),
        y_range=Range1d(start=len(layers) - 0.4, end=-0.6),
    )
    bars = plot.hbar_stack(
        [cause.name for cause in causes],
        y="row",
        height=0.8,
        color=[COLORS[cause] for cause in causes],
        legend_label=[str(cause) for cause in causes],
        source=data,
    )
    tips = [
        *(("layer", "@name"), ("cycles", "@cycles{0,0} (@share{0.0%} of all)")),
        *(("spent on", "@spending"), ("multiplications", "@macs{0,0}")),
        ("utilization", "@utilization{0.0%}"),
    ]
    tell(plot, tips, *bars)
    plot.xaxis.axis_label = "cycles"
    plot.yaxis.ticker = FixedTicker(ticks=rows)
    plot.yaxis.major_label_overrides = {row: shorten(x.name, _NAME) for row, x in enumerate(layers)}
    plot.ygrid.grid_line_color = None
    if causes:
        legend_above(plot)
    return plot
