"""Slabs: cutting the output rows of a batch of images, with the input rows that they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES
from tpulite.compiler.geometry.axis import (
    Axis1D,
    Number,
    both,
    ceil_div,
    cuts,
    grain,
    least,
    most,
    negate,
    pick,
)

_TRAFFIC = 32
"""Rows of traffic that count as a cycle: between strategies that are equally fast, it decides."""


class Room(NamedTuple):
    """What a strategy may take, and where the tensors are."""

    rows: int  #: Rows of the unified buffer for tiles, weights and parameters.
    sources: tuple[bool, ...] = (True, True)  #: Whether each input comes from DRAM.
    stored: bool = True  #: Whether the output goes there.
    chained: bool = False  #: Whether other layers wait for the output, row after row.


class Strategy(NamedTuple):
    """A way to cut an operator up, for one shape or for many at once."""

    name: str  #: Name: ``kind``, or ``kind/mode``.
    feasible: Number  #: Whether it fits the machine.
    cycles: Number  #: What it costs; of no meaning where it is not feasible.
    traffic: Number  #: Rows that it moves between DRAM and the unified buffer.
    #: Numbers and sizes of its tiles. ``needed_rows`` are the rows of the unified buffer that its
    #: smallest tiles need.
    sizes: Mapping[str, Number]

    @property
    def kind(self) -> str:
        """What stays and what passes: the name up to a slash."""
        return self.name.partition("/")[0]

    @property
    def mode(self) -> str:
        """How rows are cut, one of :mod:`tpulite.compiler.plan.slabs`: the name behind it."""
        return self.name.partition("/")[2]


def cost(cycles: Number, traffic: Number) -> Number:
    """Return what decides: cycles and, between what is equally fast, traffic."""
    return cycles + traffic // _TRAFFIC


def choose(strategies: Sequence[Strategy]) -> Strategy | None:
    """Return the cheapest feasible strategy of one shape, or None."""
    feasible = [strategy for strategy in strategies if strategy.feasible]
    return min(feasible, key=lambda x: cost(x.cycles, x.traffic)) if feasible else None


def unmet(strategies: Sequence[Strategy]) -> Number:
    """Return whether none of them is feasible: only there poorer ones are tried."""
    missing: Number = True
    for strategy in strategies:
        missing = both(missing, negate(strategy.feasible))
    return missing


def choose_all(strategies: Sequence[Strategy], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the index of the strategy that :func:`choose` takes for each shape, or -1."""
    best, cheapest = np.full(shape, -1), np.full(shape, np.iinfo(np.int64).max)
    for index, strategy in enumerate(strategies):
        price = np.broadcast_to(cost(strategy.cycles, strategy.traffic), shape)
        better = np.broadcast_to(strategy.feasible, shape) & (price < cheapest)
        best[better] = index
        cheapest = np.where(better, price, cheapest)
    return best


class WindowedRows(NamedTuple):
    """Rows of a batch of images on both sides of a sliding window.

    Rows of all images are numbered through. A slab is a range of output rows; where it begins in
    DRAM must be a beat, so its first row is a multiple of a grain.
    """

    batch: Number  #: Images.
    #: Input and output rows of an image.
    height: Number
    out_height: Number
    #: Input rows from an output row to the next, and rows that a window covers.
    stride: int
    extent: int
    #: Bytes of an input row and of an output row, of one channel block.
    in_bytes: Number
    out_bytes: Number
    #: Input rows that a slab may need beyond its windows, if windows may lie in the padding.
    loose: int = 0

    @classmethod
    def under(
        cls,
        extents: tuple[Number, Number, Number],
        axes: tuple[Axis1D, Axis1D],
        row_bytes: int,
        room: Room,
        loose: int = 0,
    ) -> "WindowedRows":
        """Return the rows of one channel block of a batch of [height, width].

        What is in the buffer begins at any row.
        """
        (batch, height, width), (y, x) = extents, axes
        return cls(
            batch,
            height,
            y.outputs(height),
            y.stride,
            y.reach,
            width * row_bytes if room.sources[0] else BEAT_BYTES,
            x.outputs(width) * row_bytes if room.stored else BEAT_BYTES,
            loose,
        )


class Slabs(NamedTuple):
    """One way to cut; all numbers are in closed form."""

    #: ``image``: parts of an image; ``images``: several whole images; ``through``: parts that pass
    #: from an image into the next, for the case that images do not begin at beats.
    mode: str
    feasible: Number  #: Whether there is room.
    #: ``slabs``, how many; ``parts``, of an image or of all; ``slab_rows`` and ``in_rows``, the
    #: most output and input rows of a slab.
    sizes: Mapping[str, Number]
    needed: Number  #: Rows of the buffer for the smallest slabs.


