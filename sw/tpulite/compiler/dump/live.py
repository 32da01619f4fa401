"""Readable text of live ranges: which tensor has which rows, from which time step to which."""

from collections.abc import Sequence
from textwrap import wrap

from tpulite.arch.config import Config
from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.schedule.live_tensors import LiveBuffer, Moment, Section, StepNumbers

_WIDTH = 80
"""Columns of the terminal."""


def live_text(section: Section, numbers: StepNumbers, config: Config) -> str:
    """Return a line for each tensor of a section: of those with several buffers the middle one.

    ``needed`` are the layers that compute with it; ``live`` begins when it is loaded, which is
    while an earlier layer computes. ``T5-`` is in the slice before, ``T5+`` in the next one.
    Names that are too long go on in the next line.
    """
    rows = [_row(buffers, section, numbers, config) for buffers in _by_tensor(section.buffers)]
    heads = ("  id", "kind", "rows", "bytes", "needed", "live", "at row", "n", "tensor")
    right = (2, 3, 6, 7)
    others = columns(heads[:-1], [row[:-1] for row in rows], right=right)
    rest = _WIDTH - 2 - max(map(len, others.splitlines()))
    rows = [line for row in rows for line in _folded(row, max(10, rest))]
    share = f" ({section.reached / section.bound:.2f} times)" if section.bound else ""
    return (
        f"{columns(heads, rows, right=right)}{_legend(section)}"
        f"  {section.bound:,} rows live at the peak, "
        f"{section.reached:,} rows used{share}\n"
    )


def _folded(row: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """Return a row as lines: its last cell is broken at words."""
    first, *others = wrap(row[-1], width, break_long_words=False)
    blank = ("",) * (len(row) - 1)
    return [(*row[:-1], short(first, width)), *((*blank, short(x, width)) for x in others)]


def _legend(section: Section) -> str:
    """Return what the columns mean where that is not plain."""
    text = "  n: buffers of a tensor; rows, bytes: of the largest; at row: of the middle one\n"
    if any(each.slice for each in section.moments):
        text += "  T5-: in the slice before; T5+: in the next slice; end: of the last slice\n"
    return text


def _by_tensor(buffers: Sequence[LiveBuffer]) -> list[list[LiveBuffer]]:
    """Return the buffers of each tensor, in the order of the first one."""
    found: dict[tuple[str, str], list[LiveBuffer]] = {}
    for each in buffers:
        found.setdefault((each.label, each.name), []).append(each)
    return list(found.values())


def _row(
    buffers: Sequence[LiveBuffer], section: Section, numbers: StepNumbers, config: Config
) -> tuple[str, ...]:
    middle = section.moments[len(section.moments) // 2].slice if section.moments else 0
    each = next((x for x in buffers if x.needed[0].slice == middle), buffers[len(buffers) // 2])
    rows = max(x.rows for x in buffers)
    base = each.needed[0].slice

    def span(moments: tuple[Moment, Moment], *, end: bool) -> str:
        texts = [
            f"T{numbers.layers[x.layer]}" + _beside(x, base, section, shared=each.stays)
            for x in moments
        ]
        return f"[{texts[0]},{'end' if end else texts[1]}]"

    return (
        f"  {each.label}",
        each.kind,
        f"{rows:,}",
        f"{rows * config.row_bytes:,}",
        span(each.needed, end=False),
        span(each.lives, end=each.stays),
        f"{each.row:,}",
        str(len(buffers)),
        each.name,
    )


def _beside(moment: Moment, base: int, section: Section, *, shared: bool) -> str:
    """Return a mark if a moment of a section is in another slice than its tensor is needed in."""
    if shared or moment.layer not in section.layers or moment.slice == base:
        return ""
    return "-" if moment.slice < base else "+"
