"""Channel blocks that become pixels."""

from collections.abc import Iterator
from itertools import product

from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.vector_commands import copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.plan.rows import RowsPlan
from tpulite.graph.layers import DepthToSpace

__all__ = ["DepthToSpaceLowering"]


class DepthToSpaceLowering(Lowering[DepthToSpace, RowsPlan]):
    """Copies of vectors: a command for each pixel of a square, and channel block."""

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        source, target, index = self._source, self._target, self._context.index
        block = self._layer.block
        for part in self._plan.parts(rows):
            needed = range(part.start // block, -(-part.stop // block))
            view, loads = source.read(needed, index)
            yield from loads
            out = target.open(part)
            for i, j, n in product(range(block), range(block), range(target.blocks)):
                place = view.at(needed.start, 0, (i * block + j) * target.blocks + n)
                places = (place, out.at(needed.start * block + i, j, n))
                extents, write = (len(needed), source.width), (block * out.pitch, block)
                yield from copy_ops(self._context, places, extents, (view.pitch, 1), write)
            yield from target.store(out, part, index)
