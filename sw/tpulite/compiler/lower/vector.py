"""Elementwise layers and softmax on the vector path."""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from tpulite.arch.isa import VectorOp
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.lowering import LayerContext, Lowering, vector_op
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import Constant, common_record, operand_records, pad_to_rows
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.place.weights import layer_records
from tpulite.compiler.plan.pool_windows import MOST_VECTORS
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import Affine, Elementwise, Lut, Softmax

V = TypeVar("V", Affine, Elementwise, Lut)


class _Pointwise(Lowering[V, RowsPlan]):
    """A layer of which each vector of the output needs only the same one of its inputs."""

    _broadcast = False

    def alone(self, *, again: bool = False) -> Iterator[Op]:
        plan = self._plan.tiles
        if plan is None:
            yield from super().alone(again=again)
            return
        flat = self._target.flat()
        size = plan.tile_blocks * plan.tile_pixels  # places are alike, so none becomes too small
        # Loads of a tile come as soon as one of the places is free.
        loaded: deque[Iterator[Op]] = deque()
        for planes, pixels in plan.cuts(flat.blocks, flat.height, flat.grain):
            loads, rest = self._tile(planes, pixels, size)
            yield from loads
            loaded.append(rest)
            if len(loaded) == plan.slots:
                yield from loaded.popleft()
        for rest in loaded:
            yield from rest

    def _tile(self, blocks: range, pixels: range, size: int) -> tuple[list[Op], Iterator[Op]]:
        """Return the loads of a tile of activations that are not resident, and the commands."""
        index = self._context.index
        views: dict[Store, View] = {}
        loads = [op for constant in self._constants(blocks) for op in constant.use()[1]]
        for source in dict.fromkeys(self._sources):
            some = source if source.resident else source.flat().some_blocks(blocks)
            if self._broadcast and views:
                view, ops = some.read(range(1), index)
            else:
                view = some.strip(pixels, least=size, bank=None)
                ops = some.load(view, pixels, index)
            loads += ops
            views[source] = view
        return loads, self._compute(
            [views[source] for source in self._sources], blocks, pixels, size
        )

    def _compute(self, views: list[View], blocks: range, pixels: range, size: int) -> Iterator[Op]:
        """Yield the commands that compute a tile where its first operand is, and store it."""
        target = self._target.flat().some_blocks(blocks)
        out = target.strip(pixels, views, least=size, bank=None)
        views = [
            view if source.resident else view.without(blocks.start)
            for view, source in zip(views, self._sources, strict=True)
        ]
        start, index = (pixels.start, 0), self._context.index
        yield from self._vectors(views, out.without(blocks.start), start, len(pixels), blocks)
        yield from target.store(out, pixels, index)

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        index, target = self._context.index, self._target
        runs = self._plan.runs(rows, target.blocks)
        for part in self._plan.parts(rows):
            views = []
            for number, source in enumerate(self._sources):
                whole = self._broadcast and number == 1
                view, loads = source.read(range(1) if whole else part, index)
                yield from loads
                views.append(view)
            out = target.open(part, views)
            lines = views[:1] if self._broadcast else views
            for pixels in lines_of(part, target.width, [*lines, out], MOST_VECTORS):
                start = divmod(pixels.start, target.width)
                for run in runs:
                    yield from self._vectors(views, out, start, len(pixels), run)
            first = part.start // target.grain * target.grain
            yield from target.store(out, range(first, part.stop), index)

    @abstractmethod
    def _constants(self, blocks: range) -> Sequence[Constant]:
        """Return the parameters of some blocks."""

    @abstractmethod
    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int, blocks: range
    ) -> Iterator[Op]:
        """Yield the commands for ``count`` pixels from ``start`` on, of some blocks."""


class _Uniform(_Pointwise[V]):
    """One set of parameters for all channels: the rows of a command are blocks."""

    _parameters: Constant

    def _constants(self, blocks: range) -> Sequence[Constant]:
        return (self._parameters,)

    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int, blocks: range
    ) -> Iterator[Op]:
        place, loads = self._parameters.use()
        yield from loads
        fields = {
            "rows": len(blocks),
            "columns": count,
            "a_pitch": views[0].block_pitch,
            "a_step": 1,
            "out_pitch": out.block_pitch,
            "out_step": 1,
        }
        first = blocks.start
        places = {
            "a_row": views[0].at(*start, first),
            "out_row": out.at(*start, first),
            "param_row": place,
        }
        if len(views) > 1:
            fields |= {"b_pitch": views[1].block_pitch, "b_step": int(not self._broadcast)}
            places["b_row"] = views[1].at(*(0, 0) if self._broadcast else start, first)
        yield vector_op(self._context, self._layer.vector_op, fields, places)


