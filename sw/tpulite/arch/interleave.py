"""How input positions of a depthwise convolution are interleaved, and where its taps lie.

A sum t of a depthwise stream x is the sum of w(o, i) * x[t + R*o + i] over the taps (o, i) of the
kernel, with R positions interleaved. A row of the array sees the stream a cycle later than the row
above, so that tap (o, i) belongs at row R*o + i: a large R wants many rows. Delay lines let the
rows of the first and of the second line of a 3x3 kernel see the stream 2(R - 3) and R - 3 cycles
late. Then tap (o, i) belongs at row 3*o + i, whatever R is.

With a stride of 2 along x, positions come in pairs: the stream a has the even ones, and beside
a[j] = x[2j] comes b[j] = x[2j - 1]. A line of taps is then w(0) * a[j] + w(1) * b[j + 1] +
w(2) * a[j + 1]. The last row of a line sees b a cycle late, so that its rows hold taps 0, 2 and 1.
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

    A delay is changed when the sums of the command before have passed all columns, and the first
    sum of this one needs it 2(R - 3) cycles after its first vector.
    """
    return config.array_size // 2 + 1


def paired_outputs(config: Config) -> range:
    """Return the numbers of outputs along x for which positions may come in pairs, if any do."""
    least = least_interleaved(config) if config.has_vector_pairs else MOST_INTERLEAVED + 1
    return range(least - 1, MOST_INTERLEAVED)
