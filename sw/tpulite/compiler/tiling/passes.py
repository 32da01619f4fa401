"""What one command of a convolution multiplies: a pass over part of the kernel."""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from tpulite.arch.isa import CONV
from tpulite.compiler.tiling.cut import split
from tpulite.compiler.tiling.window import LARGEST_KERNEL, Axis1D

__all__ = ["Pass", "Reach", "cut_kernel", "most_of_axis", "plan_pieces"]

_EARLY = 9
"""k-tiles of the first command of a layer, more or less: it starts when they are there."""

_ANY = 1 << 30

_PAD, _STRIDE, _DILATION = (CONV.limit(name) for name in ("pad_top", "stride_y", "dilation_y"))


@dataclass(frozen=True)
class Pass:
    """Part of a kernel, and of the channel blocks of the input."""

    rows: range
    columns: range
    blocks: range


@dataclass(frozen=True)
class Reach:
    """What one command can do along an axis.

    Parameters
    ----------
    taps : int
        Most taps of a pass.
    outputs : int
        Most outputs of a region.
    first : int
        How many outputs that limit holds for, from the first one on.
    blocks : int
        Most channel blocks of a pass.
    """

    taps: int = LARGEST_KERNEL
    outputs: int = _ANY
    first: int = _ANY
    blocks: int = _ANY

    def cut(self, outputs: range, most: int) -> list[range]:
        """Cut outputs into regions of at most ``most``, and of no more than is possible."""
        middle = min(max(self.first, outputs.start), outputs.stop)
        return [
            range(part.start + piece.start, part.start + piece.stop)
            for part, count in (
                (range(outputs.start, middle), min(most, self.outputs)),
                (range(middle, outputs.stop), most),
            )
            if part
            for piece in split(len(part), -(-len(part) // count), 1)
        ]


def most_of_axis(axis: Axis1D, *, pitched: bool) -> Reach:
    """Return what the fields of a command can express along an axis, of any geometry.

    Of a single tap the dilation does not matter. Large strides are either pitches, which takes
    single taps, too, or leave one output to a region. Padding is at most 31 positions, so a region
    that begins farther from the image must be small enough to have no more, as all of it may lie in
    the padding.

    Parameters
    ----------
    axis : Axis1D
        The whole kernel along the axis.
    pitched : bool
        Whether the axis is that of image rows, whose distance is a field.
    """
    taps, outputs, first, step = LARGEST_KERNEL, _ANY, _ANY, axis.stride
    if axis.dilation > _DILATION:
        taps = 1
    if axis.stride > _STRIDE:
        if pitched:
            taps, step = 1, 1
        else:
            outputs = 1
    if axis.pad > _PAD:
        taps = min(taps, _PAD // 2 // axis.dilation + 1)
        if outputs == _ANY:
            outputs = (_PAD - 1 - (taps - 1) * axis.dilation) // step + 1
            first = -(-(axis.pad - _PAD) // axis.stride)
    return Reach(taps, outputs, first)


def cut_kernel(
    kernel: tuple[int, int],
    blocks: int,
    most: int,
    *,
    rows: Reach,
    columns: Reach,
    early: bool = False,
) -> tuple[Pass, ...]:
    """Cut a kernel into the passes of an n-block.

    Parameters
    ----------
    kernel : tuple of int
        Its rows and columns.
    blocks : int
        Channel blocks of the input.
    most : int
        k-tiles whose weights do not crowd out everything else.
    rows, columns : Reach
        What a pass may have.
    early : bool
        Whether the first pass should be small, so that its weights are there soon.
    """
    kh, kw = kernel
    most = max(1, most)
    parts = [split(k, -(-k // axis.taps), 1) for k, axis in ((kh, rows), (kw, columns))]
    if len(parts[0][0]) * len(parts[1][0]) > 2 * most:  # even those of one block would
        if len(parts[1][0]) > 2 * most:
            parts[1] = split(kw, -(-kw // most), 1)
        parts[0] = split(kh, -(-kh * len(parts[1][0]) // most), 1)
    taps = len(parts[0][0]) * len(parts[1][0])
    count = max(-(-blocks * taps // most), -(-blocks // rows.blocks))
    chunks = list(split(blocks, count, 1))
    if early and blocks * taps >= _EARLY:
        first = chunks[0]
        sizes = [len(piece) for piece in split(len(first), -(-len(first) * taps // _EARLY), 1)]
        bounds = [0, *accumulate(sizes)]
        chunks[:1] = [range(a, b) for a, b in pairwise(bounds)]
    return tuple(Pass(r, c, b) for b in chunks for r in parts[0] for c in parts[1])


def plan_pieces(
    y: Axis1D, reach: Reach, outputs: int, row_rows: int, room: int
) -> tuple[int, Reach]:
    """Return output rows, and passes over the kernel, so that the image rows of a pass fit.

    As many output rows as possible, as each region loads all weights; then as many kernel rows.

    Parameters
    ----------
    y : Axis1D
        Image rows.
    reach : Reach
        What a command can express.
    outputs : int
        Most output rows of a region.
    row_rows : int
        Rows of the unified buffer that an image row of one channel block takes.
    room : int
        Rows of the unified buffer for one piece of the image.
    """
    while True:
        for taps in range(min(y.kernel, reach.taps), 0, -1):
            rows = min((outputs - 1) * y.stride + (taps - 1) * y.dilation + 1, y.extent)
            if rows * row_rows <= room:
                blocks = room // (rows * row_rows)
                return outputs, replace(reach, taps=taps, blocks=blocks)
        if outputs == 1:
            return 1, replace(reach, taps=1, blocks=1)
        outputs //= 2
