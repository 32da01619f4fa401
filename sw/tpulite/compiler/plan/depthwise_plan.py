"""How a depthwise convolution uses the array: the plan with the fewest cycles."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.interleave import (
    LINE,
    LINES,
    MOST_DELAY,
    PAIR,
    WIDE_LINE,
    interleave,
    least_delay,
    paired_outputs,
)
from tpulite.arch.isa import Axis
from tpulite.arch.timing import turnaround
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL, Number, ceil_div, pick
from tpulite.compiler.geometry.cut import split


@dataclass(frozen=True)
class DepthwisePlan:
    """How a depthwise convolution runs on the array."""

    inner: Axis  #: Axis along which input rows (or columns) are interleaved.
    outputs: int  #: Outputs along that axis of one command.
    #: Parts of the kernel along y and along x; each pair is a pass. A part of every second tap has
    #: a stride of half as many positions, which are twice as far apart. A part may begin with taps
    #: of the one before, which are zero in its passes.
    kernel: tuple[tuple[range, ...], tuple[range, ...]]
    cycles: int  #: Cycles of all passes over one channel block.

    def repeated(self, taps: tuple[range, range]) -> tuple[int, int]:
        """Return with how many rows and columns of the parts before them a pass begins."""
        rows, columns = (
            sum(tap in parts[parts.index(part) - 1] for tap in part) if part != parts[0] else 0
            for parts, part in zip(self.kernel, taps, strict=True)
        )
        return rows, columns


class Way(NamedTuple):
    """What a command of a depthwise convolution may be: see :class:`DepthwisePlan`."""

    outputs: range  #: Outputs along the inner axis.
    kernel: tuple[tuple[range, ...], tuple[range, ...]]  #: Parts of the kernel along y and along x.

    @property
    def is_wide(self) -> bool:
        """Whether passes are of neighboring taps, and not of three lines of three alone."""
        whole = (range(LINE),)
        return self.kernel != (whole, whole) and self.kernel[0][0].step == 1

    @property
    def has_one_tile(self) -> bool:
        """Whether its passes have the same weight tiles for all outputs."""
        return len(self.outputs) == 1 or all(
            len(part) != LINES - 1 for parts in self.kernel for part in parts
        )

    def plain_outputs(self, stride: int, inner: Axis, config: Config) -> int:
        """Return the most outputs along the inner axis of its first pass, without delay lines."""
        i, o = (1, 0) if inner == Axis.X else (0, 1)
        along = self.kernel[i][0]
        size = len(along), len(self.kernel[o][0])
        return _most_outputs(*size, stride // along.step, config.array_size)


@dataclass(frozen=True)
class DepthwiseSpace:
    """What a plan may do, and what comes next."""

    #: Whether several rows may be interleaved; else one line of outputs is a stream.
    interleaved: bool = True
    rows: int = LARGEST_KERNEL  #: Most kernel rows of a pass.
    #: Whether there is one channel block: then the next layer, which could begin with the rows of
    #: the first of several commands, waits for the end of all that have no rows of their own.
    single: bool = False


_FREE = DepthwiseSpace()

PHASES = 2
"""Every second tap of a kernel with a stride of 2 is one with a stride of 1."""


@lru_cache(maxsize=1024)
def depthwise_plan(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    outputs: tuple[int, int],
    config: Config,
    space: DepthwiseSpace = _FREE,
    *,
    dilation: tuple[int, int] = (1, 1),
) -> DepthwisePlan:
    """Choose the fastest way to run a depthwise convolution; pairs are (y, x).

    With V outputs along the inner axis, R = (V - 1) * stride + kernel input positions are
    interleaved, and all taps of a pass must lie within the N rows of a weight tile: see
    :mod:`tpulite.arch.interleave`. A command reads at most 2,047 positions, which are ``dilation``
    apart.
    """
    best, least_cost = None, 0
    longest = (min(space.rows, LARGEST_KERNEL), LARGEST_KERNEL)
    for inner in (Axis.Y, Axis.X):
        i, o = (1, 0) if inner == Axis.X else (0, 1)
        ways = [
            *_ways(kernel, stride, inner, config, longest),
            *delayed_ways(kernel, inner, stride, dilation[i], longest, config),
        ]
        for way in ways:
            most = outputs[i] if space.interleaved else 1
            high = min(way.outputs[-1], config.acc_rows // outputs[o], most)
            reach = (outputs[o] - 1) * stride[o] + max(map(len, way.kernel[o])) - 1
            if high < way.outputs[0] or reach * dilation[o] >= LARGEST_EXTENT:
                continue
            groups = split(outputs[i], -(-outputs[i] // high), 1)
            if min(map(len, groups)) < way.outputs[0]:
                continue
            cycles = 0
            kinds = (_kinds(parts) for parts in (groups, way.kernel[i], way.kernel[o]))
            for (group, many), (a, many_a), (b, many_b) in product(*kinds):
                axis = len(group), stride[i] // a.step, dilation[i] * a.step
                line = interleave(inner, *axis, (len(b), len(a)), config).vectors
                lines = (outputs[o] - 1) * (stride[o] // b.step) + len(b)
                cycles += many * many_a * many_b * max(line * lines, config.array_size)
            at_once = len(groups) == 1 or inner == Axis.X
            cost = cycles + (turnaround(config) if space.single and at_once else 0)
            # Rows interleaved start with few rows and leave row by row, so they win ties.
            if best is None or cost < least_cost:
                least_cost, best = cost, DepthwisePlan(inner, high, way.kernel, cycles)
    assert best is not None  # one tap at a time always fits, if strips are cut
    return best


def _kinds(parts: Sequence[range]) -> list[tuple[range, int]]:
    """Return a part of each length and step, and how many of them there are."""
    kinds = {(len(part), part.step): part for part in parts}
    counts = Counter((len(part), part.step) for part in parts)
    return [(part, counts[kind]) for kind, part in kinds.items()]


def large_depthwise_plan(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: Axis,
    config: Config,
    longest: tuple[int, ...] = (LARGEST_KERNEL, LARGEST_KERNEL),
    outputs: tuple[int, int] | None = None,
) -> DepthwisePlan:
    """Return the way along an axis that streams the fewest vectors in a large activation.

    Its cycles are those of N outputs along the inner axis and one along the other; or of
    ``outputs`` along y and x, if they are known. Parts of the kernel are no longer than
    ``longest``, along y and x.
    """
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    plans = []
    delayed = delayed_ways(kernel, inner, stride, 1, longest, config)
    # Of one way there are tiles for few outputs and for many: both must serve all of them.
    delayed = tuple(way for way in delayed if way.has_one_tile)
    if outputs is None and inner == Axis.Y:  # a plain stream is left for few outputs along x
        delayed = tuple(way for way in delayed if not way.is_wide)
    for way in (*_ways(kernel, stride, inner, config, longest), *delayed):
        most, step = min(way.outputs[-1], config.acc_rows), stride[o] // way.kernel[o][0].step

        def vectors(count: int, along: range, across: int, way: Way = way) -> int:
            """Return the vectors of a line of outputs, of a part of the kernel."""
            axis = count, stride[i] // along.step, along.step
            return interleave(inner, *axis, (across, len(along)), config).vectors

        if outputs is None:
            tall, passes = max(map(len, way.kernel[o])), len(way.kernel[o])
            line = sum(vectors(most, each, tall) for each in way.kernel[i])
            cycles = line * (passes * step * config.array_size) // most
        else:
            few = way.plain_outputs(stride[i], inner, config) if way.outputs[0] > 1 else most
            parts = split(outputs[i], even_parts(outputs[i], most, few, way.outputs[0]), 1)
            cycles = sum(
                vectors(len(part), a, len(b)) * ((outputs[o] - 1) * step + len(b))
                for part, a, b in product(parts, way.kernel[i], way.kernel[o])
            )
        plans.append(DepthwisePlan(inner, most, way.kernel, cycles))
    if outputs is None:
        return min(plans, key=lambda plan: plan.cycles)
    return min(plans, key=lambda plan: (plan.cycles, len(plan.kernel[0]) * len(plan.kernel[1])))


def delayed_ways(
    kernel: tuple[int, int],
    inner: Axis,
    stride: tuple[int, int],
    dilation: int,
    longest: tuple[int, ...],
    config: Config,
) -> tuple[Way, ...]:
    """Return the ways through the delay lines: a position at a time, and in pairs.

    A kernel that is twice as tall and wide, with a stride of 2, is four passes of every second tap.
    Other larger ones are passes of three lines of three or five taps, and perhaps of fewer lines.

    Parameters
    ----------
    kernel, stride : tuple of int
        Along y and x.
    dilation : int
        Along it.
    longest : tuple of int
        Most taps of a pass, along y and x.
    """
    if min(longest) < LINE or not config.has_delay_lines:
        return ()
    first, last = least_delay(config), MOST_DELAY
    if kernel == (PHASES * LINE, PHASES * LINE) and stride == (PHASES, PHASES) and dilation == 1:
        phases = tuple(range(tap, PHASES * LINE, PHASES) for tap in range(PHASES))
        return (Way(range(first + 1, last + 2), (phases, phases)),)
    along = stride[1 if inner == Axis.X else 0]
    single = range(ceil_div(first, along) + 1, last // along + 2)
    pairs = paired_outputs(config)
    if inner != Axis.X or along != PAIR or dilation != 1 or not pairs:
        pairs = range(0)
    else:
        single = range(single.start, pairs.start)
    if kernel != (LINE, LINE):
        return tuple(_wide_ways(kernel, inner, along, single, longest, config))
    whole = (range(LINE),), (range(LINE),)
    return tuple(Way(outputs, whole) for outputs in (single, pairs) if outputs)


def _wide_ways(
    kernel: tuple[int, int],
    inner: Axis,
    stride: int,
    outputs: range,
    longest: tuple[int, ...],
    config: Config,
) -> Iterator[Way]:
    """Yield the ways of kernels that are cut into passes through the delay lines.

    The last part of an axis may overlap the one before. Fewer lines than three stream as they do
    without delay lines, if the array has a row for each of their taps.
    """
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    if kernel[i] < LINE or kernel[o] < LINES:
        return
    whole, rest = divmod(kernel[o], LINES)
    across = [[LINES] * (whole + (rest > 0))]
    if rest:
        across.append([LINES] * whole + [rest])
    for wide in range(ceil_div(kernel[i], WIDE_LINE) + 1):
        narrow = max(0, ceil_div(kernel[i] - wide * WIDE_LINE, LINE))
        along = [WIDE_LINE] * wide + [LINE] * narrow
        for lines in across:
            most = _most_outputs(along[0], lines[-1], stride, config.array_size)
            few = outputs if lines[-1] in (1, LINES) else range(outputs.start, most + 1)
            few = range(few.start, min(few.stop, outputs.stop))
            sizes = (lines, along) if inner == Axis.X else (along, lines)
            fits = all(max(size) <= k for size, k in zip(sizes, kernel, strict=True))
            if few and fits and all(max(s) <= k for s, k in zip(sizes, longest, strict=True)):
                y, x = (_overlapping(k, each) for k, each in zip(kernel, sizes, strict=True))
                yield Way(few, (y, x))


def _overlapping(taps: int, sizes: list[int]) -> tuple[range, ...]:
    """Return parts of so many taps, of which the last one ends with the last tap."""
    ends = [min(sum(sizes[: number + 1]), taps) for number in range(len(sizes))]
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


def even_parts(outputs: Number, limit: Number, few: Number, many: Number) -> Number:
    """Return the fewest nearly equal parts of at most ``few`` outputs each, or at least ``many``.

    Parameters
    ----------
    outputs, limit, few, many : int or array of int
        All of them; the most that a part may have, however many that are; and see above.

    Examples
    --------
    >>> [even_parts(outputs, 32, 4, 7) for outputs in (4, 5, 7, 32, 33)]
    [1, 2, 1, 1, 2]
    """
    parts = ceil_div(outputs, limit)
    between = (outputs // parts < many) & (ceil_div(outputs, parts) > few)
    return pick(between, ceil_div(outputs, few), parts)


@lru_cache(maxsize=256)
def _ways(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: Axis,
    config: Config,
    longest: tuple[int, ...],
) -> tuple[Way, ...]:
    """Return the ways without delay lines."""
    found = []
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    sizes = [range(1, min(kernel[axis], longest[axis]) + 1) for axis in (i, o)]
    for size_i, size_o in product(*sizes):
        most = _most_outputs(size_i, size_o, stride[i], config.array_size)
        if most >= 1:
            along = split(kernel[i], -(-kernel[i] // size_i), 1)
            across = split(kernel[o], -(-kernel[o] // size_o), 1)
            kernel_parts = (along, across) if inner == Axis.Y else (across, along)
            found.append(Way(range(1, min(most, config.acc_rows) + 1), kernel_parts))
    return tuple(found)


def _most_outputs(size_i: int, size_o: int, stride: int, rows: int) -> int:
    """Return the largest V with R * (size_o - 1) + size_i <= rows."""
    if size_i > rows:
        return 0
    if size_o == 1:
        return rows
    return ((rows - size_i) // (size_o - 1) - size_i) // stride + 1
