"""Figure: how near each layer comes to what the machine can do."""

import math

from bokeh.models import DataRange1d, NumeralTickFormatter
from bokeh.plotting import figure

from tpulite.arch.timing import row_cycles
from tpulite.report.html.style import COLORS, chart, legend_above, source, tell
from tpulite.report.profile import LayerProfile, Profile
from tpulite.report.spending import Cause

__all__ = ["make_roofline"]

_LEAST, _MORE = 7, 40
"""Pixels across the point of a layer that takes hardly any cycles, and how many more for all."""


def make_roofline(profile: Profile) -> figure:
    """Return a point for each layer that multiplies, and the two roofs over them."""
    layers = [layer for layer in profile.layers if layer.macs and layer.cycles]
    layers.sort(key=lambda layer: -layer.cycles)  # small points in front of large ones
    data = {
        "name": [layer.name for layer in layers],
        "intensity": [_intensity(layer) for layer in layers],
        "rate": [layer.macs / layer.cycles for layer in layers],
        "cycles": [layer.cycles for layer in layers],
        "share": [layer.cycles / profile.cycles for layer in layers],
        "size": [_LEAST + _MORE * math.sqrt(x.cycles / profile.cycles) for x in layers],
        "color": [COLORS[layer.bound or Cause.WAITING] for layer in layers],
        "bound": [str(layer.bound) for layer in layers],
    }
    plot = chart(
        420,
        "pan,box_zoom,wheel_zoom,reset,save",
        x_axis_type="log",
        y_axis_type="log",
        y_range=DataRange1d(range_padding=0.15),
    )
    config = profile.config
    peak, moved = config.array_size**2, config.row_bytes / row_cycles(config)
    ridge = peak / moved
    low, high = min([ridge, *data["intensity"]]) / 2, max([ridge, *data["intensity"]]) * 2
    roofs = source("roofs", {"x": [low, ridge, high], "y": [low * moved, peak, peak]})
    plot.line("x", "y", line_width=2, color="#444444", source=roofs)
    points = plot.scatter(
        "intensity",
        "rate",
        size="size",
        color="color",
        fill_alpha=0.6,
        legend_group="bound",
        source=source("roofline", data),
    )
    tips = [
        *(("layer", "@name"), ("cycles", "@cycles{0,0} (@share{0.0%} of all)")),
        *(("MACs a cycle", "@rate{0,0.0}"), ("MACs a byte", "@intensity{0,0.0}")),
        ("bound by", "@bound"),
    ]
    tell(plot, tips, points)
    plot.axis.formatter = NumeralTickFormatter(format="0,0.[000]")
    plot.xaxis.axis_label, plot.yaxis.axis_label = "MACs a byte", "MACs a cycle"
    legend_above(plot, click="none")
    return plot


def _intensity(layer: LayerProfile) -> float:
    """Return MACs a byte of that direction which moves more: the bus has one of each."""
    return layer.macs / max(layer.traffic.read_bytes, layer.traffic.written_bytes)
