"""bfloat16: the upper half of a float32, as its bits, because numpy has no such type."""

import numpy as np

_QUIET = 1 << 6
"""The bit that keeps a NaN one when its lower half is cut off."""


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, to nearest, ties to even.

    Parameters
    ----------
    values : ndarray of float32
        Any numbers. A NaN stays a NaN, and becomes quiet; what is beyond the largest bfloat16 by
        half a step becomes infinite.

    Returns
    -------
    ndarray of uint16
        Bits, in the same shape.

    Raises
    ------
    ValueError
        If the values are not float32.

    Examples
    --------
    >>> [hex(x) for x in to_bfloat16(np.array([1, 1.00390625, 1.01171875], np.float32))]
    ['0x3f80', '0x3f80', '0x3f82']
    """
    if values.dtype != np.float32:
        raise ValueError(f"Values must be float32, not {values.dtype}")
    bits = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape).astype(np.uint64)
    even = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | _QUIET, even).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the float32 that the bits of bfloat16 are; exact.

    Raises
    ------
    ValueError
        If the bits are not uint16.
    """
    if bits.dtype != np.uint16:
        raise ValueError(f"Bits must be uint16, not {bits.dtype}")
    return np.left_shift(bits.astype(np.uint32), 16).view(np.float32)
