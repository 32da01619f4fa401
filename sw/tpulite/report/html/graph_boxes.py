"""What the boxes of a drawn network say, and in which colors."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

import numpy as np
from bokeh.models import Div
from numpy.typing import NDArray

from tpulite.report.html.style import WHERE, lighten, shorten
from tpulite.report.network_graph import Box, NetworkGraph

__all__ = ["HIGH", "PLAIN", "WIDE", "Note", "box_columns", "make_legend"]

WIDE, HIGH = 310, 44
"""Pixels of a box, before anybody zooms."""

PLAIN = "#9a9a9a"
"""Color of arrows, and of operators that nobody computes."""

_LETTERS = 41
"""Letters of a line of a box."""

_BOLD = 1.3
"""Letters that one in bold capitals takes."""


@dataclass(frozen=True)
class Note:
    """What a page says of an operator.

    Parameters
    ----------
    line : str
        In its box, a few words.
    text : str
        Below the mouse.
    part : float
        How much of a bar in its box is filled, from 0 to 1.
    alarm : bool
        Whether its box is to be seen from afar.
    meaning : tuple of (str, str), optional
        What the legend says of its color, and this color; by default who computes it.
    """

    line: str
    text: str
    part: float = 0.0
    alarm: bool = False
    meaning: tuple[str, str] | None = None


NOTHING = Note("", "")


def make_legend(network: NetworkGraph, notes: Mapping[str, Note]) -> Div:
    """Return how many operators have a color, in that color and with what it means."""
    found = [
        _meaning(box, notes.get(box.name, NOTHING)) for box in network.boxes if box.by is not None
    ]
    look = "border-radius: 4px; padding: 1px 8px; margin-right: 10px"
    text = "".join(
        f"<span style='border: 1px solid {color}; background: {lighten(color)}; {look}'>"
        f"{escape(word)}: {count}</span>"
        for (word, color), count in Counter(found).items()
    )
    return Div(text=text)


def _meaning(box: Box, note: Note) -> tuple[str, str]:
    """Return the color of a box, and in front of it what it means."""
    if note.meaning is not None:
        return note.meaning
    words = {"none": "changes only the shape"}
    return words.get(box.where, box.where), WHERE.get(box.where, PLAIN)


def box_columns(
    network: NetworkGraph, notes: Mapping[str, Note], places: NDArray[np.float64]
) -> dict[str, list[object]]:
    """Return what figures and tooltips show of boxes at some places, a row for each."""
    rows = [_row(box, notes.get(box.name, NOTHING)) for box in network.boxes]
    columns: dict[str, list[object]] = {name: [each[name] for each in rows] for name in rows[0]}
    x, y = places.T
    left = x - WIDE / 2
    return columns | {
        "index": list(range(len(rows))),
        "x": list(x),
        "y": list(y),
        "left": list(left),
        "part": list(left + WIDE * np.array([each["share"] for each in rows])),
        "text_left": list(left + 8),
        "text_right": list(x + WIDE / 2 - 8),
        "upper": list(y + HIGH / 5),
        "lower": list(y - HIGH / 5),
        "foot": list(y - HIGH / 2 + 3),
    }


def _row(box: Box, note: Note) -> dict[str, object]:
    _, color = _meaning(box, note)
    return {
        "operator": box.operator,
        "name": box.name,
        "short": shorten(box.name, max(round(_LETTERS - _BOLD * len(box.operator)), 8)),
        "shape": shorten(box.shape, _LETTERS - len(note.line)),
        "line": note.line,
        "tip": "<br>".join(_tip(box, note)),
        "share": note.part,
        "color": color,
        "fill": "#ffffff" if box.by is None else lighten(color),
        "lit": lighten(color, 0.3),
        "edge": color,
        "thick": 5 if note.alarm else 1,
    }


def _tip(box: Box, note: Note) -> Iterator[str]:
    """Yield the lines below the mouse."""
    yield f"<b>{escape(box.operator)}</b> {escape(box.name)}"
    yield escape(f"{box.takes} to {box.shape}" if box.takes else box.shape)
    if box.by is not None:
        macs = f", {box.macs:,} multiplications" if box.macs else ""
        yield escape(f"computed by {box.by}{macs}")
    if box.why:
        yield escape(f"not by the machine: {box.why}")
    if note.text:
        yield escape(note.text)
