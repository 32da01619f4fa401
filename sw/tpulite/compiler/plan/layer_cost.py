"""Cycles of layers by engine, in closed form: rewrites and the choice of groups ask for them.

The cycle model proper needs commands, so it is too slow, and too late, for both.
"""

from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Drain, VectorOp
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming
from tpulite.arch.timing import (
    COMMAND_BEATS,
    drain_interval,
    row_cycles,
    vector_cycles,
    vector_interval,
    vector_overhead,
)
from tpulite.compiler.geometry.axis import LARGEST_EXTENT
from tpulite.compiler.geometry.cut import cut_parts
from tpulite.compiler.geometry.extents import int4_tiles, weight_tiles
from tpulite.compiler.plan.conv_cost import CONV_CYCLES, product_cycles
from tpulite.compiler.plan.depthwise_plan import depthwise_plan
from tpulite.compiler.plan.pool_cuts import ArrayShare, rough_regions, suits_array
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    Depthwise,
    Layer,
    MatMul,
    Pool,
    Reshape,
    Softmax,
    Transpose,
)


class Engines(NamedTuple):
    """Cycles of the matrix unit and of the vector path, and how many commands they execute."""

    mxu: int
    vpu: int
    commands: int


class DramRows(NamedTuple):
    """What goes to and comes from DRAM: rows of the unified buffer, and commands."""

    read: int
    constants: int
    written: int
    commands: int


