"""Elementwise layers on the vector path."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.isa import VectorOp
from tpulite.compiler.ops import Op
from tpulite.compiler.tiling.constants import Constant, channel_records, common_record, pad_to_rows
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.cut import cut_parts, cut_strips, split
from tpulite.compiler.tiling.images import Store, View
from tpulite.compiler.tiling.lowering import L, Lowering
from tpulite.compiler.tiling.vector_commands import MOST_VECTORS, vector_op
from tpulite.graph.layers import Affine, Elementwise, Lut

__all__ = [
    "IN_PLACE",
    "AffineLowering",
    "ElementwiseLowering",
    "LutLowering",
    "lines_of",
    "parts_of",
    "strips_of",
]


IN_PLACE = (Affine, Elementwise, Lut)
"""Layers whose output may be made in the place of an input, vector by vector."""


class _Pointwise(Lowering[L]):
    """A layer of which each vector of the output needs only the same one of its inputs."""

    _broadcast = False

    def strips(self) -> tuple[range, ...]:
        return strips_of(self._same(), self._target, self._context)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        index, target = self._context.index, self._target
        for part in parts_of(rows, self._same(), target, self._context):
            views = []
            for number, source in enumerate(self._sources):
                whole = self._broadcast and number == 1
                view, loads = source.read(range(1) if whole else part, index)
                yield from loads
                views.append(view)
            out = target.open(part, views)
            lines = views[: len(self._same())]
            for pixels in lines_of(part, target.width, [*lines, out], MOST_VECTORS):
                yield from self._vectors(
                    views, out, divmod(pixels.start, target.width), len(pixels)
                )
            first = part.start // target.grain * target.grain
            yield from target.store(out, range(first, part.stop), index)

    def _same(self) -> tuple[Store, ...]:
        """Return the sources that are as large as the output."""
        return tuple(self._sources[:1] if self._broadcast else self._sources)

    @abstractmethod
    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int
    ) -> Iterator[Op]:
        """Yield the commands for ``count`` pixels from ``start`` on, all blocks."""


class _Uniform(_Pointwise[L]):
    """One set of parameters for all channels: the rows of a command are blocks."""

    _operation: VectorOp
    _parameters: Constant

    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int
    ) -> Iterator[Op]:
        place, loads = self._parameters.use()
        yield from loads
        fields = {
            "rows": self._target.blocks,
            "columns": count,
            "a_pitch": views[0].block_pitch,
            "a_step": 1,
            "out_pitch": out.block_pitch,
            "out_step": 1,
        }
        places = {"a_row": views[0].at(*start), "out_row": out.at(*start), "param_row": place}
        if len(views) > 1:
            fields |= {"b_pitch": views[1].block_pitch, "b_step": int(not self._broadcast)}
            places["b_row"] = views[1].at(*(0, 0) if self._broadcast else start)
        yield vector_op(self._context, self._operation, fields, places)


class ElementwiseLowering(_Uniform[Elementwise]):
    """An addition, subtraction or multiplication of two images."""

    def __init__(self, layer: Elementwise, context: Context) -> None:
        super().__init__(layer, context)
        (a_zero, b_zero), (a_multiplier, b_multiplier) = layer.zero_points, layer.multipliers
        operands = isa.OPERANDS.pack(
            a_zero_point=a_zero,
            b_zero_point=b_zero,
            a_multiplier=a_multiplier,
            a_shift=layer.shifts[0],
            b_multiplier=b_multiplier,
            b_shift=layer.shifts[1],
            scaling=layer.scaling,
        )
        rows = (
            pad_to_rows(operands.to_bytes(RECORD_BYTES, "little"), self._config),
            common_record(layer.requantization, self._config),
        )
        self._parameters = context.constant("parameters", np.concatenate(rows))
        self._operation = VectorOp[layer.op.upper()]
        b, target = self._sources[1], self._target
        self._broadcast = (b.height, b.width) != (target.height, target.width)


class LutLowering(_Uniform[Lut]):
    """A function of one number."""

    def __init__(self, layer: Lut, context: Context) -> None:
        super().__init__(layer, context)
        self._parameters = context.constant("table", layer.table)
        self._operation = VectorOp.LUT


class AffineLowering(_Pointwise[Affine]):
    """A factor and a bias for each channel: commands for each block."""

    def __init__(self, layer: Affine, context: Context) -> None:
        super().__init__(layer, context)
        gain, requantization = layer.gain, layer.requantization
        bias = np.broadcast_to(requantization.bias, len(gain)).astype(np.int64)
        _, blocks = channel_records(requantization, bias, self._config, gain=gain)
        self._records = [context.constant("records", rows) for rows in blocks]

    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int
    ) -> Iterator[Op]:
        for n, constant in enumerate(self._records):
            place, loads = constant.use()
            yield from loads
            fields = {"rows": 1, "columns": count, "a_step": 1, "out_step": 1}
            places = {
                "a_row": views[0].at(*start, n),
                "out_row": out.at(*start, n),
                "param_row": place,
            }
            yield vector_op(self._context, VectorOp.AFFINE, fields, places)


def strips_of(sources: tuple[Store, ...], target: Store, context: Context) -> tuple[range, ...]:
    """Cut an image of which each row needs only the same row of others."""
    outside = [store for store in (*sources, target) if not store.resident]
    if not outside:
        return (range(target.height),)
    grain = max(store.grain for store in (*sources, target))
    per_row = sum(store.blocks * store.width for store in outside)
    return cut_strips(target.height, per_row, context.strip_rows, grain)


def parts_of(
    rows: range, sources: tuple[Store, ...], target: Store, context: Context
) -> tuple[range, ...]:
    """Cut a strip into what is computed, and stored, before the next layer starts."""
    return cut_parts(
        rows,
        target.width,
        context.config,
        grain=max(store.grain for store in (*sources, target)),
        block_start=context.options.block_start,
    )


def lines_of(rows: range, width: int, views: list[View], most: int) -> list[range]:
    """Return the pixels of rows, number y * width + x, in pieces of vectors that follow each other.

    Rows follow each other without a gap, unless a view shows only some columns of an image.
    """
    start, stop = rows.start * width, rows.stop * width
    lines = [range(start, stop)]
    if any(view.pitch != width for view in views):
        lines = [range(first, first + width) for first in range(start, stop, width)]
    return [
        range(line.start + piece.start, line.start + piece.stop)
        for line in lines
        for piece in split(len(line), -(-len(line) // most), 1)
    ]
