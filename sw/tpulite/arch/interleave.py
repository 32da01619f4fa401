"""How input positions of a depthwise convolution are interleaved, and where its taps lie.

R positions are interleaved: a sum takes a vector, and R vectors later the one below it. Without
delay lines that wants R rows of the array for each line of a kernel, with them three. With a stride
of 2 along x, two neighboring positions may come in one cycle, a pair. docs/depthwise.md has the
formulas and a figure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.opcodes import Axis

__all__ = [
    "LINE",
    "MOST_INTERLEAVED",
    "PAIR",
    "Interleave",
    "in_pairs",
    "interleave",
    "interleave_of",
    "least_interleaved",
    "paired_outputs",
]

LINE = 3
"""Taps of a line of a kernel for which there are delay lines, and lines of it."""

MOST_INTERLEAVED = 34
"""Most positions, or pairs of them, interleaved with delay lines: the longer one has 64 rows."""

PAIR = 2
"""Positions of a pair, and the stride along x for which they come in pairs."""

_PAIR_ROWS = (0, 2, 1)


class Interleave(NamedTuple):
    """How a depthwise stream interleaves positions.

    Parameters
    ----------
    vectors : int
        Slots of an outer position: its inner positions, or pairs of them.
    pairs : bool
        Whether they come in pairs.
    delay : int
        Cycles by which the second line of the kernel sees the stream late, and the first one twice
        as many; 0 if it does not go through delay lines.
    """

    vectors: int
    pairs: bool
    delay: int

    def row(self, outer: int, inner: int) -> int:
        """Return the row of the weight tile that holds a tap, if the tile has so many."""
        if self.pairs:
            return LINE * outer + _PAIR_ROWS[inner]
        return (LINE if self.delay else self.vectors) * outer + inner


def interleave(
    axis: Axis, outputs: int, stride: int, dilation: int, kernel: tuple[int, int], config: Config
) -> Interleave:
    """Return how a depthwise CONV interleaves positions.

    Parameters
    ----------
    axis : Axis
        The inner one, whose positions are interleaved.
    outputs, stride, dilation : int
        Outputs along it, with ``stride`` positions from one to the next, which are ``dilation``
        apart.
    kernel : tuple of int
        Taps along the outer and along the inner axis.
    config : Config
        The machine.

    Examples
    --------
    >>> interleave(Axis.X, 14, 2, 1, (3, 3), Config())
    Interleave(vectors=15, pairs=True, delay=12)
    >>> interleave(Axis.Y, 14, 2, 1, (3, 3), Config())
    Interleave(vectors=29, pairs=False, delay=26)
    """
    lines = config.has_delay_lines and kernel == (LINE, LINE)
    pairs = lines and axis == Axis.X and stride == PAIR and dilation == 1
    pairs = pairs and outputs in paired_outputs(config)
    vectors = outputs + 1 if pairs else (outputs - 1) * stride + kernel[1]
    lines = lines and least_interleaved(config) <= vectors <= MOST_INTERLEAVED
    return Interleave(vectors, pairs, vectors - LINE if lines else 0)


def interleave_of(fields: Mapping[str, int], config: Config) -> Interleave:
    """Return how a depthwise CONV with these fields interleaves positions."""
    x = fields["columns"], fields["stride_x"], fields["dilation_x"]
    y = fields["rows"], fields["stride_y"], fields["dilation_y"]
    rows, columns = fields["kernel_rows"], fields["kernel_columns"]
    if fields["inner"] == Axis.X:
        return interleave(Axis.X, *x, (rows, columns), config)
    return interleave(Axis.Y, *y, (columns, rows), config)


def in_pairs(fields: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of a CONV that streams the even positions of one of pairs.

    They are two columns apart, and the window of an output has two along x. The odd positions are
    those with ``pad_left`` one larger.
    """
    return {**fields, "stride_x": 1, "kernel_columns": 2, "dilation_x": PAIR}


def least_interleaved(config: Config) -> int:
    """Return the fewest positions, or pairs, interleaved for which the delay lines are used.

    So many leave time to change the delay between two commands: see docs/depthwise.md.
    """
    return config.array_size // 2 + 1


def paired_outputs(config: Config) -> range:
    """Return the numbers of outputs along x for which positions may come in pairs, if any do."""
    least = least_interleaved(config) if config.has_delay_lines else MOST_INTERLEAVED + 1
    return range(least - 1, MOST_INTERLEAVED)
