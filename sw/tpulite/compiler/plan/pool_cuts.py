"""Plans of pooling layers: strips and parts of the output, channel blocks, windows, input tiles."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.cut import cut_parts, cut_strips, halves, split
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows
from tpulite.compiler.plan.pool_array import ArrayShare
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW, InputTiles, Run, find_runs, in_tiles
from tpulite.compiler.plan.space import Made, Placed, Space
from tpulite.graph.layers import Pool


@dataclass(frozen=True)
class PoolPart:
    """Output rows that are computed at a time, the input rows that they need, blocks of a time."""

    rows: range
    needed: range
    blocks: tuple[range, ...]


@dataclass(frozen=True)
class PoolPlan:
    """How a pooling layer is computed."""

    layer: Pool  #: The layer.
    #: Its geometry.
    y: Axis1D
    x: Axis1D
    #: Its input and its output.
    source: Placed
    target: Placed
    space: Space  #: What it may take.
    #: Output rows whose results are in the buffer together, if the layer is alone.
    strips: tuple[range, ...]
    columns: tuple[Run, ...]  #: The output's columns.
    #: How windows are read that are too large for a command, or for the buffer.
    input_tiles: InputTiles | None

    def parts(self, strip: range) -> Iterator[PoolPart]:
        """Yield what of a strip is computed at a time, if it is not read by tiles."""
        target, config = self.target, self.space.config
        for rows in cut_parts(
            strip,
            target.width,
            config,
            grain=target.grain,
            block_start=self.space.block_start,
        ):
            needed = self.y.needed(rows)
            yield PoolPart(rows, needed, self._blocks(needed))

    def _blocks(self, rows: range) -> tuple[range, ...]:
        """Return channel blocks in parts whose windows fit: one may be as large as the input.

        Where rows of a command are blocks, parts are halves of what is left: each is computed while
        the array makes the next ones, and only the last, a block, after all of them.
        """
        source, most = self.source, self.space.free_rows // 2
        single = self.target.height == self.target.width == 1
        early = self.space.block_start and self.space.prefetch and self.space.keep is None
        if single and early and source.resident and source.made is not Made.OTHERWISE:
            return halves(source.blocks)
        block = len(rows) * source.width
        if source.resident or source.blocks * block <= most:
            return (range(source.blocks),)
        return split(source.blocks, -(-source.blocks // max(1, most // block)), 1)

    def share(self, part: PoolPart) -> ArrayShare:
        """Return what the array computes of a part."""
        config, interleaved = self.space.config, self.space.interleaved
        regions = product(find_runs(self.y, part.rows), self.columns)
        blocks = len(part.blocks[0])
        return ArrayShare.of(self.layer, regions, blocks, config, interleaved=interleaved)

    @property
    def on_array(self) -> DepthwiseRows:
        """The same windows as those of a depthwise convolution."""
        return DepthwiseRows(self.y, self.x, self.target, self.space, self.strips, by_pass=False)

    def plain(self, row: Run) -> list[Run]:
        """Return columns of a row read by tiles whose windows, being clipped, fit a command."""
        if not self.source.resident or row.size > LARGEST_WINDOW:
            return []
        return [run for run in self.columns if run.size <= LARGEST_WINDOW]


def pool_plan(layer: Pool, source: Placed, target: Placed, space: Space) -> PoolPlan:
    """Return how a pooling layer is computed; see :class:`PoolPlan`.

    Raises
    ------
    ValueError
        If a window lies in the padding altogether.
    """
    left = layer.padding[1] + source.column - target.column * layer.stride[1]
    y = Axis1D(layer.window[0], layer.stride[0], before=layer.padding[0], size=source.height)
    x = Axis1D(layer.window[1], layer.stride[1], before=left, size=source.width)
    input_tiles = InputTiles.of(source, space) if in_tiles(y, x, source, target, space) else None
    strips: tuple[range, ...] = (range(target.height),)
    per_row = 0 if target.resident else target.blocks * target.width
    if input_tiles is None and not (source.resident and target.resident):
        per_row = source.blocks * (source.width * y.stride + target.width)
    if per_row:
        strips = cut_strips(target.height, per_row, space.strip_rows, target.grain)
    columns = tuple(find_runs(x, range(target.width)))
    return PoolPlan(layer, y, x, source, target, space, strips, columns, input_tiles)
