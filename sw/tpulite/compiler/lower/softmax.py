"""Softmax over channels on the vector path: maxima, norms, shares."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.isa import VectorOp
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.vector import lines_of
from tpulite.compiler.lower.vector_commands import vector_op
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.place.constants import common_record, pad_to_rows
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.pool_windows import MOST_VECTORS
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import Softmax


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
