"""Cutting K: which channel blocks of the input the commands of an n-block multiply in turn."""

from tpulite.arch import isa
from tpulite.compiler.geometry.cut import split

MOST_BLOCKS = isa.CONV.limit("blocks")
"""Most channel blocks of a command."""


def _grow(blocks: int) -> list[int]:
    sizes, size = [], 1
    while blocks:
        sizes.append(min(size, blocks))
        blocks -= sizes[-1]
        size = sum(sizes)
    return sizes


def _taper(blocks: int, part: int) -> list[int]:
    sizes = []
    while blocks:
        sizes.append(-(-blocks // part))
        blocks -= sizes[-1]
    return sizes


def _equal(blocks: int, parts: int) -> list[int]:
    return [len(piece) for piece in split(blocks, parts, 1)]


CHUNK_STYLES = {
    "whole": lambda k: [k],
    "last": lambda k: [k - 1, 1],
    "halves": lambda k: _equal(k, 2),
    "quarters": lambda k: _equal(k, 4),
    "eighths": lambda k: _equal(k, 8),
    "grow": _grow,
    "taper": lambda k: _taper(k, 3),
    "slow taper": lambda k: _taper(k, 4),
    "shrink": lambda k: _grow(k)[::-1],
    "ones": lambda k: [1] * k,
}
"""Ways to cut K into chunks."""


def chunks(blocks: int, style: str) -> tuple[int, ...]:
    """Cut channel blocks into chunks that a command can do.

    Examples
    --------
    >>> chunks(10, "grow"), chunks(10, "last")
    ((1, 1, 2, 4, 2), (9, 1))
    """
    return tuple(
        size
        for chunk in CHUNK_STYLES[style](blocks)
        if chunk
        for size in _equal(chunk, -(-chunk // MOST_BLOCKS))
    )
