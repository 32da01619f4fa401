"""Weight tiles of depthwise convolutions, for every number of outputs that a command computes."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV, Axis, RecordForm
from tpulite.compiler.lower.conv.weights import folded_bias
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.plan.closed_forms import ceil_div, cuts
from tpulite.graph.layers import Depthwise

__all__ = ["Pattern", "Taps", "pack_depthwise"]

_KERNEL = CONV.limit("kernel_rows")


@dataclass(frozen=True)
class Taps:
    """Pieces of the kernel; a command multiplies one of them. All arrays have one length.

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
    inner : Axis
        The axis along which they are.
    most : int
        Most outputs of a command along it.
    taps : Taps
        Pieces of the kernel.
    offset : int
        Where its tiles begin in the constants. Of each block there are the tiles of all numbers of
        outputs along the inner axis, from one on; or of one number alone, if they are the same.
    numbers : int
        How many those are.
    cost : float
        Vectors streamed for each output of a large image.
    """

    inner: Axis
    most: int
    taps: Taps
    offset: int
    numbers: int
    cost: float

    def tile_rows(self, size: int) -> int:
        """Return the rows of the tiles of one number of outputs."""
        return len(self.taps) * size


@dataclass(frozen=True)
class FilterWeights:
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


def pack_depthwise(layer: Depthwise, config: Config) -> FilterWeights:
    """Pack weights and records of all channel blocks."""
    size, channels = config.array_size, layer.weight.shape[2]
    sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1))
    bias = np.broadcast_to(layer.requantization.bias, channels)
    bias = folded_bias(bias, sums, layer.input_zero_point)
    form, records = channel_records(layer.requantization, bias, config)
    parts = [b"".join(block.tobytes() for block in records)]
    offset = len(parts[0])
    patterns = []
    for inner in (Axis.Y, Axis.X):
        pattern = _best(layer, inner, offset, config)
        parts.append(_tiles(layer, pattern, size))
        offset += len(parts[-1])
        patterns.append(pattern)
    parts.append(np.full(size * size, layer.weight_zero_point, np.int8).tobytes())
    rows = len(records[0])
    return FilterWeights(b"".join(parts), form, rows, tuple(patterns), offset)


def _best(layer: Depthwise, inner: Axis, offset: int, config: Config) -> Pattern:
    """Return the pattern that streams the fewest vectors for each output of a large image."""
    kernel, stride, size = layer.weight.shape[:2], layer.stride, config.array_size
    i, o = (1, 0) if inner == Axis.X else (0, 1)
    best = None
    # Taps of a piece are adjacent; those of a dilated kernel are pieces of their own.
    longest = [1 if layer.dilation[a] > 1 else min(kernel[a], _KERNEL) for a in (i, o)]
    for at_i, at_o in product(*(range(1, most + 1) for most in longest)):
        if at_i > size:
            continue
        most = min(size, config.acc_rows)
        if at_o > 1:  # tap (outer, inner) lies at row R * outer + inner
            most = min(most, ((size - at_i) // (at_o - 1) - at_i) // stride[i] + 1)
        if most < 1:
            continue
        pieces = {i: cuts(kernel[i], ceil_div(kernel[i], at_i), 1)}
        pieces[o] = cuts(kernel[o], ceil_div(kernel[o], at_o), 1)
        counts = len(pieces[i]) - 1, len(pieces[o]) - 1
        cost = stride[o] * counts[1]
        cost *= (counts[0] * (most - 1) * stride[i] + kernel[i]) / most
        if best is None or cost < best.cost:
            y, x = (
                bounds.ravel()
                for bounds in np.meshgrid(pieces[0][:-1], pieces[1][:-1], indexing="ij")
            )
            h, w = (
                n.ravel()
                for n in np.meshgrid(np.diff(pieces[0]), np.diff(pieces[1]), indexing="ij")
            )
            numbers = most if at_o > 1 else 1
            best = Pattern(inner, most, Taps(y, h, x, w), offset, numbers, cost)
    assert best is not None  # one tap at a time always fits
    return best


def _tiles(layer: Depthwise, pattern: Pattern, size: int) -> bytes:
    """Return the tiles [block, number of outputs, piece, row, channel] of a pattern."""
    weight, taps = layer.weight, pattern.taps
    channels = weight.shape[2]
    stride = layer.stride[1 if pattern.inner == Axis.X else 0]
    blocks = ceil_div(channels, size)
    shape = (pattern.numbers, len(taps), size, blocks * size)
    tiles = np.full(shape, layer.weight_zero_point, np.int8)
    if pattern.inner == Axis.Y:
        weight = weight.transpose(1, 0, 2)
    for number in range(pattern.numbers):
        for piece in range(len(taps)):
            outer = taps.row[piece], taps.rows[piece]
            inner = taps.column[piece], taps.columns[piece]
            if pattern.inner == Axis.Y:
                outer, inner = inner, outer
            between = number * stride + int(inner[1])
            for a, b in product(range(outer[1]), range(inner[1])):
                tap = weight[outer[0] + a, inner[0] + b]
                tiles[number, piece, between * a + b, :channels] = tap
    parts = tiles.reshape(*shape[:3], blocks, size).transpose(3, 0, 1, 2, 4)
    return np.ascontiguousarray(parts).tobytes()
