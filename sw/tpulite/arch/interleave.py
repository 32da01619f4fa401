"""How input positions of a depthwise convolution are interleaved, and where its taps lie.

A sum t of a depthwise stream x is the sum of w(o, i) * x[t + R*o + i] over the taps (o, i) of the
kernel, with R positions interleaved. A row of the array sees the stream a cycle later than the row
above, so that tap (o, i) belongs at row R*o + i: a large R wants many rows. Delay lines let the
rows of the first and of the second line of a 3x3 kernel see the stream 2(R - 3) and R - 3 cycles
late. Then tap (o, i) belongs at row 3*o + i, whatever R is.
"""

from tpulite.arch.config import Config

__all__ = ["LINE", "MOST_INTERLEAVED", "delayed", "least_interleaved", "tap_pitch"]

LINE = 3
"""Taps of a line of a kernel for which there are delay lines, and lines of it."""

MOST_INTERLEAVED = 34
"""Most positions interleaved with delay lines, whose longer one holds 64 vectors."""


def least_interleaved(config: Config) -> int:
    """Return the fewest positions interleaved for which the delay lines are used.

    A delay is changed when the sums of the command before have passed all columns, and the first
    sum of this one needs it 2(R - 3) cycles after its first vector.
    """
    return config.array_size // 2 + 1


def delayed(interleaved: int, outer: int, inner: int, config: Config) -> bool:
    """Tell whether a depthwise stream goes through the delay lines.

    Parameters
    ----------
    interleaved : int
        Positions interleaved: those of an outer position.
    outer, inner : int
        Extents of the kernel.
    config : Config
        The machine.
    """
    return (
        config.has_delay_lines
        and outer == inner == LINE
        and least_interleaved(config) <= interleaved <= MOST_INTERLEAVED
    )


def tap_pitch(interleaved: int, outer: int, inner: int, config: Config) -> int:
    """Return the rows of the weight tile from tap (o, i) to tap (o + 1, i)."""
    return LINE if delayed(interleaved, outer, inner, config) else interleaved
