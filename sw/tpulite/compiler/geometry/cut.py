"""Cutting images into strips of rows."""

from itertools import pairwise

from tpulite.arch.config import Config

__all__ = ["PARTS", "SMALLEST_PART", "STRIPS", "WINDOW_ROOM", "cut_parts", "cut_strips", "split"]

STRIPS = 6
"""Strips of images are a sixth of the unified buffer."""

WINDOW_ROOM = (3, 4)
"""Part of the free rows that windows may take. The rest is for results, and what lies between."""

PARTS = 4
"""Commands that an image is cut into, so that the next layer can start before the last one ends."""

SMALLEST_PART = 80
"""Vectors of a part, at least: less would not hide the fetch of its weights and records."""


def cut_strips(height: int, row_rows: int, budget: int, grain: int) -> tuple[range, ...]:
    """Cut an image that does not stay on chip.

    Parameters
    ----------
    height : int
        Rows of the image.
    row_rows : int
        Rows of the unified buffer that an image row takes, with all that belongs to it.
    budget : int
        Rows of the buffer that a strip may take.
    grain : int
        Strips begin at multiples of it.

    Returns
    -------
    tuple of range
        Strips of nearly equal height; each has at least ``grain`` rows.
    """
    most = max(grain, budget // row_rows // grain * grain)
    return split(height, -(-height // most), grain)


def cut_parts(
    rows: range,
    columns: int,
    config: Config,
    *,
    grain: int = 1,
    parts: int = PARTS,
    block_start: bool = True,
) -> tuple[range, ...]:
    """Cut a strip of output rows into what single commands compute.

    Parameters
    ----------
    rows : range
        Output rows.
    columns : int
        Output vectors of a row.
    config : Config
        The machine: a part has at most ``acc_rows`` vectors, unless ``grain`` rows have more.
    grain : int
        Parts begin at multiples of it.
    parts : int
        How many parts there should be, if they are not too large or too small then.
    block_start : bool
        Whether the next layer may start on the first parts. If not, there are as few as the
        accumulators allow, and ``parts`` has no meaning.
    """
    most = max(grain, config.acc_rows // columns // grain * grain)
    wanted = min(parts, len(rows) * columns // SMALLEST_PART, len(rows)) if block_start else 1
    parts = max(-(-len(rows) // most), wanted, 1)
    pieces = split(len(rows), parts, grain)
    return tuple(range(rows.start + piece.start, rows.start + piece.stop) for piece in pieces)


def split(extent: int, parts: int, align: int) -> tuple[range, ...]:
    """Cut an extent into at most ``parts`` nearly equal ranges, at multiples of ``align``.

    Examples
    --------
    >>> split(10, 3, 2)
    (range(0, 4), range(4, 8), range(8, 10))
    """
    units = -(-extent // align)
    parts = min(parts, units)
    bounds = [min(extent, -(-units * i // parts) * align) for i in range(parts + 1)]
    return tuple(range(a, b) for a, b in pairwise(bounds))
