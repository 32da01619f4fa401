"""Plans of depthwise convolutions of one shape: strips, phases, and regions of commands."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from tpulite.arch.isa import Axis
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL, Axis1D, axes_of
from tpulite.compiler.geometry.cut import cut_parts, cut_strips, split
from tpulite.compiler.plan.depthwise_plan import DepthwisePlan, DepthwiseSpace, depthwise_plan
from tpulite.compiler.plan.space import Placed, Space
from tpulite.graph.layers import Depthwise

_PARTS = (3, 4, 6)
"""Strips of one channel block take one of these parts of the free rows, which are tried: those
before and after them are on their way to and from DRAM."""

_ROOM = 4
"""What a pass loads takes at most this part of the free rows, if they are that of a single tap."""


@dataclass(frozen=True)
class DepthwisePhase:
    """Outputs that are a period apart."""

    first: tuple[int, int]  #: Their coordinates modulo the period.
    pattern: DepthwisePlan  #: How the array is used.
    regions: tuple[tuple[range, range], ...]  #: Rows and columns of commands, counted in periods.


@dataclass(frozen=True)
class DepthwiseRows:
    """How a depthwise convolution is cut.

    Dilated ones run as phases: outputs that are some positions apart read inputs that are a
    multiple of the dilation apart.
    """

    #: Geometry.
    y: Axis1D
    x: Axis1D
    target: Placed  #: The output.
    space: Space  #: What it may take.
    strips: tuple[range, ...]  #: Output rows that are in the buffer together, if the layer is alone
    by_pass: bool  #: Whether each pass loads the rows of the one channel block that it reads.
    #: Whether strips are of one channel block, all of them before those of the next one.
    by_block: bool = False

    @property
    def cycles(self) -> int:
        """Cycles of the array."""
        lengths = Counter(len(part) for strip in self.strips for part in self.parts(strip))
        return self.target.blocks * sum(
            count * phase.pattern.cycles
            for length, count in lengths.items()
            for phase in self.phases(range(length))
        )

    @property
    def step(self) -> tuple[int, int]:
        """Dilations from an input to the one that the next output of a phase reads."""
        y, x = (axis.stride // gcd(axis.stride, axis.dilation) for axis in (self.y, self.x))
        return y, x

    @property
    def period(self) -> tuple[int, int]:
        """Positions from an output of a phase to the next."""
        y, x = (axis.dilation // gcd(axis.stride, axis.dilation) for axis in (self.y, self.x))
        return y, x

    def parts(self, rows: range) -> tuple[range, ...]:
        """Cut rows: sums of a column must fit the accumulators, what it reads a command."""
        reach, config = (self.y.kernel - 1) * self.y.dilation, self.space.config
        most = max(1, (LARGEST_EXTENT - 1 - reach) // self.y.stride + 1)
        columns = -(-config.acc_rows // most)
        return cut_parts(rows, columns, config, grain=self.target.grain, parts=1)

    def phases(self, part: range) -> Iterator[DepthwisePhase]:
        """Yield the phases of a part that have outputs."""
        whole = part, range(self.target.width)
        dy, dx = self.period
        for first in product(range(dy), range(dx)):
            rows, columns = (
                range(-(-(each.start - p) // d), -(-(each.stop - p) // d))
                for each, p, d in zip(whole, first, self.period, strict=True)
            )
            if rows and columns:
                yield self.phase(first, rows, columns)

    def phase(self, first: tuple[int, int], rows: range, columns: range) -> DepthwisePhase:
        """Return how some outputs of a phase are computed, counted in periods."""
        pattern = depthwise_plan(
            (self.y.kernel, self.x.kernel),
            self.step,
            (len(rows), len(columns)),
            self.space.config,
            DepthwiseSpace(
                self.space.interleaved,
                self._most_taps if self.by_pass else LARGEST_KERNEL,
                self.target.blocks == 1 and self.space.block_start,
            ),
            dilation=(self.y.dilation, self.x.dilation),
        )
        inner = columns if pattern.inner == Axis.X else rows
        cuts = split(len(inner), -(-len(inner) // pattern.outputs), 1)
        some = [range(inner.start + cut.start, inner.start + cut.stop) for cut in cuts]
        across = pattern.inner == Axis.X
        regions = tuple((rows, each) if across else (each, columns) for each in some)
        return DepthwisePhase(first, pattern, regions)

    @property
    def _most_taps(self) -> int:
        """Kernel rows of a pass that loads what it reads."""
        rows = self.space.free_rows // _ROOM // self.x.size
        return max(1, (rows - 1) // self.y.dilation + 1)

    def axes(
        self, phase: tuple[int, int], taps: tuple[range, range] | None = None
    ) -> tuple[Axis1D, Axis1D]:
        """Return the geometry of a phase, for a pass over some taps or for all of them."""
        taps = taps or (range(self.y.kernel), range(self.x.kernel))
        y, x = (
            replace(
                axis,
                kernel=len(tap),
                stride=step * axis.dilation,
                dilation=axis.dilation * tap.step,
                before=axis.before - first * axis.stride - tap.start * axis.dilation,
            )
            for axis, step, tap, first in zip((self.y, self.x), self.step, taps, phase, strict=True)
        )
        return y, x


def depthwise_rows(layer: Depthwise, source: Placed, target: Placed, space: Space) -> DepthwiseRows:
    """Return how a depthwise convolution is cut.

    If constants do not stay, nor does an input in DRAM.
    """
    left = layer.padding[1] + source.column - target.column * layer.stride[1]
    padding = layer.padding[0], left, *layer.padding[2:]
    y, x = axes_of(layer.windows._replace(padding=padding))
    y, x = y.at(source.height), x.at(source.width)
    per_row = 0 if source.resident else source.blocks * source.width * y.stride
    per_row += 0 if target.resident else target.blocks * target.width
    plan = DepthwiseRows(
        y, x, target, space, (range(target.height),), space.fleeting and not source.resident
    )
    if not per_row:
        return plan
    plan = replace(plan, strips=cut_strips(target.height, per_row, space.strip_rows, target.grain))
    if space.keep is not None or plan.by_pass or target.blocks == 1:
        return plan
    # Strips of one block are taller, so fewer rows are streamed twice.
    per_row = -(-per_row // target.blocks)
    cuts = [
        cut_strips(target.height, per_row, space.free_rows // parts, target.grain)
        for parts in _PARTS
    ]
    tall = [replace(plan, strips=strips, by_block=True) for strips in dict.fromkeys(cuts)]
    return min((plan, *tall), key=lambda each: (each.cycles, each.by_block, -len(each.strips)))
