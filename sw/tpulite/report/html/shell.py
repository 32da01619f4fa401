"""The shell of all pages: header, search, sections and the panel of details, in one file."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from tpulite.arch.config import Config

_SCRIPTS = (
    *("elements", "format", "state", "panel", "table", "axis", "network"),
    *("time_axis", "timeline", "rectangles", "scatter", "answers", "start"),
)
"""Scripts of :mod:`tpulite.report.html.viewer`, in an order in which each finds what it uses."""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the browser may load: nothing that is not in the page."""


@dataclass(frozen=True)
class Head:
    """What all pages say first."""

    title: str  #: The network, or several.
    command: str  #: The command that has written the page.
    #: Machine, numerics and what else says what the page is about; the version is added.
    lines: Sequence[str] = ()
    #: The figures that matter, by what they are.
    tiles: Mapping[str, str] = field(default_factory=dict)
    #: What is read when something is unclear: options, advice.
    facts: Mapping[str, str] = field(default_factory=dict)
    things: str = "layers, operators, tensors"  #: What the panel shows, and can be searched for.


@dataclass(frozen=True)
class Section:
    """A part of a page that can be collapsed."""

    #: Its heading, and a sentence that says what is to be seen; may be empty.
    title: str
    hint: str
    #: Figures and tables below each other: the name of what draws one (``views`` of
    #: viewer/state.js), and its data as plain values.
    views: Sequence[tuple[str, Any]]
    expanded: bool = True  #: Whether it is shown before anybody asks for it.


def as_json(value: float | None) -> float | str | None:
    """Return a number as JSON can hold it: one that is not finite as text."""
    return value if value is None or math.isfinite(value) else str(value)


def machine_line(config: Config) -> str:
    """Return the size of array and buffer."""
    size, kib = config.array_size, config.ub_bytes / 1024
    return f"{size}x{size} array, {kib:g} KiB buffer"


def whole_page(
    head: Head,
    sections: Sequence[Section],
    items: Mapping[str, Any] | None = None,
    *,
    mhz: float | None = None,
) -> str:
    """Return a page as HTML that loads nothing.

    Parameters
    ----------
    sections : sequence of Section
        Its sections, from top to bottom.
    items : mapping of str to value, optional
        What the panel shows of a layer or operator, by the name that figures and tables give it.
    mhz : float, optional
        Clock frequency in MHz: then times are in milliseconds, and a button shows cycles.
    """
    views = [data for section in sections for _, data in section.views]
    record = {"items": items or {}, "views": views, "mhz": mhz}
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    numbers = iter(range(len(views)))
    body = "".join(_section(section, numbers) for section in sections)
    title = escape(head.title)
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{title}: tpulite {escape(head.command)}</title>\n"
        f"<style>\n{_asset('style.css')}</style>\n</head>\n<body>\n"
        f"{_header(head)}<main>\n{_summary(head)}{body}</main>\n"
        "<aside id='panel' aria-label='Details' hidden></aside>\n<div id='tip' hidden></div>\n"
        f"<script type='application/json' id='data'>{text}</script>\n"
        f"<script>\n{_script()}</script>\n</body>\n</html>\n"
    )


def _header(head: Head) -> str:
    lines = (*head.lines, f"tpulite {version('tpulite')}")
    return (
        f"<header>\n<div><h1>{escape(head.title)} <small>{escape(head.command)}</small></h1>\n"
        f"<p>{' · '.join(map(escape, lines))}</p></div>\n"
        "<form id='tools' role='search'><button type='button' id='unit' hidden></button>"
        f"<input type='search' id='search' placeholder='Search {head.things}' "
        f"aria-label='Search {head.things}'><output id='found'></output></form>\n"
        "</header>\n"
    )


def _summary(head: Head) -> str:
    """Return the figures that matter, and below them, collapsed, everything else."""
    tiles = "".join(
        f"<li><b>{escape(value)}</b> {escape(name)}</li>" for name, value in head.tiles.items()
    )
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
        for name, text in head.facts.items()
    )
    text = f"<ul id='tiles'>{tiles}</ul>\n" if tiles else ""
    if rows:
        summary = "<summary>Details</summary>"
        text += f"<details id='facts'>{summary}<table>{rows}</table></details>\n"
    return text


def _section(section: Section, numbers: Any) -> str:
    views = "".join(
        f"<div class='view' data-view='{view}' data-index='{next(numbers)}'></div>"
        for view, _ in section.views
    )
    hint = f"<p class='hint'>{escape(section.hint)}</p>" if section.hint else ""
    return (
        f"<section><details{' open' * section.expanded}>"
        f"<summary><h2>{escape(section.title)}</h2></summary>"
        f"{hint}{views}</details></section>\n"
    )


@cache
def _script() -> str:
    return "".join(_asset(f"{name}.js") for name in _SCRIPTS)


@cache
def _asset(name: str) -> str:
    return (files("tpulite.report.html") / "viewer" / name).read_text(encoding="utf-8")
