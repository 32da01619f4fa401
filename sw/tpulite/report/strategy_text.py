"""Grids of strategies as text, in 80 columns, and what the names of strategies mean."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.table import Table

from tpulite.compiler.plan.slabs import Strategy, cost
from tpulite.report.strategy_map import StrategyMap, choice_name

_MEANINGS = {
    "resident": "all weights stay in the buffer",
    "followed": "as resident; weights arrive one channel block at a time",
    "streamed": "weights are loaded again for each tile",
    "lone": "one tile at a time, without double buffering",
    "X": "a command computes outputs along the width",
    "Y": "a command computes outputs along the height",
    "tiles": "input and weights are loaded again for each block of output channels",
    "chunks": "as tiles, several blocks of input and output channels at a time",
    "panels": "as tiles; a tile is part of one output row",
    "rows": "a tile is output rows of all channels",
    "block": "a tile is output rows of one channel block",
    "panel": "a tile is some columns of some output rows of one channel block",
    "planes": "a tile is one or more channel blocks, with all pixels",
    "slabs": "a tile is pixels of one channel block",
    "bands": "a tile is pixels of all channels",
    "/image": "a tile lies within one image",
    "/images": "a tile is one or more whole images",
    "/through": "a tile may begin in one image and end in the next",
}


def strategy_words(names: Iterable[str]) -> Iterator[str]:
    """Yield a heading, and a line for each word in the names; nothing if none is known.

    Parameters
    ----------
    names : iterable of str
        Names as in ``Strategy.name``: ``resident/image``.
    """
    used = {word for name in names for word in re.findall(r"/?\w+", name)}
    lines = [f"  {word}: {meaning}" for word, meaning in _MEANINGS.items() if word in used]
    if lines:
        yield "words in strategies:"
        yield from lines


_TICK = 12
"""Columns from a label of the horizontal axis to the next."""

_PUBLISHED = {
    ("planes", "one tile"): "Tiling_1, Tiling_3 in one transfer",
    ("slabs", "one tile"): "Tiling_1, Tiling_3 in one transfer",
    ("planes", "several planes a tile"): "Tiling_3, several planes",
    ("planes", "one plane a tile"): "Tiling_1, Tiling_3, Tiling_2 uncut",
    ("slabs", "one plane a tile"): "Tiling_1, Tiling_3, Tiling_2 uncut",
    ("slabs", "parts of a plane"): "Tiling_2, a plane in several tiles",
    ("bands", "one tile"): "Tiling_1 in one transfer",
    ("bands",): "Tiling_1, pixels of all channels",
}
"""What the published selector of BatchNorm has instead. A plane here has as many channels as the
array has rows: channels are parallel in every tile, as they are in Tiling_1."""


def map_lines(strategies: StrategyMap) -> Iterator[str]:
    """Yield a line for each row of the grid, the largest one first, and the axis below."""
    rows, columns, letters = strategies.rows, strategies.columns, strategies.letters
    fixed = ", ".join(f"{name} {value}" for name, value in strategies.fixed.items())
    yield f"layer {strategies.layer}" + (f", {fixed}" if fixed else "")
    width = max(len(rows.name), *(len(rows.label(i)) for i in range(len(rows.values))))
    yield f"{rows.name:>{width}}"
    cells = [[letters[name] for name in row] for row in strategies.names]
    for number, row, column in strategies.marks():
        cells[row][column] = str(number)[-1]
    for i in reversed(range(len(rows.values))):
        yield f"{rows.label(i):>{width}} |{''.join(cells[i])}"
    yield f"{'':{width}} +{'-' * len(columns.values)}"
    ticks = "".join(f"{columns.label(i):<{_TICK}}" for i in range(0, len(columns.values), _TICK))
    yield f"{'':{width}}  {ticks.rstrip()}"
    last = columns.label(len(columns.values) - 1)
    yield f"{'':{width}}  {columns.name}, up to {last}"


def legend_table(strategies: StrategyMap) -> Table:
    """Return what the letters mean, and how often each is chosen.

    For layers without windows and weights it also says what the published selector has there.
    """
    published = {name: _PUBLISHED.get(tuple(name.split(", "))) for name in strategies.counts}
    mapped = any(published.values())
    table = _table("", "strategy", "shapes", *(["published tiling"] if mapped else []))
    table.columns[2].justify = "right"
    for name, count in strategies.counts.items():
        tiling = [published[name] or ""] if mapped else []
        table.add_row(strategies.letters[name], name, f"{count:,}", *tiling)
    return table


def candidates_table(strategies: StrategyMap) -> Table:
    """Return all strategies that were compared for each marked shape; * is the cheapest."""
    table = _table("", "shape", "strategy", "cycles", "rows moved", "tiles or why not")
    for column in table.columns[3:5]:
        column.justify = "right"
    for number, (shape, plan) in enumerate(strategies.points, start=1):
        rows = plan.room.rows
        for i, each in enumerate(sorted(plan.candidates, key=lambda x: not x.feasible)):
            head = ("", "")
            if not i:
                head = str(number), "x".join(map(str, shape))
            if not each.feasible:
                needed = each.sizes["needed_rows"]
                why = f"needs {needed:,} rows of {rows:,}" if needed > rows else "does not apply"
                table.add_row(*head, f"  {each.name}", "", "", why)
                continue
            best = each is _cheapest(plan.candidates)
            said = f"{plan.tiling.tiles:,}: {choice_name(plan)}" if best else ""
            name = f"{'*' if best else ' '} {each.name}"
            table.add_row(*head, name, f"{each.cycles:,}", f"{each.traffic:,}", said)
    return table


def _cheapest(candidates: Sequence[Strategy]) -> Strategy:
    """Return what the selector takes, of strategies some of which are feasible."""
    return min((x for x in candidates if x.feasible), key=lambda x: cost(x.cycles, x.traffic))


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        table.add_column(head, no_wrap=True)
    table.columns[-1].no_wrap = False
    return table
