"""Grids of strategies as a picture."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from tpulite.report.strategy_map import StrategyMap

_CELL, _LEFT, _TOP, _LINE = 10, 70, 24, 18
_TICK = 8
_COLORS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#bbbbbb",
    "#ee7733",
    "#009988",
    "#882255",
)
"""A palette that color-blind readers can tell apart (Paul Tol's bright one, and some more)."""


def make_svg(maps: Sequence[StrategyMap]) -> str:
    """Return a picture of grids, one below the other: channels or height upwards, planes across."""
    parts: list[str] = []
    names = dict.fromkeys(name for each in maps for name in each.counts)
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(names)}
    top, width = 0, 0
    for each in maps:
        parts += _grid(each, colors, top)
        top += _TOP + _CELL * len(each.rows.values) + 3 * _LINE
        width = max(width, _LEFT + _CELL * len(each.columns.values) + 40)
    for name, color in colors.items():
        parts.append(f'<rect x="{_LEFT}" y="{top}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(_LEFT + 18, top + 10, name))
        top += _LINE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + 6}" '
        f'font-family="sans-serif" font-size="11">'
    )
    white = f'<rect width="{width}" height="{top + 6}" fill="white"/>'
    return "\n".join([head, white, *parts, "</svg>", ""])


def _grid(each: StrategyMap, colors: dict[str, str], top: int) -> Iterator[str]:
    fixed = "".join(f", {name} {value}" for name, value in each.fixed.items())
    yield _text(_LEFT, top + 14, f"layer {each.layer}{fixed}")
    count, begin = len(each.rows.values), top + _TOP
    for i, row in enumerate(each.names):
        y, x = begin + (count - 1 - i) * _CELL, _LEFT
        for name, run in groupby(row):
            size = _CELL * len([*run])
            rect = f'<rect x="{x}" y="{y}" width="{size}" height="{_CELL}" fill="{colors[name]}"'
            yield f"{rect}><title>{escape(name)}</title></rect>"
            x += size
    end = begin + count * _CELL
    for i in range(0, count, 2):
        yield _text(_LEFT - 4, end - i * _CELL - 1, each.rows.label(i), "end")
    yield _text(_LEFT - 4, begin - 6, each.rows.name, "end")
    for i in range(0, len(each.columns.values), _TICK):
        yield _text(_LEFT + i * _CELL, end + 13, each.columns.label(i))
    yield _text(_LEFT, end + 28, each.columns.name)
    for number, row, column in each.marks():
        x, y = _LEFT + (column + 0.5) * _CELL, begin + (count - 0.5 - row) * _CELL
        yield f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="white" stroke="black"/>'
        yield _text(round(x), round(y + 4), str(number), "middle")


def _text(x: int, y: int, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
