"""How a depthwise convolution uses the array: the plan with the fewest cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, MOST_INTERLEAVED, least_interleaved
from tpulite.arch.isa import Axis, RecordForm
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL
from tpulite.compiler.geometry.cut import split

__all__ = [
    "DepthwisePlan",
    "DepthwiseWeights",
    "Pattern",
    "Taps",
    "depthwise_plan",
    "large_depthwise_plan",
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
class Taps:
    """Parts of the kernel; a command multiplies one of them. All arrays have one length.

    Parameters
    ----------
    row, rows, column, columns : array of int
        Kernel rows and columns: the first one, and how many.
    """

    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray

    @cached_property
    def table(self) -> np.ndarray:
        """All arrays, as rows in the order of the parameters."""
        return np.array([self.row, self.rows, self.column, self.columns])

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Pattern:
    """One way to use the array: rows, or columns, of the input are interleaved.

    Parameters
    ----------
    plan : DepthwisePlan
        The way.
    taps : Taps
        Parts of the kernel.
    offset : int
        Where its tiles begin in the constants. Of each block there are the tiles of all numbers of
        outputs along the inner axis, from one on; or of one number alone, if they are the same.
    """

    plan: DepthwisePlan
    taps: Taps
    offset: int

    @property
    def inner(self) -> Axis:
        """The axis along which they are."""
        return self.plan.inner

    @property
    def most(self) -> int:
        """Most outputs of a command along it."""
        return self.plan.outputs

    @property
    def numbers(self) -> int:
        """For how many numbers of outputs along the inner axis there are tiles."""
        kernel_parts = self.plan.kernel[0 if self.inner == Axis.X else 1]
        return self.most if max(map(len, kernel_parts)) > 1 else 1

    def tile_rows(self, size: int) -> int:
        """Return the rows of the tiles of one number of outputs."""
        return len(self.taps) * size


@dataclass(frozen=True)
class DepthwiseWeights:
    """Constants of a depthwise convolution.

    Parameters
    ----------
    data : bytes
        All of them: records of all blocks, tiles of the patterns, and a tile of zeros.
    form : RecordForm
        Form of the records.
    record_rows : int
        Rows of the records of a block.
    patterns : tuple of Pattern
        The best one for each inner axis.
    zeros : int
        Where the tile of zeros begins.
    """

    data: bytes
    form: RecordForm
    record_rows: int
    patterns: tuple[Pattern, ...]
    zeros: int


@lru_cache(maxsize=1024)
def depthwise_plan(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    outputs: tuple[int, int],
    config: Config,
    *,
    interleaved: bool = True,
    rows: int = LARGEST_KERNEL,
    dilation: tuple[int, int] = (1, 1),
) -> DepthwisePlan:
    """Choose the fastest way to run a depthwise convolution; pairs are (y, x).

    With V outputs along the inner axis, R = (V - 1) * stride + kernel input positions are
    interleaved, and all taps of a pass must lie within the N rows of a weight tile: see
    :func:`tpulite.arch.interleave.tap_pitch`. Without ``interleaved``, V is 1: one line of outputs
    a stream.
    A pass has at most ``rows`` rows of the kernel, and a command reads at most 2,047 positions,
    which are ``dilation`` apart.
    """
    best, longest = None, (min(rows, LARGEST_KERNEL), LARGEST_KERNEL)
    for inner in (Axis.Y, Axis.X):
        i, o = (1, 0) if inner == Axis.X else (0, 1)
        ways = [(1, *way) for way in _ways(kernel, stride, inner, config, longest)]
        if kernel == (LINE, LINE) and longest[0] >= LINE and config.delay_lines:
            ways.append((*_delayed_outputs(stride[i], config), ((range(LINE),), (range(LINE),))))
        for least, most, kernel_parts in ways:
            most = min(most, config.acc_rows // outputs[o], outputs[i] if interleaved else 1)
            reach = ((outputs[o] - 1) * stride[o] + max(map(len, kernel_parts[o])) - 1) * dilation[
                o
            ]
            if most < least or reach >= LARGEST_EXTENT:
                continue
            groups = split(outputs[i], -(-outputs[i] // most), 1)
            if min(map(len, groups)) < least:
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
            # Rows interleaved start with few rows and leave row by row, so they win ties.
            if best is None or cycles < best.cycles:
                best = DepthwisePlan(inner, most, kernel_parts, cycles)
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
    ways = [
        DepthwisePlan(
            inner,
            most,
            kernel_parts,
            (len(kernel_parts[i]) * (most - 1) * stride[i] + kernel[i])
            * (len(kernel_parts[o]) * stride[o] * config.array_size)
            // most,
        )
        for most, kernel_parts in _ways(kernel, stride, inner, config, longest)
    ]
    return min(ways, key=lambda way: way.cycles)


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


def _delayed_outputs(stride: int, config: Config) -> tuple[int, int]:
    """Return the fewest and the most outputs along the inner axis, with delay lines."""
    least, most = least_interleaved(config) - LINE, MOST_INTERLEAVED - LINE
    return -(-least // stride) + 1, most // stride + 1


def _most_outputs(size_i: int, size_o: int, stride: int, rows: int) -> int:
    """Return the largest V with R * (size_o - 1) + size_i <= rows."""
    if size_i > rows:
        return 0
    if size_o == 1:
        return rows
    return ((rows - size_i) // (size_o - 1) - size_i) // stride + 1