class ElementwiseLowering(_Uniform[Elementwise]):
    """An addition, subtraction or multiplication of two images."""

    def __init__(self, layer: Elementwise, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        parameters = operand_records(layer, self._config)
        self._parameters = context.constant("parameters", parameters)
        b, target = self._sources[1], self._target
        self._broadcast = (b.height, b.width) != (target.height, target.width)


class MaximumLowering(_Pointwise[Elementwise]):
    """The larger one of two activations: a window over both."""

    def _constants(self, blocks: range) -> Sequence[Constant]:
        return ()

    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int, blocks: range
    ) -> Iterator[Op]:
        alike = views[0].block_pitch == views[1].block_pitch
        for run in (blocks,) if alike else (range(n, n + 1) for n in blocks):
            fields = {
                "rows": len(run),
                "columns": count,
                "a_pitch": views[0].block_pitch,
                "a_step": 1,
                "b_pitch": views[1].block_pitch,
                "b_step": 1,
                "out_pitch": out.block_pitch,
                "out_step": 1,
            }
            names = ("a_row", "b_row", "out_row")
            places = {
                name: view.at(*start, run.start)
                for name, view in zip(names, (*views, out), strict=True)
            }
            yield vector_op(self._context, VectorOp.MAX, fields, places)


class LutLowering(_Uniform[Lut]):
    """A function of one number."""

    def __init__(self, layer: Lut, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        self._parameters = context.constant("table", layer.table)


class AffineLowering(_Pointwise[Affine]):
    """A factor and a bias for each channel: commands for each block."""

    def __init__(self, layer: Affine, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        _, blocks = layer_records(layer, self._config)
        self._records = [context.constant("records", rows) for rows in blocks]

    def _constants(self, blocks: range) -> Sequence[Constant]:
        return self._records[blocks.start : blocks.stop]

    def _vectors(
        self, views: list[View], out: View, start: tuple[int, int], count: int, blocks: range
    ) -> Iterator[Op]:
        for n in blocks:
            place, loads = self._records[n].use()
            yield from loads
            fields = {"rows": 1, "columns": count, "a_step": 1, "out_step": 1}
            places = {
                "a_row": views[0].at(*start, n),
                "out_row": out.at(*start, n),
                "param_row": place,
            }
            yield vector_op(self._context, VectorOp.AFFINE, fields, places)


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


class SoftmaxLowering(Lowering[Softmax, RowsPlan]):
    """The channel blocks of a pixel are the window of MAX and NORM, and then one vector each.

    A norm takes the place of the maxima that it is made from.
    """

    def __init__(self, layer: Softmax, context: LayerContext, plan: RowsPlan) -> None:
        super().__init__(layer, context, plan)
        if not self._config.has_softmax:
            raise ValueError("this configuration has no softmax")
        channels = context.channels[layer.inputs[0]]
        self._tail = channels % self._config.array_size
        self._addends = context.constant("addends", _planes(layer.addends))
        record = common_record(layer.requantization, self._config)
        words = pad_to_rows(_planes(layer.words).tobytes(), self._config)
        self._words = context.constant("words", np.concatenate([words, record]))

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        source, target, index = self._source, self._target, self._context.index
        for part in self._plan.parts(rows):
            view, loads = source.read(part, index)
            yield from loads
            out = target.open(part, [view])
            for pixels in lines_of(part, target.width, [view, out], MOST_VECTORS):
                start = divmod(pixels.start, target.width)
                yield from self._shares(view, out, start, len(pixels))
            first = part.start // target.grain * target.grain
            yield from target.store(out, range(first, part.stop), index)

    def _shares(self, view: View, out: View, start: tuple[int, int], count: int) -> Iterator[Op]:
        """Yield the commands for ``count`` pixels from ``start`` on."""
        context, blocks, a = self._context, self._target.blocks, view.at(*start)
        norms = Region(Buffer(f"norms of {context.name}", count))
        each = {"columns": count, "a_step": 1, "out_step": 1}
        window = {
            **each,
            "rows": 1,
            "window_rows": blocks,
            "window_pitch": view.block_pitch,
            "tail": self._tail,
        }
        maxima = a  # of one full vector there is nothing to reduce
        if blocks > 1 or self._tail:
            maxima = norms
            yield vector_op(context, VectorOp.MAX, window, {"a_row": a, "out_row": maxima})
        place, loads = self._addends.use()
        yield from loads
        places = {"a_row": a, "b_row": maxima, "out_row": norms, "param_row": place}
        yield vector_op(context, VectorOp.NORM, {**window, "b_step": 1}, places)
        place, loads = self._words.use()
        yield from loads
        pitches = {"a_pitch": view.block_pitch, "out_pitch": out.block_pitch, "b_step": 1}
        places = {"a_row": a, "b_row": norms, "out_row": out.at(*start), "param_row": place}
        yield vector_op(context, VectorOp.SHARE, {**each, **pitches, "rows": blocks}, places)


def _planes(words: np.ndarray) -> np.ndarray:
    """Return words as NORM and SHARE read them: the lowest bytes of all, then the next ones."""
    return np.ascontiguousarray(words.astype("<i4").view(np.uint8).reshape(-1, 4).T)
