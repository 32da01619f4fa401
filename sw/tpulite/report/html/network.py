"""Figure: the network as boxes and arrows, each operator in the color of what computes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.report.html.graph_layout import lay_out
from tpulite.report.html.items import owners
from tpulite.report.network_graph import Box, NetworkGraph
from tpulite.report.profile import Profile

_WIDE, _HIGH = 300, 44
"""Pixels of a box, before anybody zooms."""

_COLUMN, _RANK = _WIDE + 34, _HIGH + 32
"""Pixels from one box to the next."""

_MEANINGS = {"host": "CPU", "none": "only the shape changes"}


@dataclass(frozen=True)
class Note:
    """What a page says of an operator in its box."""

    line: str = ""  #: A few words.
    cycles: int = 0  #: Its cycles; shown instead of the words, if there are any.
    part: float = 0.0  #: How much of a bar in its box is filled, from 0 to 1.
    alarm: bool = False  #: Whether its box is to be seen from afar.
    meaning: str = ""  #: What its color means; by default what computes it.


def cycle_notes(profile: Profile, network: NetworkGraph) -> dict[str, Note]:
    """Return the cycles of each operator; the bar of the slowest one is full."""
    layers = [layer for layer in profile.layers if layer.n]
    owner = owners(network, layers)
    cycles = dict.fromkeys(owner.values(), 0)
    for layer in layers:
        if layer.name in owner:
            cycles[owner[layer.name]] += layer.cycles
    most = max(cycles.values(), default=0) or 1
    return {
        name: Note(cycles=each, part=each / most) if each else Note("hidden")
        for name, each in cycles.items()
    }


def draw_network(network: NetworkGraph, notes: Mapping[str, Note]) -> dict[str, Any]:
    """Return the data of the drawing: boxes at their places, and arrows between them.

    Parameters
    ----------
    notes : mapping of str to Note
        What is to be said of operators, by name.
    """
    layout = lay_out(len(network.boxes), network.arrows, high=_HIGH / _RANK)
    layout = layout.scaled(_COLUMN, -_RANK)  # pictures have their origin on top
    nothing = Note()
    return {
        "box": [_WIDE, _HIGH],
        "boxes": [
            _box(box, notes.get(box.name, nothing)) | {"x": round(x), "y": round(y)}
            for box, (x, y) in zip(network.boxes, layout.places, strict=True)
        ],
        "arrows": [
            [*pair, _path(way)] for pair, way in zip(network.arrows, layout.ways, strict=True)
        ],
    }


def _box(box: Box, note: Note) -> dict[str, Any]:
    return {
        "name": box.name,
        "operator": box.operator,
        "shape": box.shape,
        "takes": box.takes,
        "meaning": note.meaning or _MEANINGS.get(box.where, box.where) if box.by else "",
        "why": box.why,
        "line": note.line,
        "cycles": note.cycles,
        "part": round(note.part, 3),
        "alarm": note.alarm,
    }


def _path(way: NDArray[np.float64]) -> str:
    """Return a line through points as SVG has it."""
    return "M" + "L".join(f"{x},{y}" for x, y in way.round().astype(int).tolist())
