"""What all figures of the page share: colors, sizes, tools."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from bokeh.core.enums import LegendClickPolicyType
from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    DataRenderer,
    Div,
    HoverTool,
    NumeralTickFormatter,
    UIElement,
)
from bokeh.palettes import Category20_20
from bokeh.plotting import figure
from bokeh.resources import INLINE

from tpulite.report.spending import Cause
from tpulite.report.traced_run import TracedRun

__all__ = [
    "COLORS",
    "WHERE",
    "chart",
    "heading",
    "in_turn",
    "layer_color",
    "legend_above",
    "lighten",
    "shorten",
    "source",
    "tell",
    "whole_page",
]

COLORS = {
    Cause.MULTIPLIERS: "#2e9e5b",
    Cause.WEIGHTS: "#45b8c4",
    Cause.DEPTHWISE: "#4c78c8",
    Cause.BUFFER: "#d64f4f",
    Cause.VECTOR: "#9b5fc0",
    Cause.DRAM: "#f0a03c",
    Cause.WAITING: "#b8b8b8",
}
"""Green fills the array; blue works below its rate; red, orange and gray hold it up."""

WHERE = {"MXU": "#2e9e5b", "VPU": "#9b5fc0", "host": "#d64f4f"}
"""Who computes an operator, and in which color it says so."""


def layer_color(number: int) -> str:
    """Return the color of a layer: neighbors differ."""
    return Category20_20[number % len(Category20_20)]


def chart(height: int, tools: str, **options: Any) -> figure:
    """Return an empty figure as wide as the page, with cycles along x."""
    plot = figure(
        height=height,
        tools=tools,
        sizing_mode="stretch_width",
        min_border_left=80,  # so that axes that are shared are below each other
        **options,
    )
    plot.toolbar.logo = None
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.grid.grid_line_alpha = 0.5
    return plot


def legend_above(plot: figure, click: LegendClickPolicyType = "hide") -> None:
    """Put the legend over the figure, where it hides nothing; say what a click on it does."""
    legend = plot.legend[0]
    legend.orientation, legend.location = "horizontal", "left"
    legend.border_line_color, legend.click_policy = None, click
    plot.add_layout(legend, "above")


def tell(plot: figure, tips: Sequence[tuple[str, str]], *what: DataRenderer) -> None:
    """Tell what is below the mouse: beside it, as the middle of a long bar may be out of sight."""
    hover = HoverTool(tooltips=list(tips), renderers=list(what), point_policy="follow_mouse")
    plot.add_tools(hover)


def heading(title: str, text: str) -> Div:
    """Return a heading of the page, with a sentence that says what is to be seen."""
    return Div(
        text=f"<h2 style='margin: 16px 0 4px'>{escape(title)}</h2>{escape(text)}",
        sizing_mode="stretch_width",
    )


def lighten(color: str, part: float = 0.16) -> str:
    """Return a color of which only a part is left on white."""
    parts = (255 - part * (255 - int(color[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(each):02x}" for each in parts)


def shorten(name: str, letters: int) -> str:
    """Return so many letters of a name at most: its end tells layers apart."""
    return name if len(name) <= letters else f"…{name[1 - letters :]}"


def source(name: str, columns: Mapping[str, Any]) -> ColumnDataSource:
    """Return data of a figure, which the page holds under a name."""
    return ColumnDataSource(dict(columns), name=name)


def in_turn(runs: Sequence[TracedRun]) -> Iterator[tuple[int, int, TracedRun]]:
    """Yield the cycles and the layers before each run, and the run."""
    begin = layers = 0
    for run in runs:
        yield begin, layers, run
        begin, layers = begin + run.cycles, layers + len(run.program.layers)


def whole_page(title: str, parts: Sequence[UIElement]) -> str:
    """Return elements below each other as HTML that loads nothing."""
    page = column(*parts, sizing_mode="stretch_width", margin=(0, 16, 0, 16))
    return file_html(page, INLINE, title=f"{title}: tpulite")
