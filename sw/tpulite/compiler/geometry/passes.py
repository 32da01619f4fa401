"""What one command of a convolution multiplies: a pass over part of the kernel."""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV
from tpulite.compiler.geometry.axis import (
    LARGEST_DILATION,
    LARGEST_EXTENT,
    LARGEST_KERNEL,
    LARGEST_PAD,
    LARGEST_STRIDE,
    Axis1D,
    most_outputs,
)
from tpulite.compiler.geometry.cut import split

_EARLY = 9
"""k-tiles of the first command of a layer, more or less: it starts when they are there."""

_ANY = 1 << 30


@dataclass(frozen=True)
class Pass:
    """Part of a kernel, and of the channel blocks of the input."""

    rows: range
    columns: range
    blocks: range

    @property
    def tiles(self) -> int:
        """Weight tiles."""
        return len(self.rows) * len(self.columns) * len(self.blocks)

    def of(self, weights: np.ndarray) -> np.ndarray:
        """Return its part of the weight tiles [channel blocks, kh, kw, ...] of an n-block."""
        some = (slice(each.start, each.stop) for each in (self.blocks, self.rows, self.columns))
        return weights[tuple(some)]


@dataclass(frozen=True)
class AxisLimits:
    """What one command can do along an axis."""

    taps: int = LARGEST_KERNEL  #: Most taps of a pass.
    outputs: int = _ANY  #: Most outputs of a region.
    #: From the first output up to this one, and from this one on, that limit holds.
    limited: tuple[int, int] = (_ANY, _ANY)
    blocks: int = _ANY  #: Most channel blocks of a pass.
    most: int = _ANY  #: Most outputs of any region.
    grain: int = 1  #: Regions begin at multiples of it.

    def cut(self, outputs: range, most: int) -> list[range]:
        """Cut outputs into regions of at most ``most``, and of no more than is possible."""
        grain = self.grain
        most = min(most, self.most) // grain * grain
        small = min(most, self.outputs // grain * grain)
        first = -(-self.limited[0] // grain) * grain
        bounds = [0, first, max(first, self.limited[1] // grain * grain), _ANY]
        return [
            range(part.start + piece.start, part.start + piece.stop)
            for (start, stop), count in zip(pairwise(bounds), (small, most, small), strict=True)
            if (part := range(max(start, outputs.start), min(stop, outputs.stop)))
            for piece in split(len(part), -(-len(part) // count), grain)
        ]


def axis_limits(axis: Axis1D, outputs: int, *, pitched: bool) -> AxisLimits:
    """Return what the fields of a command can express along an axis, of any geometry.

    Of a single tap the dilation does not matter. Large strides are either pitches, which takes
    single taps, too, or leave one output to a region. Padding is at most 31 positions. So regions
    that begin farther before the image, or behind it, must be small enough to have no more, as all
    of it may be padding.

    Parameters
    ----------
    axis : Axis1D
        The whole kernel along the axis.
    outputs : int
        All outputs.
    pitched : bool
        Whether the axis is that of image rows, whose distance is a field.
    """
    taps, step, single = LARGEST_KERNEL, axis.stride, axis.stride > LARGEST_STRIDE and not pitched
    if axis.dilation > LARGEST_DILATION:
        taps = 1
    if axis.stride > LARGEST_STRIDE and pitched:
        taps, step = 1, 1
    # The last tap of an output reads here; behind the image lie no more positions than padding.
    last = (axis.kernel - 1) * axis.dilation - axis.before
    before, behind = max(0, -(-(axis.before - LARGEST_PAD) // axis.stride)), _ANY
    if (outputs - 1) * axis.stride + last - axis.size >= LARGEST_PAD:
        behind = max(before, -(-(axis.size - last) // axis.stride))
    if before or behind != _ANY:
        taps = min(taps, LARGEST_PAD // 2 // axis.dilation + 1)
    if single:
        return AxisLimits(taps, 1)
    most = most_outputs(LARGEST_EXTENT, min(taps, axis.kernel), step, axis.dilation)
    most = most if most < outputs else _ANY
    if not before and behind == _ANY:
        return AxisLimits(taps, most=most)
    small = most_outputs(LARGEST_PAD, taps, step, axis.dilation)
    return AxisLimits(taps, small, (before, behind), most=most)


def far_columns(axis: Axis1D, outputs: int) -> AxisLimits | None:
    """Return what a command can do along image columns with a stride larger than its field.

    It computes outputs of one row then, with one kernel row, see
    :func:`tpulite.compiler.lower.window.read_row`; those near the borders alone, as always. None
    if the stride is not that large, or too large for a pitch.
    """
    if not LARGEST_STRIDE < axis.stride <= CONV.limit("act_pitch"):
        return None
    last = (axis.kernel - 1) * axis.dilation - axis.before  # tap of output 0
    first = -(-axis.before // axis.stride)
    stop = min(outputs, (axis.size - 1 - last) // axis.stride + 1)
    if stop - first < 2:
        return None
    return AxisLimits(axis_limits(axis, outputs, pitched=False).taps, 1, (first, stop))


def pass_tiles(rows: int, config: Config) -> int:
    """Return the most weight tiles of a pass: those of two passes are a quarter of the buffer.

    Each takes so many rows.
    """
    return max(1, config.ub_rows // 8 // rows)


def cut_kernel(
    kernel: tuple[int, int],
    blocks: range,
    most: int,
    *,
    rows: AxisLimits,
    columns: AxisLimits,
    early: bool = False,
    late: bool = False,
) -> tuple[Pass, ...]:
    """Cut a kernel into passes over some channel blocks.

    Parameters
    ----------
    kernel : tuple of int
        Its rows and columns.
    blocks : range
        Channel blocks of the input.
    most : int
        Weight tiles of a pass, more or less: see :func:`pass_tiles`.
    rows, columns : AxisLimits
        What a pass may have.
    early : bool
        Whether the first pass should be small, so that its weights are there soon.
    late : bool
        Whether the last channel block should have a pass of its own, because it comes last.
    """
    kh, kw = kernel
    parts = [split(k, -(-k // axis.taps), 1) for k, axis in ((kh, rows), (kw, columns))]
    if len(parts[0][0]) * len(parts[1][0]) > 2 * most:  # even those of one block would
        if len(parts[1][0]) > 2 * most:
            parts[1] = split(kw, -(-kw // most), 1)
        parts[0] = split(kh, -(-kh * len(parts[1][0]) // most), 1)
    taps = len(parts[0][0]) * len(parts[1][0])
    count = max(-(-len(blocks) * taps // most), -(-len(blocks) // rows.blocks))
    chunks = list(split(len(blocks), count, 1))
    if early:
        first = chunks[0]
        sizes = [len(piece) for piece in split(len(first), -(-len(first) * taps // _EARLY), 1)]
        bounds = [0, *accumulate(sizes)]
        chunks[:1] = [range(a, b) for a, b in pairwise(bounds)]
    if late and len(chunks[-1]) > 1:
        last = chunks[-1]
        chunks[-1:] = [last[:-1], last[-1:]]
    chunks = [blocks[chunk.start : chunk.stop] for chunk in chunks]
    return tuple(Pass(r, c, b) for b in chunks for r in parts[0] for c in parts[1])


def plan_tiles(
    y: Axis1D, limits: AxisLimits, outputs: int, row_rows: int, room: int
) -> tuple[int, AxisLimits]:
    """Return output rows, and passes over the kernel, so that the image rows of a pass fit.

    As many output rows as possible, as each region loads all weights; then as many kernel rows.

    Parameters
    ----------
    y : Axis1D
        Activation rows.
    limits : AxisLimits
        What a command can express.
    outputs : int
        Most output rows of a region.
    row_rows : int
        Rows of the unified buffer that an image row of one channel block takes.
    room : int
        Rows of the unified buffer for one tile of the input.
    """
    while True:
        for taps in range(min(y.kernel, limits.taps), 0, -1):
            rows = min((outputs - 1) * y.stride + (taps - 1) * y.dilation + 1, y.size)
            if rows * row_rows <= room:
                blocks = room // (rows * row_rows)
                return outputs, replace(limits, taps=taps, blocks=blocks)
        if outputs == 1:
            return 1, replace(limits, taps=1, blocks=1)
        outputs //= 2