def transfer_cycles(rows: int, config: Config, memory: MemoryTiming = REFERENCE_MEMORY) -> int:
    """Return the cycles in which LOAD or STORE moves rows of the unified buffer."""
    cycles = rows * row_cycles(config)
    if not memory.is_limited:
        return cycles
    bursts = -(-rows * config.row_bytes // (BEAT_BYTES * config.burst_beats))
    return max(cycles, bursts * _burst_cycles(config, memory))


def _burst_cycles(config: Config, memory: MemoryTiming) -> int:
    """Return the cycles of a data path for the longest burst."""
    return config.burst_beats * memory.beat_cycles + memory.burst_cycles


def dram_cycles(moved: DramRows, config: Config, memory: MemoryTiming) -> int:
    """Return the cycles in which LOAD and STORE, beside each other, move rows.

    LOAD executes one command after the other, so what it reads from one memory hardly overlaps with
    what it reads from another. Commands count only if they share a memory with constants alone.
    """
    store = transfer_cycles(moved.written, config, memory)
    if not isinstance(memory, MemoryPair):
        load = transfer_cycles(moved.read + moved.constants, config, memory)
        return load + store if memory.shared else max(load, store)
    read = transfer_cycles(moved.read, config, memory)
    constants = transfer_cycles(moved.constants, config, memory.constants)
    bursts = -(-moved.commands * COMMAND_BEATS // config.burst_beats)
    fetch = bursts * _burst_cycles(config, memory.constants)
    return max(read + constants, constants + fetch, read + store if memory.shared else store)


def compute_cycles(
    layer: Layer,
    images: tuple[Activation, ...],
    extents: tuple[int, int],
    config: Config,
    *,
    packed_rows: bool = False,
) -> Engines:
    """Return the cycles of part of a layer.

    Parameters
    ----------
    images : tuple of Activation
        The images that it reads, and the one that it computes.
    extents : tuple of int
        Rows and columns of the output that are computed.
    packed_rows : bool
        Whether a convolution reads packed rows: dense mode.
    """
    size, (rows, columns) = config.array_size, extents
    vectors = rows * columns
    blocks = -(-images[-1].shape[2] // size)
    parts = len(cut_parts(range(rows), columns, config)) * -(-columns // config.acc_rows)
    match layer:
        case Conv():
            tiles = weight_tiles(layer, config, packed_rows=packed_rows)
            return conv_cycles(
                tiles,
                images[-1].shape[2],
                extents,
                config,
                packed_rows=packed_rows,
                int4=int4_tiles(layer, config, packed_rows=packed_rows),
            )
        case Depthwise():
            cycles = _filter_cycles(*layer.windows[:3], extents, config)
            if config.lanes < size:  # drained by a command of its own
                cycles += vectors * drain_interval(Drain.REQUANTIZE, config)
            return Engines(blocks * cycles, 0, blocks * parts)
        case Pool() if suits_array(layer):
            regions = rough_regions(layer, (images[0], images[-1]), extents)
            share = ArrayShare.of(layer, regions, blocks, config)
            return Engines(blocks * share.array, blocks * share.vectors, blocks * len(regions))
        case Pool():
            covered = min(layer.window[0], images[0].shape[0]) * min(
                layer.window[1], images[0].shape[1]
            )
            each = vector_cycles(layer.vector_op, vectors, covered, config)
            return Engines(0, blocks * each, blocks)
        case Concat() if layer.axis == 2 and any(x.shape[2] % size for x in images[:-2]):
            tiles = blocks + len(images) - 2  # each block of a source adds to one or two
            cycles = product_cycles(tiles, vectors, parts, config) + blocks * CONV_CYCLES
            return Engines(cycles, 0, tiles * parts)
        case MatMul():
            inner = -(-images[0].shape[2] // size)
            offsets = len(offset_parts(layer.zero_points[0]))
            cycles, count = matmul_cycles(
                extents, (inner, blocks), config, offsets=offsets, transposed=layer.transposed
            )
            return Engines(cycles, 0, count)
        case Transpose():
            _, width, channels = images[0].shape
            cycles, count = transpose_cycles((rows, width, channels), config)
            return Engines(cycles, 0, count)
        case Softmax():
            steps = [(VectorOp.NORM, vectors, blocks), (VectorOp.SHARE, vectors * blocks, 1)]
            if images[0].shape[2] != size:
                steps.append((VectorOp.MAX, vectors, blocks))
            each = sum(vector_cycles(*step, config) for step in steps)
            return Engines(0, each, len(steps))
        case Reshape() if images[0].shape[2] != images[1].shape[2]:
            commands = lcm(*(-(-image.shape[2] // size) for image in images))
            each = vector_cycles(VectorOp.COPY, -(-vectors * blocks // commands), 1, config)
            return Engines(0, commands * each, commands)
    operation = layer.vector_op
    pace = vector_interval(operation, 2 if operation == VectorOp.MAX else 1, config)
    cycles = blocks * vectors * pace
    return Engines(0, cycles + parts * vector_overhead(operation, config), parts)


def conv_cycles(
    tiles: int,
    channels: int,
    extents: tuple[int, int],
    config: Config,
    *,
    packed_rows: bool = False,
    int4: bool = False,
) -> Engines:
    """Return the cycles of a convolution that computes ``channels`` with so many weight tiles."""
    size, (rows, columns) = config.array_size, extents
    vectors, blocks = rows * columns, -(-channels // size)
    parts = len(cut_parts(range(rows), columns, config)) * -(-columns // config.acc_rows)
    slots = vectors + rows if packed_rows else vectors
    drain = vectors * (drain_interval(Drain.REQUANTIZE, config) - 1)
    cycles = product_cycles(tiles, slots, parts, config, int4=int4)
    cycles += blocks * (drain + parts * CONV_CYCLES)
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
    most = min(config.acc_rows, (LARGEST_EXTENT - kernel[0]) // step[0] + 1)
    if counts[0] <= most and counts[1] <= config.acc_rows:
        return phases[0] * phases[1] * depthwise_plan(kernel, step, counts, config).cycles
    # A column must fit the accumulators, and what it reads a command, so the image is cut first.
    cut = -(-counts[0] // most)
    counts = (-(-counts[0] // cut), min(counts[1], config.acc_rows))
    cycles = depthwise_plan(kernel, step, counts, config).cycles * extents[1] // counts[1]
    return cut * phases[0] * phases[1] * cycles


_TAPS = 8
"""Most taps of a transposing CONV: a kernel row has up to 15."""

_ROOM = 4
"""Its weights take at most this part of the free rows, if not all fit twice."""


def most_taps(config: Config) -> int:
    """Return the most taps of a CONV that transposes."""
    return min(_TAPS, config.array_size)


def taps_at_once(free_rows: int, config: Config) -> int:
    """Return the taps of a CONV that transposes; with fewer than most its weights do not stay."""
    size = config.array_size
    if free_rows >= 2 * size * size:
        return most_taps(config)
    return max(1, min(most_taps(config) // 2, free_rows // (_ROOM * size)))


def most_columns(config: Config) -> int:
    """Return the most rows of a matrix that one CONV multiplies."""
    return min(config.acc_rows, LARGEST_EXTENT)


def most_tiles(config: Config) -> int:
    """Return the most squares of a column of blocks that one CONV transposes."""
    return min(config.acc_rows // config.array_size, LARGEST_EXTENT)


def offset_parts(zero_point: int) -> tuple[int, ...]:
    """Return int8 that add up to what offsets of a zero point are multiplied by."""
    value = -zero_point
    if not value:
        return ()
    return (value,) if value in range(-128, 128) else (value // 2, value - value // 2)


def offsets_beside(columns: int, blocks: tuple[int, int], config: Config) -> int:
    """Return n-blocks whose products are begun together with their offsets; 0: none is.

    Offsets are one column more for all k-tiles but the last. They become biases while those of
    another n-block are multiplied, so accumulators must have room for two.
    """
    inner, outer = blocks
    together = config.acc_rows // (columns + 1)
    if inner < 2 or together < 2 or columns >= LARGEST_EXTENT:
        return 0
    return min(outer, together)


def matmul_cycles(
    shape: tuple[int, int],
    blocks: tuple[int, int],
    config: Config,
    *,
    offsets: int,
    transposed: bool = False,
) -> tuple[int, int]:
    """Return the cycles of the products of some rows, and their commands.

    Parameters
    ----------
    shape : (int, int)
        Rows, and columns of each.
    blocks : (int, int)
        Channel blocks of the first operand, and of the output.
    offsets : int
        Parts of the zero point of the first operand, each of which sums of the second one are
        multiplied by.
    transposed : bool
        Whether the second operand is transposed.
    """
    (rows, columns), (inner, outer) = shape, blocks
    pieces = -(-columns // most_columns(config))
    passes = [(inner, columns, pieces), *[(inner, 1, 1)] * offsets]
    if offsets and offsets_beside(columns, blocks, config):
        passes[:2] = (inner - 1, columns + 1, 1), (1, 1, 1), (1, columns, 1)
    each = count = 0
    for tiles, vectors, parts in passes:
        if transposed:  # a tile enters before its vectors, and each is a command
            slots = parts * (config.array_size + CONV_CYCLES) + vectors
            each += tiles * outer * slots
            count += tiles * outer * parts
        else:
            each += product_cycles(tiles * outer, vectors, parts, config)
            each += outer * parts * CONV_CYCLES
            count += outer * parts
    return rows * each, rows * count


def transpose_cycles(shape: tuple[int, int, int], config: Config) -> tuple[int, int]:
    """Return the cycles of transposing an activation of some shape, and their commands."""
    height, width, channels = shape
    size = config.array_size
    squares, rest = divmod(width, size)
    if config.has_transposed_tiles:
        each = (squares + bool(rest)) * (2 * size + CONV_CYCLES) + bool(rest) * size
        blocks = height * -(-channels // size)
        return blocks * each, blocks * (squares + bool(rest))
    pieces = -(-squares // most_tiles(config)) * (size // most_taps(config)) + bool(rest)
    slots = squares * (size + 1)  # dense mode reads a vector more for each row
    each = product_cycles(size, slots, 1, config) * bool(squares)
    each += product_cycles(rest, size + 1, 1, config) + pieces * CONV_CYCLES
    commands = height * -(-channels // size)
    return commands * each, commands * pieces
