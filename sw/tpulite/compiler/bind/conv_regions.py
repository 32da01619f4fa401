"""What single commands of a convolution compute, and what they read of an image."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.compiler.bind.conv_plan import ConvFacts, Extents
from tpulite.compiler.plan.closed_forms import Number, ceil_div, cuts
from tpulite.compiler.plan.windows import Axis, join_bounds

__all__ = ["Regions", "clip_image", "cut_regions"]


@dataclass(frozen=True)
class Regions:
    """Regions of the output that single commands compute, in order.

    Parameters
    ----------
    tile : array of int
        The slab and panel that it belongs to.
    group : array of int
        Regions of a tile that accumulate side by side have one number.
    acc_row : array of int
        First accumulator.
    row, rows, column, columns : array of int
        First output row, in numbers that run through the batch, and output column; how many.
    """

    tile: np.ndarray
    group: np.ndarray
    acc_row: np.ndarray
    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray


def cut_regions(
    facts: ConvFacts,
    extents: Extents,
    sizes: Mapping[str, Number],
    bounds: np.ndarray,
    across: np.ndarray,
) -> Regions:
    """Cut tiles at images, and into what the accumulators hold.

    Parameters
    ----------
    facts : ConvFacts
        The convolution.
    extents : Extents
        Extents of its images.
    sizes : mapping
        Sizes of the tiles.
    bounds, across : array of int
        Where slabs begin, and panels, and where the last ones end.
    """
    images = np.arange(extents.batch) * extents.out_height
    most = facts.config.acc_rows
    y, x = join_bounds(bounds, images), across
    together = sizes["slab_rows"] * sizes["out_columns"] <= most
    lines = facts.tallest
    if not together:
        lines = min(max(1, most // extents.out_width), lines)
        if extents.out_width > most:
            widest = min(most, facts.widest)
            x = cuts(extents.out_width, ceil_div(extents.out_width, widest), 1)
    if sizes["slab_rows"] > lines:
        y = join_bounds(y, np.arange(0, bounds[-1], lines))
    slab = np.searchsorted(bounds, y[:-1], "right") - 1
    panel = np.searchsorted(across, x[:-1], "right") - 1
    tile = (slab[:, None] * sizes["panels"] + panel).ravel()
    order = np.argsort(tile, kind="stable")
    i, j = np.divmod(order, len(x) - 1)
    tile = tile[order]
    first = np.searchsorted(tile, tile)
    rows, columns = np.diff(y)[i], np.diff(x)[j]
    if together:
        before = np.cumsum(rows * columns) - rows * columns
        group, acc_row = np.zeros(len(tile), np.int64), before - before[first]
    else:
        group, acc_row = np.arange(len(tile)) - first, np.zeros(len(tile), np.int64)
    return Regions(tile, group, acc_row, y[:-1][i], rows, x[:-1][j], columns)


def clip_image(
    axis: Axis,
    first: np.ndarray,
    count: np.ndarray,
    taps: tuple[np.ndarray, np.ndarray],
    size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Describe what ranges of outputs read of an image.

    Parameters
    ----------
    axis : Axis
        Geometry.
    first, count : array of int
        Outputs.
    taps : tuple of two arrays of int
        First tap, and how many.
    size : int
        Positions of the image.

    Returns
    -------
    pad, seen, position : array of int
        Padding before, positions from there on, and the first one of them.
    """
    origin = first * axis.stride + taps[0] * axis.dilation - axis.before
    reach = (count - 1) * axis.stride + (taps[1] - 1) * axis.dilation + 1
    begin = np.maximum(origin, 0)
    seen = np.minimum(origin + reach, size) - begin
    nothing = seen <= 0
    if nothing.any():  # padding alone: an image of one position, beyond all that is read
        return np.where(nothing, reach, begin - origin), np.maximum(seen, 1), begin * ~nothing
    return begin - origin, seen, begin
