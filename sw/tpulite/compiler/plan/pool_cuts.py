"""Plans of pooling layers: strips and parts of the output, channel blocks, windows, input tiles.

Averages on the array: a depthwise convolution with ones sums windows of one size.

The vector path reads each window, the array each position about once for all windows. A window that
the border clips has a divisor of its own, so its region is a command of its own on either engine.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV, VectorOp
from tpulite.arch.timing import vector_cycles, vector_overhead
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL, LARGEST_STRIDE, Axis1D
from tpulite.compiler.geometry.cut import cut_parts, cut_strips, halves, split
from tpulite.compiler.plan.conv_cost import CONV_CYCLES
from tpulite.compiler.plan.depthwise_plan import DepthwiseSpace, depthwise_plan
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW, InputTiles, Run, find_runs, in_tiles
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import Activation, Made, Pool

_LESS = 2
"""How many times fewer cycles of the array than of the vector path a region must take: the layers
before and behind a pool mostly wait for the array."""

_MANY = 16
"""Blocks of which it pays that halves follow the vector path, which may come early itself."""


def suits_array(layer: Pool) -> bool:
    """Return whether the array may sum windows of a pool."""
    return (
        layer.op == "average"
        and 1 < max(layer.window) <= LARGEST_KERNEL
        and max(layer.stride) <= LARGEST_STRIDE
        and max(layer.padding) <= CONV.limit("pad_top")
    )


@dataclass(frozen=True)
class ArrayShare:
    """Regions of an average that the array computes, and cycles of both engines for a block."""

    regions: frozenset[tuple[Run, Run]]  #: Rows and columns of its regions.
    #: Cycles.
    array: int
    vectors: int

    @classmethod
    def of(
        cls,
        layer: Pool,
        regions: Iterable[tuple[Run, Run]],
        blocks: int,
        config: Config,
        *,
        interleaved: bool = True,
    ) -> "ArrayShare":
        """Return the share with which the later engine ends first.

        Parameters
        ----------
        regions : iterable of (Run, Run)
            All regions that are computed at a time.
        blocks : int
            Channel blocks that are.
        interleaved : bool
            Whether several rows may be interleaved in the array.
        """
        space = DepthwiseSpace(interleaved=interleaved)
        vectors, candidates = 0, []
        for region in regions:
            rows, columns = (len(run.outputs) for run in region)
            spent = vector_cycles(
                VectorOp.SUM, rows * columns, region[0].size * region[1].size, config
            )
            if rows == columns == 1:  # one command for all blocks
                overhead = vector_overhead(VectorOp.SUM, config)
                spent += -(-overhead // blocks) - overhead
            vectors += spent
            if suits_array(layer) and _fits(layer, region, config):
                plan = depthwise_plan(layer.window, layer.stride, (rows, columns), config, space)
                passes = len(plan.kernel[0]) * len(plan.kernel[1])
                taken = plan.cycles + passes * CONV_CYCLES
                if taken * _LESS <= spent:
                    candidates.append((taken / spent, taken, spent, region))
        array, chosen = 0, set()
        for _, taken, spent, region in sorted(candidates, key=lambda each: each[0]):
            if max(array + taken, vectors - spent) < max(array, vectors):
                array, vectors = array + taken, vectors - spent
                chosen.add(region)
        return cls(frozenset(chosen), array, vectors)


def rough_regions(
    layer: Pool, images: tuple[Activation, Activation], extents: tuple[int, int]
) -> list[tuple[Run, Run]]:
    """Return regions of so many rows and columns of an output; of fewer, those of its middle."""
    axes = []
    for axis, outputs in enumerate(extents):
        window, stride = layer.window[axis], layer.stride[axis]
        if outputs < images[1].shape[axis]:
            axes.append([Run(range(outputs), 0, window, stride)])
            continue
        extent, pad = images[0].shape[axis], layer.padding[axis]
        axes.append(find_runs(Axis1D(window, stride, before=pad, size=extent), range(outputs)))
    return list(product(*axes))


def _fits(layer: Pool, region: tuple[Run, Run], config: Config) -> bool:
    """Return whether commands can read the windows of a region, and keep its sums."""
    for run, window, stride in zip(region, layer.window, layer.stride, strict=True):
        outputs = len(run.outputs)
        if outputs > config.acc_rows or (outputs - 1) * stride + window > LARGEST_EXTENT:
            return False
    return True


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
        behind = source.made is Made.BEHIND and source.blocks >= _MANY
        if single and early and source.resident and (source.made.by_array or behind):
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
