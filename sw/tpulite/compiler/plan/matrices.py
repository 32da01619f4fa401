"""What products of activations and their transposes cost, and what one command can do of them."""

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import LARGEST_EXTENT
from tpulite.compiler.plan.conv_cost import CONV_CYCLES, product_cycles

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


def matmul_cycles(
    shape: tuple[int, int],
    blocks: tuple[int, int],
    config: Config,
    *,
    offsets: bool,
    transposed: bool = False,
) -> tuple[int, int]:
    """Return the cycles of the products of some rows, and their commands.

    Parameters
    ----------
    shape : (int, int)
        Rows, and columns of each.
    blocks : (int, int)
        Channel blocks of the first operand, and of the output.
    config : Config
        The machine.
    offsets : bool
        Whether the first operand has a zero point, so that sums of the second one are needed.
    transposed : bool
        Whether the second operand is transposed.
    """
    (rows, columns), (inner, outer) = shape, blocks
    pieces = -(-columns // most_columns(config))
    tiles = inner * outer
    each = product_cycles(tiles, columns, pieces, config) + outer * pieces * CONV_CYCLES
    if offsets:
        each += product_cycles(tiles, 1, 1, config) + outer * CONV_CYCLES
    count = outer
    if transposed:  # a tile enters before its vectors, and each is a command
        each = tiles * (pieces * (config.array_size + CONV_CYCLES) + columns)
        each += tiles * (config.array_size + CONV_CYCLES) * offsets
        count = tiles
    return rows * each, rows * count * (pieces + offsets)


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
