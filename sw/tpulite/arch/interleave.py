"""How input positions of a depthwise convolution are interleaved, and where its taps lie.

R positions are interleaved: a sum takes a vector, and R vectors later the one below it. Without
delay lines that wants R rows of the array for each line of a kernel, with them as many as a line
has taps, three or five. With a stride of 2 along x, two neighboring positions may come in one
cycle, a pair. docs/depthwise.md has the formulas and a figure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.opcodes import Axis

LINES = 3
"""Lines of a kernel for which there are delay lines."""

LINE = 3
"""Taps of a line of such a kernel."""

WIDE_LINE = 5
"""Taps of a line of the other kernel for which there are delay lines."""

MOST_DELAY = 31
"""Longest delay of the second line of a kernel: the memory of the first one has 64 rows."""

MOST_PAIRED = MOST_DELAY + LINE
"""Most pairs of positions that are interleaved."""

PAIR = 2
"""Positions of a pair, and the stride along x for which they come in pairs."""

_PAIR_ROWS = (0, 2, 1)


class Interleave(NamedTuple):
    """How a depthwise stream interleaves positions."""

    vectors: int  #: Slots of an outer position: its inner positions, or pairs of them.
    pairs: bool  #: Whether they come in pairs.
    #: Cycles by which the second line of the kernel sees the stream late, and the first one twice
    #: as many; 0 if it does not go through delay lines.
    delay: int

    def row(self, outer: int, inner: int) -> int:
        """Return the row of the weight tile that holds a tap, if the tile has so many."""
        if self.pairs:
            return LINE * outer + _PAIR_ROWS[inner]
        return (self.vectors - self.delay if self.delay else self.vectors) * outer + inner


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

    Examples
    --------
    >>> interleave(Axis.X, 14, 2, 1, (3, 3), Config())
    Interleave(vectors=15, pairs=True, delay=12)
    >>> interleave(Axis.Y, 14, 2, 1, (3, 3), Config())
    Interleave(vectors=29, pairs=False, delay=26)
    >>> interleave(Axis.Y, 14, 1, 1, (3, 5), Config())
    Interleave(vectors=18, pairs=False, delay=13)
    """
    lines = config.has_delay_lines and kernel in ((LINES, LINE), (LINES, WIDE_LINE))
    pairs = lines and kernel[1] == LINE and axis == Axis.X and stride == PAIR and dilation == 1
    pairs = pairs and outputs in paired_outputs(config)
    vectors = outputs + 1 if pairs else (outputs - 1) * stride + kernel[1]
    delay = vectors - kernel[1]
    lines = lines and least_delay(config) <= delay <= MOST_DELAY
    return Interleave(vectors, pairs, delay if lines else 0)


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


def least_delay(config: Config) -> int:
    """Return the shortest delay for which the delay lines are used.

    It leaves time to change the delay between two commands: see docs/depthwise.md.
    """
    return config.array_size // 2 + 1 - LINE


def paired_outputs(config: Config) -> range:
    """Return the numbers of outputs along x for which positions may come in pairs, if any do."""
    least = least_delay(config) if config.has_delay_lines else MOST_DELAY + 1
    return range(least + LINE - 1, MOST_DELAY + LINE)
