"""How a depthwise convolution uses the array: the plan with the fewest cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, MOST_INTERLEAVED, least_interleaved
from tpulite.arch.isa import Axis
from tpulite.arch.timing import turnaround
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.plan.closed_forms import ceil_div

__all__ = [
    "DepthwisePlan",
    "DepthwiseSpace",
    "delayed_outputs",
    "depthwise_plan",
    "large_depthwise_plan",
    "plain_outputs",
]


@dataclass(frozen=True)
class DepthwisePlan:
    """How a depthwise convolution runs on the array.

    Parameters
    ----------
    inner : Axis
        Axis along which input rows (or columns) are interleaved.
    outputs : int
        Outputs along that axis of one command.
    kernel : tuple of tuple of range
        Parts of the kernel along y and along x; each pair is a pass.
    cycles : int
        Cycles of all passes over one channel block.
    """

    inner: Axis
    outputs: int
    kernel: tuple[tuple[range, ...], tuple[range, ...]]
    cycles: int


@dataclass(frozen=True)
class DepthwiseSpace:
    """What a plan may do, and what comes next.

    Parameters
    ----------
    interleaved : bool
        Whether several rows may be interleaved; else one line of outputs is a stream.
    rows : int
        Most kernel rows of a pass.
    single : bool
        Whether there is one channel block: then the next layer, which could begin with the rows of
        the first of several commands, waits for the end of all that have no rows of their own.
    """

    interleaved: bool = True
    rows: int = LARGEST_KERNEL
    single: bool = False


_FREE = DepthwiseSpace()


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
    :func:`tpulite.arch.interleave.tap_pitch`. A command reads at most 2,047 positions, which are
    ``dilation`` apart.
    """
    best, least_cost = None, 0
    longest = (min(space.rows, LARGEST_KERNEL), LARGEST_KERNEL)
    for inner in (Axis.Y, Axis.X):
        i, o = (1, 0) if inner == Axis.X else (0, 1)
        ways = [(1, *way) for way in _ways(kernel, stride, inner, config, longest)]
        if through := delayed_outputs(kernel, stride[i], longest, config):
            ways.append((through[0], through[-1], ((range(LINE),), (range(LINE),))))
        for low, high, kernel_parts in ways:
            high = min(high, config.acc_rows // outputs[o], outputs[i] if space.interleaved else 1)
            reach = ((outputs[o] - 1) * stride[o] + max(map(len, kernel_parts[o])) - 1) * dilation[
                o
            ]
            if high < low or reach >= LARGEST_EXTENT:
                continue
            groups = split(outputs[i], -(-outputs[i] // high), 1)
            if min(map(len, groups)) < low:
                continue
            cycles = sum(
                max(
                    ((len(group) - 1) * stride[i] + len(a))
                    * ((outputs[o] - 1) * stride[o] + len(b)),
                    config.array_size,
                )
                for group in groups
                for a in kernel_parts[i]
                for b in kernel_parts[o]
            )
            at_once = len(groups) == 1 or inner == Axis.X
            cost = cycles + (turnaround(config) if space.single and at_once else 0)
            # Rows interleaved start with few rows and leave row by row, so they win ties.
            if best is None or cost < least_cost:
                least_cost, best = cost, DepthwisePlan(inner, high, kernel_parts, cycles)
    assert best is not None  # one tap at a time always fits, if strips are cut
    return best


def large_depthwise_plan(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: Axis,
    config: Config,
    longest: tuple[int, ...] = (LARGEST_KERNEL, LARGEST_KERNEL),
) -> DepthwisePlan:
    """Return the way along an axis that streams the fewest vectors in a large activation.

    Its cycles are those of N outputs along the inner axis and one along the other. Parts of the
    kernel are no longer than ``longest``, along y and x.
    """
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    found = list(_ways(kernel, stride, inner, config, longest))
    if through := delayed_outputs(kernel, stride[i], longest, config):
        found.append((min(through[-1], config.acc_rows), ((range(LINE),), (range(LINE),))))
    ways = [
        DepthwisePlan(
            inner,
            most,
            kernel_parts,
            (len(kernel_parts[i]) * (most - 1) * stride[i] + kernel[i])
            * (len(kernel_parts[o]) * stride[o] * config.array_size)
            // most,
        )
        for most, kernel_parts in found
    ]
    return min(ways, key=lambda way: way.cycles)


def delayed_outputs(
    kernel: tuple[int, int], stride: int, longest: tuple[int, ...], config: Config
) -> range:
    """Return the numbers of outputs along the inner axis that go through delay lines, if any do.

    Parameters
    ----------
    kernel : tuple of int
        Along y and x.
    stride : int
        Along the inner axis.
    longest : tuple of int
        Most taps of a pass, along y and x.
    config : Config
        The machine.
    """
    if kernel != (LINE, LINE) or min(longest) < LINE or not config.has_delay_lines:
        return range(0)
    first, last = least_interleaved(config) - LINE, MOST_INTERLEAVED - LINE
    return range(ceil_div(first, stride) + 1, last // stride + 2)


def plain_outputs(kernel: tuple[int, int], stride: int, config: Config) -> int:
    """Return the most outputs along the inner axis of a pass of all taps, without delay lines."""
    return _most_outputs(*kernel, stride, config.array_size)


def _ways(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    inner: Axis,
    config: Config,
    longest: tuple[int, ...],
) -> Iterator[tuple[int, tuple[tuple[range, ...], tuple[range, ...]]]]:
    """Yield the most outputs along the inner axis, and parts of the kernel along y and x."""
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    sizes = [range(1, min(kernel[axis], longest[axis]) + 1) for axis in (i, o)]
    for size_i, size_o in product(*sizes):
        most = _most_outputs(size_i, size_o, stride[i], config.array_size)
        if most >= 1:
            along = split(kernel[i], -(-kernel[i] // size_i), 1)
            across = split(kernel[o], -(-kernel[o] // size_o), 1)
            kernel_parts = (along, across) if inner == Axis.Y else (across, along)
            yield min(most, config.acc_rows), kernel_parts


def _most_outputs(size_i: int, size_o: int, stride: int, rows: int) -> int:
    """Return the largest V with R * (size_o - 1) + size_i <= rows."""
    if size_i > rows:
        return 0
    if size_o == 1:
        return rows
    return ((rows - size_i) // (size_o - 1) - size_i) // stride + 1
