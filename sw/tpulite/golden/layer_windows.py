"""Windows that slide over images, and sums of products under them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]


def slide(
    x: NDArray,
    *,
    window: Pair,
    stride: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
    fill: int = 0,
) -> Iterator[NDArray]:
    """Yield, for each position of a window row by row, what lies there: [OH, OW, C].

    Parameters
    ----------
    x : ndarray, [H, W, C]
        The image.
    window, stride, dilation : pair of int
        (y, x).
    padding : tuple of int
        (top, left, bottom, right).
    fill : int
        Value of the padding.
    """
    top, left, bottom, right = padding
    padded = np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    rows, columns = (
        (padded.shape[axis] - (window[axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
        for axis in (0, 1)
    )
    for ky in range(window[0]):
        for kx in range(window[1]):
            y, z = ky * dilation[0], kx * dilation[1]
            yield padded[
                y : y + (rows - 1) * stride[0] + 1 : stride[0],
                z : z + (columns - 1) * stride[1] + 1 : stride[1],
            ]


def convolve(
    x: NDArray, weight: NDArray, *, stride: Pair, dilation: Pair, padding: Padding
) -> NDArray:
    """Return the sums of a convolution, [OH, OW, N]; ``weight`` is [kh, kw, C, N].

    Numbers are centered, so padding is zero. Sums have the dtype of both arguments.
    """
    window = weight.shape[0], weight.shape[1]
    taps = slide(x, window=window, stride=stride, dilation=dilation, padding=padding)
    shape, total = (0, 0), np.zeros(())
    for tap, factor in zip(taps, weight.reshape(-1, *weight.shape[2:]), strict=True):
        # In two dimensions, since numpy calls BLAS once for each row of a feature map otherwise.
        shape, flat = tap.shape[:2], tap.reshape(-1, tap.shape[2])
        total = total + flat @ factor if total.shape else flat @ factor
    return total.reshape(*shape, weight.shape[3])


def convolve_channels(
    x: NDArray, weight: NDArray, *, stride: Pair, dilation: Pair, padding: Padding
) -> NDArray:
    """Return the sums of each channel with a kernel of its own; ``weight`` is [kh, kw, C]."""
    window = weight.shape[0], weight.shape[1]
    taps = slide(x, window=window, stride=stride, dilation=dilation, padding=padding)
    factors = iter(weight.reshape(-1, weight.shape[2]))
    total = np.asarray(next(taps) * next(factors))
    for tap, factor in zip(taps, factors, strict=True):
        total += tap * factor
    return total


def scatter(x: NDArray, weight: NDArray, *, stride: Pair, padding: Pair, size: Pair) -> NDArray:
    """Return the sums of a transposed convolution; weight [kh, kw, C, N].

    What lies in the padding (top, left), or beyond the size, is lost.
    """
    spans = [(n - 1) * step + 1 for n, step in zip(x.shape, stride, strict=False)]
    extents = [
        max(span + taps, lost + size)
        for span, taps, lost, size in zip(spans, weight.shape, padding, size, strict=False)
    ]
    total = np.zeros((*extents, weight.shape[3]), x.dtype)
    for ky, kx in np.ndindex(weight.shape[:2]):
        place = total[ky : ky + spans[0] : stride[0], kx : kx + spans[1] : stride[1]]
        place += x @ weight[ky, kx]
    top, left = padding
    return total[top : top + size[0], left : left + size[1]]
