"""Products of panels: the loops of ncnn's ``conv1x1s1_sgemm_neon``, and what its buffers waste."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tpulite.layout.panels import NARROW, PackedPanels, panel_index, panel_rows

__all__ = ["DEPTH", "fixed_stride_elements", "multiply_panels", "panel_products"]

DEPTH = 4
"""Columns of A, and rows of B, of a step of the innermost loop."""


def panel_products(
    m: int, k: int, n: int, heights: tuple[int, ...] = NARROW
) -> Iterator[tuple[range, range, range]]:
    """Yield rows of A, columns of B and what is taken of K, in the order of the three loops.

    A block of the result is complete before the next one begins.

    Examples
    --------
    >>> for i, j, q in panel_products(9, 6, 8):
    ...     print(f"out[{i.start}:{i.stop}, {j.start}:{j.stop}] += k {q.start}:{q.stop}")
    out[0:8, 0:8] += k 0:4
    out[0:8, 0:8] += k 4:6
    out[8:9, 0:8] += k 0:4
    out[8:9, 0:8] += k 4:6
    """
    for i in panel_rows(m, heights):
        for j in panel_rows(n, heights):
            for start in range(0, k, DEPTH):
                yield i, j, range(start, min(start + DEPTH, k))


def multiply_panels(a: PackedPanels, b: PackedPanels) -> np.ndarray:
    """Return A B as sums of outer products, panel by panel, in the order of :func:`panel_products`.

    Parameters
    ----------
    a : PackedPanels
        A, [M, K], packed by its rows.
    b : PackedPanels
        B, [K, N], packed by its columns: ``pack_panels(b.T)``.

    Returns
    -------
    ndarray of int32, [M, N]
        The product; sums wrap.

    Raises
    ------
    ValueError
        If the depths of the operands differ.
    """
    if a.depth != b.depth:
        raise ValueError(f"b: must have depth {a.depth}, as a has, not {b.depth}")
    product = np.zeros((a.rows, b.rows), np.int32)
    for i, columns in _panels(a):
        for j, rows in _panels(b):
            out = product[i.start : i.stop, j.start : j.stop]
            for start in range(0, a.depth, DEPTH):
                for k in range(start, min(start + DEPTH, a.depth)):
                    out += np.outer(columns[k], rows[k])
    return product


def fixed_stride_elements(rows: int, depth: int) -> int:
    """Return the elements of ncnn's buffer, each of whose panels takes as much as the largest.

    ``create(4*8, depth/4 + depth%4, rows/8 + (rows%8)/4 + rows%4)``, whole numbers throughout.

    Examples
    --------
    >>> fixed_stride_elements(7, 64), 7 * 64
    (2048, 448)
    """
    return 4 * 8 * (depth // 4 + depth % 4) * panel_index(rows)


def _panels(packed: PackedPanels) -> Iterator[tuple[range, np.ndarray]]:
    """Yield the rows of each panel, and its elements as int32, [depth, height]."""
    for first, last in pairwise(packed.offsets):
        panel = packed.data[first:last].reshape(packed.depth, -1)
        yield range(first // packed.depth, last // packed.depth), panel.astype(np.int32)
