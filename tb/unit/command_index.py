"""Indices of commands for the benches: all of their bits change, so that none is lost."""

from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["index_of", "position_of"]

_SPREAD = 0x9E3779
"""Odd, so that each index belongs to one position."""


def index_of(position: int) -> int:
    """Return the index of the command at a position of a stream."""
    return position * _SPREAD % (1 << INDEX_BITS)


def position_of(index: int) -> int:
    """Return the position of the command with an index."""
    return index * pow(_SPREAD, -1, 1 << INDEX_BITS) % (1 << INDEX_BITS)
