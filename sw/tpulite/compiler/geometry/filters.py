"""How a depthwise convolution uses the array: the plan with the fewest cycles."""

from dataclasses import dataclass
from itertools import product

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL
from tpulite.compiler.geometry.cut import split

__all__ = ["Filter", "plan_filter"]


@dataclass(frozen=True)
class Filter:
    """How a depthwise convolution runs on the array.

    Parameters
    ----------
    inner : Axis
        Axis along which input rows (or columns) are interleaved.
    outputs : int
        Outputs along that axis of one command.
    kernel : tuple of tuple of range
        Pieces of the kernel along y and along x; each pair is a pass.
    cycles : int
        Cycles of all passes over one channel block.
    """

    inner: Axis
    outputs: int
    kernel: tuple[tuple[range, ...], tuple[range, ...]]
    cycles: int


def plan_filter(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    outputs: tuple[int, int],
    config: Config,
    *,
    interleaved: bool = True,
    rows: int = LARGEST_KERNEL,
    dilation: tuple[int, int] = (1, 1),
) -> Filter:
    """Choose the fastest way to run a depthwise convolution; pairs are (y, x).

    With V outputs along the inner axis, R = (V - 1) * stride + kernel input positions are
    interleaved, and tap (outer, inner) lies at row R * outer + inner of the weight tile: all of a
    pass must lie within its N rows. Without ``interleaved``, V is 1: one line of outputs a stream.
    A pass has at most ``rows`` rows of the kernel, and a command reads at most 2,047 positions,
    which are ``dilation`` apart.
    """
    best = None
    for inner in (Axis.Y, Axis.X):
        i, o = (1, 0) if inner == Axis.X else (0, 1)
        limits = (min(rows, LARGEST_KERNEL), LARGEST_KERNEL)
        sizes = [range(1, min(kernel[axis], limits[axis]) + 1) for axis in (i, o)]
        for size_i, size_o in product(*sizes):
            pieces_i = split(kernel[i], -(-kernel[i] // size_i), 1)
            pieces_o = split(kernel[o], -(-kernel[o] // size_o), 1)
            most = _most_outputs(size_i, size_o, stride[i], config.array_size)
            most = min(most, config.acc_rows // outputs[o], outputs[i] if interleaved else 1)
            reach = ((outputs[o] - 1) * stride[o] + size_o - 1) * dilation[o]
            if most < 1 or reach >= LARGEST_EXTENT:
                continue
            groups = split(outputs[i], -(-outputs[i] // most), 1)
            cycles = sum(
                max(
                    ((len(group) - 1) * stride[i] + len(a))
                    * ((outputs[o] - 1) * stride[o] + len(b)),
                    config.array_size,
                )
                for group in groups
                for a in pieces_i
                for b in pieces_o
            )
            # Rows interleaved start with few rows and leave row by row, so they win ties.
            if best is None or cycles < best.cycles:
                pieces = (pieces_i, pieces_o) if inner == Axis.Y else (pieces_o, pieces_i)
                best = Filter(inner, most, pieces, cycles)
    assert best is not None  # one tap at a time always fits, if strips are cut
    return best


def _most_outputs(size_i: int, size_o: int, stride: int, rows: int) -> int:
    """Return the largest V with R * (size_o - 1) + size_i <= rows."""
    if size_i > rows:
        return 0
    if size_o == 1:
        return rows
    return ((rows - size_i) // (size_o - 1) - size_i) // stride + 1
