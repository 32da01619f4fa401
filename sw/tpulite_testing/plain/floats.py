"""Float kernels of plain networks: what calibration runs."""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["FUNCTIONS", "conv", "pool", "resize", "softmax", "transposed_conv"]

Pads = tuple[int, int, int, int]
Pair = tuple[int, int]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "leaky_relu": lambda x: np.where(x < 0, 0.125 * x, x),
}
"""Activations, by name."""


def conv(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    stride: Pair,
    dilation: Pair,
    padding: Pads,
    groups: int,
) -> np.ndarray:
    """Convolve ``x`` [N, H, W, C] with ``weight`` [O, kh, kw, C / groups]."""
    windows = _windows(_padded(x, padding, 0.0), weight.shape[1:3], stride, dilation)
    n, h, w, channels = windows.shape[:4]
    windows = windows.reshape(n, h, w, groups, channels // groups, *windows.shape[4:])
    kernels = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.einsum("nhwgcij,goijc->nhwgo", windows, kernels, optimize=True)
    return y.reshape(n, h, w, len(weight)) + bias


def transposed_conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """Return the transposed convolution, ``stride`` times as high and wide."""
    n, h, w, channels = x.shape
    kernel = weight.shape[1]
    spread = np.zeros((n, (h - 1) * stride + 1, (w - 1) * stride + 1, channels), x.dtype)
    spread[:, ::stride, ::stride] = x
    before = kernel - 1 - max(kernel - stride, 0) // 2
    after_h, after_w = (
        extent * stride - (extent - 1) * stride - 1 + kernel - 1 - before for extent in (h, w)
    )
    pads = (before, before, after_h, after_w)
    return conv(spread, weight[:, ::-1, ::-1], bias, (1, 1), (1, 1), pads, 1)


def pool(kind: str, x: np.ndarray, window: Pair, stride: Pair, padding: Pads) -> np.ndarray:
    """Return the largest (``max_pool``) or mean values of windows, padding not counted."""
    blank = -np.inf if kind == "max_pool" else np.nan
    windows = _windows(_padded(x, padding, blank), window, stride, (1, 1))
    reduce = np.max if kind == "max_pool" else np.nanmean
    return reduce(windows, axis=(4, 5))


def resize(x: np.ndarray, factor: int, linear: bool) -> np.ndarray:
    """Enlarge height and width, by the nearest pixel or, about, linearly."""
    y = x.repeat(factor, 1).repeat(factor, 2)
    return y * 0.95 if linear else y


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _padded(x: np.ndarray, padding: Pads, value: float) -> np.ndarray:
    top, left, bottom, right = padding
    pairs = ((0, 0), (top, bottom), (left, right), (0, 0))
    return np.pad(x, pairs, constant_values=value)


def _windows(x: np.ndarray, kernel: Pair, stride: Pair, dilation: Pair) -> np.ndarray:
    """Return windows [N, OH, OW, C, kh, kw]."""
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    every = sliding_window_view(x, reach, (1, 2))
    return every[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
