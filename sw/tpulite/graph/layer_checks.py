"""Checks that the constructors of layers share; each raises ValueError with the offending value."""

import numpy as np

from tpulite.arch.numerics import INT8


def check_array(owner: str, what: str, array: object, dtype: str, rank: int) -> None:
    """Check that an array has a dtype and a number of axes, and is not empty."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
        found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else array
        raise ValueError(f"{owner}: {what} must be {dtype} with {rank} axes, not {found}")
    if not array.size:
        raise ValueError(f"{owner}: {what} must not be empty, not {list(array.shape)}")


def check_int8(owner: str, **values: int) -> None:
    """Check that numbers are in the range of int8."""
    check_integers(owner, len(INT8).bit_length() - 1, **values)


def check_integers(owner: str, bits: int, **values: int) -> None:
    """Check that numbers are in the range of signed integers of so many bits."""
    allowed = range(-(1 << (bits - 1)), 1 << (bits - 1))
    for what, value in values.items():
        if value not in allowed:
            raise ValueError(f"{owner}: {what} must be in {allowed[0]}..{allowed[-1]}, not {value}")


def check_pair(owner: str, what: str, pair: tuple[int, int]) -> None:
    """Check that a pair (y, x) is positive."""
    if len(pair) != 2 or min(pair) < 1:
        raise ValueError(f"{owner}: {what} must be two positive numbers, not {pair}")


def check_padding(owner: str, padding: tuple[int, int, int, int]) -> None:
    """Check that a padding (top, left, bottom, right) is not negative."""
    if len(padding) != 4 or min(padding) < 0:
        raise ValueError(f"{owner}: padding must be four numbers from 0 on, not {padding}")


def windowed(
    owner: str,
    shape: tuple[int, int, int],
    *,
    window: tuple[int, ...],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int]:
    """Return height and width of what a sliding window computes.

    ValueError if the window is larger than the padded activation.
    """
    sizes = []
    for axis in (0, 1):
        padded = shape[axis] + padding[axis] + padding[axis + 2]
        extent = (window[axis] - 1) * dilation[axis] + 1
        if extent > padded:
            raise ValueError(
                f"{owner}: window of {extent} is larger than the padded activation of {padded}"
            )
        sizes.append((padded - extent) // stride[axis] + 1)
    return sizes[0], sizes[1]
