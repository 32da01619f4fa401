"""Operands of a matrix product in panels, after the GEMM of ncnn's 1x1 convolution.

``C[m, n] = A[m, k] B[k, n]`` is a sum of outer products over k, so the inner loop needs the rows of
A, and the columns of B, next to each other at one k. A is packed by its rows, B by its columns,
that is as ``B.T``. Panels are made of whole rows: the last ones are lower, never padded. A table of
offsets takes the place of ncnn's fixed stride from panel to panel, with which panels of 4 rows fill
half of their space and panels of 1 an eighth. (ncnn: ``conv1x1s1_sgemm_transform_kernel_neon``.)
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from tpulite.arch.config import Config
from tpulite.layout.weights import pack_weights, unpack_weights

__all__ = [
    "NARROW",
    "WIDE",
    "PackedPanels",
    "PackedTiles",
    "pack_panels",
    "pack_tiles",
    "panel_index",
    "panel_rows",
    "unpack_panels",
    "unpack_tiles",
]

NARROW = (8, 4, 1)
"""Heights of ncnn's panels."""

WIDE = (16, 8, 4, 1)
"""Heights for an array of 16: as many rows as it has columns, then ncnn's."""


@dataclass(frozen=True, eq=False)
class PackedPanels:
    """A matrix in panels.

    Parameters
    ----------
    data : ndarray, [rows * depth]
        The panels, one after the other; each is ``[depth][height]``: K-major, the rows adjacent.
    offsets : tuple of int
        First element of each panel, and the end of the last one.
    rows, depth : int
        Shape of the matrix.
    """

    data: np.ndarray
    offsets: tuple[int, ...]
    rows: int
    depth: int


@dataclass(frozen=True, eq=False)
class PackedTiles:
    """A weight matrix in tiles of the size of the array.

    Parameters
    ----------
    data : ndarray of int8, [tiles * N * N]
        The tiles; each is ``[k][n]``: a panel of N output channels, N deep.
    offsets : ndarray of int64, [n-blocks, k-tiles]
        First element of each tile.
    k, n : int
        Shape of the matrix, padding not counted.
    """

    data: np.ndarray
    offsets: np.ndarray
    k: int
    n: int


def panel_rows(rows: int, heights: tuple[int, ...] = NARROW) -> tuple[range, ...]:
    """Cut rows into panels: as many as possible of each height, the highest first.

    Examples
    --------
    >>> panel_rows(14)
    (range(0, 8), range(8, 12), range(12, 13), range(13, 14))
    """
    _check_heights(heights)
    if rows < 1:
        raise ValueError(f"Rows must be at least 1, not {rows!r}")
    sizes = []
    for height in heights:
        sizes += [height] * (rows // height)
        rows %= height
    return tuple(range(a, b) for a, b in pairwise(accumulate(sizes, initial=0)))


def panel_index(row: int, heights: tuple[int, ...] = NARROW) -> int:
    """Return which panel begins at a row: ``p / 8 + (p mod 8) / 4 + p mod 4`` in ncnn.

    Examples
    --------
    >>> [panel_index(rows.start) for rows in panel_rows(14)]
    [0, 1, 2, 3]
    """
    _check_heights(heights)
    if row < 0:
        raise ValueError(f"row must be at least 0, not {row}")
    index = 0
    for height in heights:
        index += row // height
        row %= height
    return index


def pack_panels(matrix: np.ndarray, heights: tuple[int, ...] = NARROW) -> PackedPanels:
    """Pack a matrix by its rows.

    Parameters
    ----------
    matrix : ndarray, [rows, depth]
        A, or the transpose of B.
    heights : tuple of int
        Heights of panels, falling to 1: :data:`NARROW` or :data:`WIDE`.

    Raises
    ------
    ValueError
        If it is not a matrix or has no elements, or the heights do not fall to 1.

    Examples
    --------
    >>> packed = pack_panels(np.arange(10).reshape(5, 2))
    >>> packed.data.tolist(), packed.offsets
    ([0, 2, 4, 6, 1, 3, 5, 7, 8, 9], (0, 8, 10))
    """
    rows, depth = _extents(matrix)
    panels = panel_rows(rows, heights)
    return PackedPanels(
        data=np.concatenate([matrix[panel.start : panel.stop].T.reshape(-1) for panel in panels]),
        offsets=(0, *(panel.stop * depth for panel in panels)),
        rows=rows,
        depth=depth,
    )


def unpack_panels(packed: PackedPanels) -> np.ndarray:
    """Return the matrix ``[rows, depth]``; the inverse of :func:`pack_panels`.

    Raises
    ------
    ValueError
        If the data has not as many elements as the matrix.
    """
    if packed.data.shape != (packed.rows * packed.depth,):
        raise ValueError(
            f"Panels of a {packed.rows} x {packed.depth} matrix must have "
            f"{packed.rows * packed.depth} elements, not {packed.data.size}"
        )
    panels = [packed.data[a:b].reshape(packed.depth, -1).T for a, b in pairwise(packed.offsets)]
    return np.concatenate(panels)


def pack_tiles(weight: np.ndarray, config: Config, *, zero_point: int = 0) -> PackedTiles:
    """Pack weights for the array: K and N are padded to its size, with ``zero_point``.

    Parameters
    ----------
    weight : ndarray of int8, [k, n]
        The matrix B, or the transpose of A.
    config : Config
        The machine.
    zero_point : int
        What unused weights hold, so that they count as zero.
    """
    k, n = _extents(weight)
    if weight.dtype != np.int8:
        raise ValueError(f"Weights must be int8, not {weight.dtype}")
    tiles = pack_weights(weight, config, zero_point=zero_point)
    n_blocks, k_tiles = tiles.shape[:2]
    offsets = np.arange(n_blocks * k_tiles).reshape(n_blocks, k_tiles) * config.array_size**2
    return PackedTiles(data=tiles.reshape(-1), offsets=offsets, k=k, n=n)


def unpack_tiles(packed: PackedTiles, config: Config) -> np.ndarray:
    """Return the weights ``[k, n]``; the inverse of :func:`pack_tiles`.

    Tiles are found by their offsets, so they may lie in any order.

    Raises
    ------
    ValueError
        If the table has not as many tiles as the matrix, or one lies outside the data.
    """
    size = config.array_size
    expected = (-(-packed.n // size), -(-packed.k // size))
    if packed.offsets.shape != expected:
        raise ValueError(f"Offsets must have shape {expected}, not {packed.offsets.shape}")
    last = packed.data.size - size**2
    for offset in packed.offsets.flat:
        if not 0 <= offset <= last:
            raise ValueError(f"Offset of a tile must be from 0 to {last}, not {offset}")
    tiles = packed.data[packed.offsets[..., None] + np.arange(size**2)]
    return unpack_weights(tiles.reshape(*expected, size, size), packed.k, packed.n)


def _extents(matrix: np.ndarray) -> tuple[int, int]:
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"A matrix must have two extents of at least 1, not {matrix.shape}")
    return matrix.shape


def _check_heights(heights: tuple[int, ...]) -> None:
    if heights[-1:] != (1,) or any(a <= b for a, b in pairwise(heights)):
        raise ValueError(f"Heights of panels must fall to 1, not {heights!r}")
