"""Cutting images into strips of rows."""

from itertools import pairwise

from tpulite.arch.config import Config

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
    loaded: int = 0,
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
    loaded : int
        Vectors that are loaded for a row, if they may be more than those of the output.
    """
    most = max(grain, config.acc_rows // columns // grain * grain)
    vectors = len(rows) * max(columns, loaded)
    wanted = min(parts, vectors // SMALLEST_PART) if block_start else 1
    parts = max(-(-len(rows) // most), wanted)
    pieces = split(len(rows), parts, grain)
    return tuple(range(rows.start + piece.start, rows.start + piece.stop) for piece in pieces)


def cut_arriving(
    parts: tuple[range, ...], smallest: int, growth: float, *, grain: int = 1
) -> tuple[range, ...]:
    """Cut what is computed while its input still arrives: the first part is small.

    Each part is as much larger than the one before as more input arrives than is used meanwhile.

    Parameters
    ----------
    parts : tuple of range
        Parts that are small enough otherwise; none becomes larger than the largest.
    smallest : int
        Rows of the first part.
    growth : float
        How many rows arrive while one is computed; parts do not shrink if it is less than 1.
    grain : int
        Parts begin at multiples of it.

    Examples
    --------
    >>> cut_arriving((range(0, 16), range(16, 32)), 2, 2.0)
    (range(0, 2), range(2, 6), range(6, 14), range(14, 30), range(30, 32))
    >>> cut_arriving((range(0, 6), range(6, 11)), 2, 1.0)
    (range(0, 2), range(2, 4), range(4, 6), range(6, 8), range(8, 10), range(10, 11))
    """
    most, start, stop = max(map(len, parts)), parts[0].start, parts[-1].stop
    if 2 * smallest > len(parts[0]):
        return parts
    size, found = float(smallest), []
    while start < stop:
        rows = max(1, int(min(size, most)) // grain) * grain
        if start + rows < stop < start + rows + smallest:  # no part is smaller than the first
            rows = -(-(stop - start) // (2 * grain)) * grain
        found.append(range(start, min(start + rows, stop)))
        start, size = found[-1].stop, size * max(1.0, growth)
    return tuple(found)


def halves(extent: int) -> tuple[range, ...]:
    """Cut an extent into ranges that are each half of what is left, down to one.

    Examples
    --------
    >>> halves(11)
    (range(0, 6), range(6, 9), range(9, 10), range(10, 11))
    """
    starts = [0]
    while extent - starts[-1] > 1:
        starts.append(starts[-1] + (extent - starts[-1] + 1) // 2)
    return tuple(range(a, b) for a, b in pairwise([*starts, extent]))


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
