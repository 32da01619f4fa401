"""Figure: the network as boxes and arrows, each operator in the color of what computes it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from fast_sugiyama import from_edges
from numpy.typing import NDArray

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


_CURVE = 12
"""Points of an arrow between two ranks."""

_BENDS = 1_000_000
"""More than a drawing has boxes and bends."""


@dataclass(frozen=True)
class Layout:
    """Places of boxes and ways of arrows, in columns (x) and in ranks above the last one (y)."""

    places: tuple[tuple[float, float], ...]  #: The middle of each box.
    #: Tuple of ndarray, [points, 2]. The points of each arrow, from below a box to above another.
    ways: tuple[NDArray[np.float64], ...]

    def scaled(self, x: float, y: float) -> Self:
        """Return the same in units of which a column has ``x`` and a rank ``y``."""
        places = tuple((x * left, y * up) for left, up in self.places)
        return type(self)(places, tuple(way * (x, y) for way in self.ways))


def lay_out(boxes: int, arrows: Sequence[tuple[int, int]], *, high: float) -> Layout:
    """Place boxes so that arrows point down, go around boxes and cross seldom.

    Parameters
    ----------
    arrows : sequence of (int, int)
        From which box to which, counted from 0; none twice, and not in circles.
    high : float
        How high boxes are, in ranks: arrows bend only between them.
    """
    places: dict[int, tuple[float, float]] = {}
    follows: dict[int, list[int]] = defaultdict(list)
    left = 0.0
    # Parts that nothing connects come beside each other, their tops in line.
    parts = from_edges(list(arrows), vertex_spacing=1, dummy_vertices=True) if arrows else ()
    tallest = max((tall for _, _, tall, _ in parts), default=0.0)
    for number, (positions, width, tall, edges) in enumerate(parts):
        # Bends of arrows have numbers of their own, which each part begins with anew.
        for x, (right, up) in positions:
            places[_own(x, number, boxes)] = left + right, up + tallest - tall
        for begin, end in edges or ():
            follows[_own(begin, number, boxes)].append(_own(end, number, boxes))
        left += width + 1
    for number, lonely in enumerate(x for x in range(boxes) if x not in places):
        places[lonely] = left + number, tallest
    ways = ([places[x] for x in _way(follows, *pair, boxes)] for pair in arrows)
    bent = tuple(_bent(way, high / 2) for way in ways)
    return Layout(tuple(places[x] for x in range(boxes)), bent)


def _own(number: int | str, part: int, boxes: int) -> int:
    """Return what a box or a bend of a part is called among those of all parts."""
    return int(number) + (part * _BENDS if int(number) >= boxes else 0)


def _way(follows: dict[int, list[int]], begin: int, end: int, boxes: int) -> list[int]:
    """Return the bends between two boxes, and the boxes; a bend has one successor."""
    for step in follows[begin]:
        way = [begin, step]
        while way[-1] >= boxes:
            way += follows[way[-1]]
        if way[-1] == end:
            return way
    raise AssertionError(f"no way from box {begin} to box {end}")


def _bent(points: list[tuple[float, float]], half: float) -> NDArray[np.float64]:
    """Return points of a smooth line that is vertical as far as half a box from some points."""
    t = np.linspace(0, 1, _CURVE)
    parts = []
    for (x, y), (to_x, to_y) in pairwise(points):
        across = t**2 * (3 - 2 * t)
        begin, end = y - half, to_y + half
        parts.append(np.stack([x + (to_x - x) * across, begin + (end - begin) * t], axis=1))
    return np.concatenate(parts)