def slab_modes(
    rows: WindowedRows,
    *,
    in_cost: Number,
    out_cost: Number,
    room: Number,
    limit: Number,
    wanted: Number,
) -> tuple[Slabs, ...]:
    """Return all ways to cut.

    Parameters
    ----------
    rows : WindowedRows
        What to cut.
    in_cost, out_cost : int or array of int
        Rows of the buffer that an input row and an output row of a slab take, in all places; 0 if
        the tensor is there as a whole.
    room : int or array of int
        Rows of the buffer that there are.
    limit, wanted : int or array of int
        Output rows of a slab: at most, and at most if that is no trouble. One grain is always
        allowed.
    """
    height, out_height, batch = rows.height, rows.out_height, rows.batch
    stride, extent = rows.stride, rows.extent
    spare = grain(rows.in_bytes) - 1  # a LOAD begins at a beat, too
    unit = grain(rows.out_bytes)
    images = grain(out_height * rows.out_bytes)
    aligned = (batch == 1) | (images == 1)
    wanted = least(limit, wanted)
    everything = batch * height

    # Parts of one image.
    whole = in_cost * least(height + spare, everything) + out_cost * out_height <= room
    each = most(in_cost * stride + out_cost, 1)
    fit = (room - in_cost * (extent - stride + spare)) // each
    size = least(pick(whole, out_height, fit), most(wanted, unit))
    units = ceil_div(out_height, unit)
    parts = pick(size >= out_height, 1, ceil_div(units, most(size // unit, 1)))
    slab_rows = least(ceil_div(units, parts) * unit, out_height)
    in_rows = least((slab_rows - 1) * stride + extent, height) + spare
    smallest = least(unit, out_height)
    image = Slabs(
        "image",
        both(aligned, size >= smallest),
        {
            "slabs": batch * parts,
            "parts": parts,
            "slab_rows": slab_rows,
            "in_rows": least(in_rows, everything),
        },
        in_cost * (least((smallest - 1) * stride + extent, height) + spare) + out_cost * smallest,
    )
    if isinstance(batch, int) and batch == 1:  # the others are for several images
        return (image,)

    # Several images at once.
    each = most(in_cost * height + out_cost * out_height, 1)
    fit = pick(each * batch <= room, batch, (room - in_cost * spare) // each)
    units = ceil_div(batch, images)
    size = least(fit, most(wanted // out_height, images))
    parts = ceil_div(units, most(size // images, 1))
    together = least(ceil_div(units, parts) * images, batch)
    several = Slabs(
        "images",
        both(batch > 1, fit >= least(images, batch)),
        {
            "slabs": parts,
            "parts": parts,
            "slab_rows": together * out_height,
            "in_rows": least(together * height + spare, everything),
        },
        each * least(images, batch) + in_cost * spare,
    )
    if aligned is True:
        return image, several

    # Through from image to image. Between the windows of two images may lie rows without any.
    gap = most(height - out_height * stride, 0)
    fixed = extent - stride + gap + spare + rows.loose
    fit = (
        (room - in_cost * fixed)
        * out_height
        // most(in_cost * (stride * out_height + gap) + out_cost * out_height, 1)
    )
    units = ceil_div(batch * out_height, unit)
    size = least(fit, most(wanted, unit))
    parts = ceil_div(units, most(size // unit, 1))
    slab_rows = least(ceil_div(units, parts) * unit, batch * out_height)
    through = Slabs(
        "through",
        both(negate(aligned), size >= unit),
        {
            "slabs": parts,
            "parts": parts,
            "slab_rows": slab_rows,
            "in_rows": least(
                fixed + slab_rows * stride + slab_rows // out_height * gap, everything
            ),
        },
        in_cost * (fixed + unit * stride + unit // out_height * gap) + out_cost * unit,
    )
    return image, several, through


def slab_bounds(mode: str, parts: int, rows: WindowedRows) -> NDArray[np.int64]:
    """Return the first output row of each slab of one shape, and where the last one ends."""
    repeat, extent, parts, unit, scale = slab_cuts(mode, parts, rows).values()
    within = cuts(extent, parts, unit)[:-1]
    first = (np.arange(repeat)[:, None] * extent + within).ravel()
    return np.append(first, repeat * extent) * scale


def slab_cuts(mode: str, parts: int, rows: WindowedRows) -> dict[str, int]:
    """Return what :func:`cuts` has to cut into slabs of one shape.

    ``repeat`` times an ``extent`` is cut into ``parts`` at multiples of ``unit``; it counts
    ``scale`` output rows.
    """
    repeat, extent, unit, scale = 1, rows.batch * rows.out_height, grain(rows.out_bytes), 1
    if mode == "image":
        repeat, extent = rows.batch, rows.out_height
    elif mode == "images":
        extent, unit, scale = rows.batch, grain(rows.out_height * rows.out_bytes), rows.out_height
    return {"repeat": repeat, "extent": extent, "parts": parts, "unit": unit, "scale": scale}


@dataclass(frozen=True)
class TilePlan:
    """How a layer alone is cut into tiles."""

    name: str  #: Name of the strategy.
    way: int  #: Index of the operator that has it: the array or the vector path may average.
    room: Room  #: What it may take, and where the tensors are.
    cycles: int  #: Estimated cycles.
