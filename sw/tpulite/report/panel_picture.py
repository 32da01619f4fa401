"""Pictures of matrix products, as SVG: A and B in panels or tiles, and the blocks of C."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.cut import split
from tpulite.layout.panel_products import DEPTH, fixed_stride_elements
from tpulite.layout.panels import NARROW, panel_rows

__all__ = ["draw_panels", "draw_tiles"]

_MARGIN, _GAP, _LINE = 12, 26, 17
"""Pixels around the picture, between matrices, and of a line of text."""

_CELL, _SMALL = 15, 8
"""Pixels of an element that is labelled, and of one that is not."""

_COLORS = {"A": ("#dbe9f8", "#b5d0ee"), "B": ("#fbe6cf", "#f3c99b"), "C": ("#e3f1dc", "#c3e0b4")}
"""Of the blocks of each matrix in turn."""

_UNUSED, _INK, _STEP = "#c9c9c9", "#222222", "#c0392b"

_LETTER = 0.53
"""Width of a letter, as part of its height."""


@dataclass(frozen=True)
class _Matrix:
    """A matrix: its corner and its cells in pixels, where it is cut, and its size unpadded."""

    name: str
    x: int
    y: int
    rows: Sequence[range]
    columns: Sequence[range]
    used: tuple[int, int]
    cell: int = _CELL

    @property
    def right(self) -> int:
        return self.x + self.columns[-1].stop * self.cell

    @property
    def bottom(self) -> int:
        return self.y + self.rows[-1].stop * self.cell

    def draw(self) -> list[str]:
        """Return the blocks in their colors, padding in gray, and the name."""
        blocks = [*product(enumerate(self.rows), enumerate(self.columns))]
        colors = _COLORS[self.name]
        below = range(self.used[0], self.rows[-1].stop), range(self.columns[-1].stop)
        beside = range(self.used[0]), range(self.used[1], self.columns[-1].stop)
        return [
            *(self.box(rows, columns, colors[(i + j) % 2]) for (i, rows), (j, columns) in blocks),
            *(self.box(*padding, _UNUSED, "none") for padding in (below, beside)),
            *(self.box(rows, columns, "none") for (_, rows), (_, columns) in blocks),
            _text(self.x, self.y - 5, f"{self.name}[{self.used[0]}, {self.used[1]}]"),
        ]

    def box(self, rows: range, columns: range, fill: str, stroke: str = _INK) -> str:
        x, y = self.x + columns.start * self.cell, self.y + rows.start * self.cell
        width, height = len(columns) * self.cell, len(rows) * self.cell
        line = 0.7 if stroke == _INK else 2.5
        return (
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{line}"/>'
        )

    def cells(self, label: Callable[[int, int], object]) -> list[str]:
        """Return a label in each cell, by its row and column."""
        every = product(range(self.used[0]), range(self.used[1]))
        return [self._label(range(i, i + 1), range(j, j + 1), label(i, j), 6.5) for i, j in every]

    def blocks(self, label: Callable[[int, int], object]) -> list[str]:
        """Return a label in the middle of each block, by its indices."""
        every = product(enumerate(self.rows), enumerate(self.columns))
        return [self._label(rows, columns, label(i, j), 11) for (i, rows), (j, columns) in every]

    def _label(self, rows: range, columns: range, label: object, size: float) -> str:
        x = self.x + (columns.start + columns.stop) * self.cell / 2
        y = self.y + (rows.start + rows.stop) * self.cell / 2 + size / 3
        return _text(x, y, str(label), size, "middle")


def draw_panels(m: int, k: int, n: int, heights: tuple[int, ...] = NARROW) -> str:
    """Draw ``C[m, n] = A[m, k] B[k, n]`` in panels.

    In A and B each element has its index in the packed operand, in C each block its turn. Red is
    the first step of the innermost loop. Below are the panels of A in ncnn's buffer of a fixed
    stride, with row and column of each element, what is unused in gray.

    Parameters
    ----------
    m, k, n : int
        Extents; the picture is legible up to about 16 of each.
    heights : tuple of int
        Heights of panels, falling to 1.

    Returns
    -------
    str
        An SVG.

    Raises
    ------
    ValueError
        If an extent is below 1, or the heights do not fall to 1.
    """
    _check((m, k, n))
    rows, columns, step = panel_rows(m, heights), panel_rows(n, heights), range(min(DEPTH, k))
    a, b, c = _arrange((m, k, n), (rows, [range(k)], columns), _CELL)

    def packed(panels: Sequence[range], row: int, column: int) -> int:
        panel = next(each for each in panels if row in each)
        return panel.start * k + column * len(panel) + row - panel.start

    drawn = [
        *a.cells(lambda i, q: packed(rows, i, q)),
        *b.cells(lambda q, j: packed(columns, j, q)),
        *c.blocks(lambda i, j: i * len(columns) + j),
        *_step(a, b, c, step),
    ]
    stride = fixed_stride_elements(1, k)
    lines = [range(p, p + 1) for p in range(len(rows))]
    top = c.bottom + _GAP + _LINE
    buffer = _Matrix("A", _MARGIN, top, lines, [range(stride)], (len(rows), stride))
    for p, panel in enumerate(rows):
        used = len(panel) * k
        drawn.append(buffer.box(lines[p], range(stride), _UNUSED))
        drawn.append(buffer.box(lines[p], range(used), _COLORS["A"][p % 2]))

    def element(p: int, index: int) -> str:
        column, row = divmod(index, len(rows[p]))
        return f"{rows[p].start + row},{column}" if column < k else ""

    drawn += buffer.cells(element)
    title = f"A has {m * k} elements; in ncnn's buffer of a fixed stride {stride * len(rows)}:"
    drawn.append(_text(_MARGIN, top - 5, title))
    sizes = f"{len(rows[0])}x{len(columns[0])}", f"{len(rows[0])}x{len(step)}"
    title = (
        f"Panels of {', '.join(map(str, heights))}. Red: the first step, "
        f"out[{sizes[0]}] += A[{sizes[1]}] B[{len(step)}x{len(columns[0])}]."
    )
    return _svg(title, (a, b, c), drawn, (buffer.right, buffer.bottom))


def draw_tiles(m: int, k: int, n: int, config: Config) -> str:
    """Draw the same product as an array computes it in the order ``document`` of ``tpulite.gemm``.

    B is cut into tiles, each with its offset in the packed weights; padding is gray. Red is what
    one block of C needs.

    Parameters
    ----------
    m, k, n : int
        Extents; the picture is legible up to about 50 of each.
    config : Config
        The machine.

    Returns
    -------
    str
        An SVG.

    Raises
    ------
    ValueError
        If an extent is below 1.
    """
    _check((m, k, n))
    size = config.array_size
    rows = split(m, -(-m // size), max(1, BEAT_BYTES // size))
    depth, columns = (
        [range(start, start + size) for start in range(0, extent, size)] for extent in (k, n)
    )
    a, b, c = _arrange((m, k, n), (rows, depth, columns), _SMALL)
    drawn = [
        *b.blocks(lambda q, j: (j * len(depth) + q) * size**2),
        *c.blocks(lambda i, j: i * len(columns) + j),
        *_step(a, b, c, range(depth[-1].stop)),
    ]
    padded = depth[-1].stop
    title = (
        f"Tiles of {size}x{size} with their offsets; padding is gray. Red: the first block, "
        f"out[{len(rows[0])}x{size}] = A[{len(rows[0])}x{padded}] B[{padded}x{size}]."
    )
    return _svg(title, (a, b, c), drawn, (0, 0))


def _check(extents: tuple[int, int, int]) -> None:
    for extent in extents:
        if extent < 1:
            raise ValueError(f"Extents must be at least 1, not {extent}")


def _arrange(
    extents: tuple[int, int, int], cuts: tuple[Sequence[range], ...], cell: int
) -> tuple[_Matrix, _Matrix, _Matrix]:
    """Place A left of C, and B above it."""
    (m, k, n), (rows, depth, columns) = extents, cuts
    x, y, side = _MARGIN, _MARGIN + 2 * _LINE, depth[-1].stop * cell + _GAP
    a = _Matrix("A", x, y + side, rows, depth, (m, k), cell)
    b = _Matrix("B", x + side, y, depth, columns, (k, n), cell)
    return a, b, _Matrix("C", x + side, y + side, rows, columns, (m, n), cell)


def _step(a: _Matrix, b: _Matrix, c: _Matrix, depth: range) -> list[str]:
    """Return the border of what a step multiplies for the first block of C."""
    rows, columns = c.rows[0], c.columns[0]
    return [
        a.box(rows, depth, "none", _STEP),
        b.box(depth, columns, "none", _STEP),
        c.box(rows, columns, "none", _STEP),
    ]


def _text(x: float, y: float, text: str, size: float = 11, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}">{text}</text>'


def _svg(
    title: str, matrices: tuple[_Matrix, ...], drawn: list[str], corner: tuple[int, int]
) -> str:
    """Return the picture; ``corner`` is that of what is drawn beside the matrices."""
    right = max(*(each.right for each in matrices), corner[0], int(len(title) * 11 * _LETTER))
    bottom = max(*(each.bottom for each in matrices), corner[1])
    width, height = right + _MARGIN, bottom + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(_MARGIN, _MARGIN + 9, title),
        *(part for matrix in matrices for part in matrix.draw()),
        *drawn,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
