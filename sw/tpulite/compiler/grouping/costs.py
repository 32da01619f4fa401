"""Cycles of layers by engine, in closed form: what the choice of groups is made from.

The cycle model proper needs commands, so it is too slow, and too late, to choose groups with.
"""

from functools import lru_cache
from math import gcd
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.grouping.extents import weight_tiles
from tpulite.compiler.tiling.cut import cut_parts
from tpulite.compiler.tiling.filters import plan_filter
from tpulite.graph.layers import Concat, Conv, Depthwise, Image, Layer, Pool, Reshape

__all__ = ["STEP_CYCLES", "Cost", "Engines", "compute_cycles", "conv_cycles", "transfer_cycles"]

STEP_CYCLES = 70
"""Cycles from the end of a layer's last command to what reads its output: the way of the last sums
through the array and the requantizer, tokens, and the way of the first operands."""

_CONV_CYCLES = 3
"""Cycles of a CONV beside its k-tiles."""

_VECTOR_CYCLES = 18
"""Cycles of a VECTOR beside its windows: it fetches parameters, and ends before the next starts."""


class Cost(NamedTuple):
    """What a group of layers costs.

    Parameters
    ----------
    cycles : int
        Predicted cycles.
    read, written : int
        Rows of the unified buffer that come from and go to DRAM.
    rows : int
        Rows that the group takes beside images that are on chip as a whole.
    commands : int
        Commands, more or less.
    """

    cycles: int
    read: int
    written: int
    rows: int
    commands: int


class Engines(NamedTuple):
    """Cycles of the matrix unit and of the vector path, and how many commands they execute."""

    mxu: int
    vpu: int
    commands: int


def transfer_cycles(rows: int, config: Config) -> int:
    """Return the cycles in which LOAD or STORE moves rows of the unified buffer."""
    return -(-rows * config.row_bytes // BEAT_BYTES)


def compute_cycles(
    layer: Layer,
    images: tuple[Image, ...],
    extents: tuple[int, int],
    config: Config,
    *,
    strings: bool = False,
) -> Engines:
    """Return the cycles of part of a layer.

    Parameters
    ----------
    layer : Layer
        The layer.
    images : tuple of Image
        The images that it reads, and the one that it computes.
    extents : tuple of int
        Rows and columns of the output that are computed.
    config : Config
        The machine.
    strings : bool
        Whether a convolution reads strings: dense mode.
    """
    size, (rows, columns) = config.array_size, extents
    vectors, pace = rows * columns, config.vector_cycles
    blocks = -(-images[-1].shape[2] // size)
    parts = len(cut_parts(range(rows), columns, config)) * -(-columns // config.acc_rows)
    match layer:
        case Conv():
            tiles = weight_tiles(layer, config, strings=strings)
            return conv_cycles(tiles, images[-1].shape[2], extents, config, strings=strings)
        case Depthwise():
            kernel, stride, dilation = layer.weight.shape[:2], layer.stride, layer.dilation
            cycles = _filter_cycles(kernel, stride, dilation, extents, config)
            if config.lanes < size:  # drained by a command of its own
                cycles += vectors * (size // config.lanes)
            return Engines(blocks * cycles, 0, blocks * parts)
        case Pool():
            covered = min(layer.window[0], images[0].shape[0]) * min(
                layer.window[1], images[0].shape[1]
            )
            return Engines(0, blocks * (vectors * covered * pace + _VECTOR_CYCLES), blocks)
        case Concat() if layer.axis == 2 and any(x.shape[2] % size for x in images[:-2]):
            tiles = blocks + len(images) - 2  # each block of a source adds to one or two
            cycles = tiles * max(vectors, parts * size) + blocks * _CONV_CYCLES
            return Engines(cycles, 0, tiles * parts)
        case Reshape() if images[0].shape[2] != images[1].shape[2]:
            commands = blocks * vectors  # each moves a vector
            return Engines(0, commands * _VECTOR_CYCLES, commands)
    return Engines(0, blocks * vectors * pace + parts * _VECTOR_CYCLES, parts)


def conv_cycles(
    tiles: int, channels: int, extents: tuple[int, int], config: Config, *, strings: bool = False
) -> Engines:
    """Return the cycles of a convolution that computes ``channels`` with so many weight tiles."""
    size, (rows, columns) = config.array_size, extents
    vectors, blocks = rows * columns, -(-channels // size)
    parts = len(cut_parts(range(rows), columns, config)) * -(-columns // config.acc_rows)
    slots = vectors + rows if strings else vectors
    drain = vectors * (size // config.lanes - 1)
    cycles = tiles * max(slots, parts * size) + blocks * (drain + parts * _CONV_CYCLES)
    return Engines(cycles, 0, blocks * parts)


@lru_cache(maxsize=4096)
def _filter_cycles(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    extents: tuple[int, int],
    config: Config,
) -> int:
    """Return the cycles of a depthwise convolution on one channel block, all phases."""
    common = [gcd(s, d) for s, d in zip(stride, dilation, strict=True)]
    phases = [min(d // g, e) for d, g, e in zip(dilation, common, extents, strict=True)]
    step = (stride[0] // common[0], stride[1] // common[1])
    counts = (-(-extents[0] // phases[0]), -(-extents[1] // phases[1]))
    if counts[0] <= config.acc_rows >= counts[1]:
        return phases[0] * phases[1] * plan_filter(kernel, step, counts, config).cycles
    # Sums of a column must fit the accumulators, so the image is cut first.
    cut = -(-counts[0] // config.acc_rows)
    counts = (-(-counts[0] // cut), min(counts[1], config.acc_rows))
    cycles = plan_filter(kernel, step, counts, config).cycles * extents[1] // counts[1]
    return cut * phases[0] * phases[1] * cycles
