"""Figure: the network as it is drawn, each operator in the color of who computes it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.layouts import row
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    GraphRenderer,
    HoverTool,
    MultiLine,
    NodesAndLinkedEdges,
    Range1d,
    RangeTool,
    Rect,
    StaticLayoutProvider,
    UIElement,
)
from bokeh.plotting import figure

from tpulite.report.html.graph_boxes import HIGH, PLAIN, WIDE, Note, box_columns
from tpulite.report.html.graph_layout import Layout, lay_out
from tpulite.report.html.style import source
from tpulite.report.network_graph import NetworkGraph

__all__ = ["make_graph"]

_COLUMN, _RANK = WIDE + 34, HIGH + 32
"""Pixels from one box to the next."""

_MARGIN = 30
_MOST = 760
"""Pixels of a figure that leaves room on the screen to scroll the page."""

_SMALLEST = 0.7
"""Scale at which names can still be read: a network that then fits is shown whole."""

_OVERVIEW = 150
_FONT = 12
_KEEP_SQUARE = """
const w = plot.inner_width, h = plot.inner_height
if (!w || !h) return
const pixel = (y.end - y.start) / h, half = pixel * w / 2
const middle = (x.start + x.end) / 2
if (Math.abs(x.end - x.start - 2 * half) > pixel) {
    x.setv({start: middle - half, end: middle + half})
}
for (const each of texts) {
    each.text_font_size = {value: `${(font / pixel).toFixed(1)}px`}
}
"""
"""A unit of x is as long as one of y, and text keeps its size within the boxes."""


def make_graph(network: NetworkGraph, notes: Mapping[str, Note]) -> UIElement:
    """Return the drawn graph, and beside it the whole of it, which shows and moves the view.

    Parameters
    ----------
    network : NetworkGraph
        The network.
    notes : mapping of str to Note
        What is to be said of operators, by name.
    """
    layout = lay_out(len(network.boxes), network.arrows, high=HIGH / _RANK)
    layout = layout.scaled(_COLUMN, _RANK)
    places = np.array(layout.places)
    border = np.array([WIDE / 2, HIGH / 2]) + _MARGIN
    low, high = places.min(axis=0) - border, places.max(axis=0) + border
    across, tall = high - low
    height = int(min(max(tall, 200), _MOST))
    shown = tall if tall * _SMALLEST <= height else height
    x_range = Range1d(start=low[0], end=high[0])
    y_range = Range1d(start=high[1] - shown, end=high[1])
    plot = _empty(
        height=height,
        name="drawing",
        tools="pan,wheel_zoom,reset,save",
        active_scroll="wheel_zoom",
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=y_range,
    )
    data = source("graph", box_columns(network, notes, places))
    graph = _graph(network, layout, data)
    plot.renderers.append(graph)
    bars: dict[str, Any] = {
        "y": "foot",
        "height": 4,
        "line_color": None,
        "source": data,
        "fill_color": "color",
    }
    plot.hbar(left="left", right="part", **bars)
    texts = [
        plot.text(source=data, text_baseline="middle", **style)
        for style in (
            _style("text_left", "upper", "operator", text_font_style="bold"),
            _style("text_right", "upper", "short", text_align="right", text_color="#555555"),
            _style("text_left", "lower", "shape", text_color="#555555"),
            _style("text_right", "lower", "line", text_align="right"),
        )
    ]
    tips = "<div style='max-width: 420px'>@tip{safe}</div>"
    plot.add_tools(HoverTool(tooltips=tips, renderers=[graph], point_policy="follow_mouse"))
    keep = CustomJS(
        args={
            "plot": plot,
            "x": x_range,
            "y": y_range,
            "font": _FONT,
            "texts": [text.glyph for text in texts],
        },
        code=_KEEP_SQUARE,
    )
    for model, names in ((plot, ("inner_width", "inner_height")), (y_range, ("start", "end"))):
        for name in names:
            model.js_on_change(name, keep)
    if shown == tall and across < 2 * _COLUMN:
        return plot
    return row(_overview(layout, data, plot), plot, sizing_mode="stretch_width")


def _graph(network: NetworkGraph, layout: Layout, data: ColumnDataSource) -> GraphRenderer:
    """Return boxes and arrows; those of the box below the mouse are thick."""
    graph = GraphRenderer(name="network", inspection_policy=NodesAndLinkedEdges())
    graph.node_renderer.data_source = data
    graph.node_renderer.glyph, graph.node_renderer.hover_glyph = map(_box, ("fill", "lit"))
    ways = {
        "start": [begin for begin, _ in network.arrows],
        "end": [end for _, end in network.arrows],
        "xs": [list(way[:, 0]) for way in layout.ways],
        "ys": [list(way[:, 1]) for way in layout.ways],
    }
    graph.edge_renderer.data_source = ColumnDataSource(ways)
    graph.edge_renderer.glyph = MultiLine(line_color=PLAIN, line_width=1.5)
    graph.edge_renderer.hover_glyph = MultiLine(line_color="#222222", line_width=3)
    graph.layout_provider = StaticLayoutProvider(graph_layout=dict(enumerate(layout.places)))
    return graph


def _style(x: str, y: str, text: str, **options: Any) -> dict[str, Any]:
    """Return where text is, what it says, and how it looks."""
    return {"x": x, "y": y, "text": text, "text_color": "#222222", **options}


def _box(fill: str) -> Rect:
    box: dict[str, Any] = {"width": WIDE, "height": HIGH, "border_radius": 5}
    return Rect(**box, line_color="edge", line_width="thick", fill_color=fill)


def _overview(layout: Layout, data: ColumnDataSource, plot: figure) -> figure:
    """Return all of a graph, as large as its view is high, with a frame around what is in view."""
    whole = _empty(height=plot.height, width=_OVERVIEW, tools="", toolbar_location=None)
    whole.multi_line(
        [list(way[:, 0]) for way in layout.ways],
        [list(way[:, 1]) for way in layout.ways],
        line_color=PLAIN,
    )
    whole.rect("x", "y", WIDE, HIGH, source=data, fill_color="fill", line_color="edge")
    frame = RangeTool(x_range=plot.x_range, y_range=plot.y_range)
    frame.overlay.fill_alpha, frame.overlay.line_color = 0.12, "#222222"
    whole.add_tools(frame)
    return whole


def _empty(**options: Any) -> figure:
    """Return a figure without axes and grid."""
    plot = figure(**options)
    plot.axis.visible, plot.grid.visible = False, False
    plot.outline_line_color, plot.toolbar.logo = "#dddddd", None
    return plot
