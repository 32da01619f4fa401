"""Plans: how a layer is cut up; the choices that the compiler searches."""

from dataclasses import dataclass

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.tiling.cut import split

__all__ = [
    "CHUNK_STYLES",
    "MAX_K_TILES",
    "LayerPlan",
    "LayerShape",
    "NetworkPlan",
    "chunks",
    "vector_align",
]

MAX_K_TILES = isa.CONV.limit("blocks")
"""Most k-tiles of a command."""


@dataclass(frozen=True)
class LayerShape:
    """Extents of a layer on the machine: ``m`` vectors, ``k_tiles`` by ``n_blocks`` tiles."""

    m: int
    k_tiles: int
    n_blocks: int


@dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """How a layer is cut into commands.

    The loops are, from outside: parts of M, groups of n-blocks that accumulate side by side,
    chunks of K, n-blocks of the group. One CONV does one chunk of one n-block.

    Parameters
    ----------
    m_parts : tuple of range
        Parts of M.
    group : int
        n-blocks of a group.
    head : tuple of int
        Chunks of K, in k-tiles, of the first group of the first part: while it runs, its operands
        are still arriving.
    body : tuple of int
        Chunks of K of all other groups.
    tail : tuple of int
        Pieces, in vectors, of the very last n-block of the very last part: the earlier ones are
        stored while the later ones are computed.
    whole_k : bool
        Whether the inputs of a part stay in the buffer for all its groups, over all of K. Else they
        are loaded again for each group, chunk by chunk, and ``head`` equals ``body``.
    keep_weights : bool
        Whether weights stay in the buffer from part to part; needs ``whole_k``.
    """

    m_parts: tuple[range, ...]
    group: int
    head: tuple[int, ...]
    body: tuple[int, ...]
    tail: tuple[int, ...]
    whole_k: bool = True
    keep_weights: bool = True

    def commands(self, shape: LayerShape) -> int:
        """Return the number of CONV commands."""
        first = min(self.group, shape.n_blocks) * (len(self.head) - len(self.body))
        return len(self.m_parts) * shape.n_blocks * len(self.body) + first

    def loaded_rows(self, shape: LayerShape, config: Config, *, inputs: bool) -> int:
        """Return the rows that are loaded: weights, and ``inputs`` if they come from DRAM."""
        weights = shape.k_tiles * shape.n_blocks * config.array_size
        groups = -(-shape.n_blocks // self.group)
        rows = weights * (1 if self.keep_weights else len(self.m_parts))
        if inputs:
            rows += shape.k_tiles * shape.m * (1 if self.whole_k else groups)
        return rows


@dataclass(frozen=True)
class NetworkPlan:
    """How a network is cut into commands.

    Parameters
    ----------
    layers : tuple of LayerPlan
        Plans of all layers.
    on_chip : tuple of bool
        Which of their outputs stay in the unified buffer.
    lead : int
        Loads that go ahead of a CONV, beyond those that it needs.
    """

    layers: tuple[LayerPlan, ...]
    on_chip: tuple[bool, ...]
    lead: int = 2


def vector_align(config: Config) -> int:
    """Return the vectors that begin and end on a beat: cuts of M are multiples of it."""
    return max(1, BEAT_BYTES // config.row_bytes)


def _grow(k_tiles: int) -> list[int]:
    sizes, size = [], 1
    while k_tiles:
        sizes.append(min(size, k_tiles))
        k_tiles -= sizes[-1]
        size = sum(sizes)
    return sizes


def _taper(k_tiles: int, part: int) -> list[int]:
    sizes = []
    while k_tiles:
        sizes.append(-(-k_tiles // part))
        k_tiles -= sizes[-1]
    return sizes


def _equal(k_tiles: int, parts: int) -> list[int]:
    return [len(piece) for piece in split(k_tiles, parts, 1)]


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


def chunks(k_tiles: int, style: str) -> tuple[int, ...]:
    """Cut K into chunks that a command can do.

    Examples
    --------
    >>> chunks(10, "grow"), chunks(10, "last")
    ((1, 1, 2, 4, 2), (9, 1))
    """
    return tuple(
        size
        for chunk in CHUNK_STYLES[style](k_tiles)
        if chunk
        for size in _equal(chunk, -(-chunk // MAX_K_TILES))
    )
