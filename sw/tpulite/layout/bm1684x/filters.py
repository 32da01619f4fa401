"""Filters of every type, channel by channel; biases of the floating types."""

import numpy as np

from tpulite.layout.bm1684x.spec import ConvSpec, Fold


def check_array(name: str, values: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise ValueError unless an array has this shape and type."""
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {values.shape}")
    if values.dtype != dtype:
        raise ValueError(f"{name} must be {dtype}, not {values.dtype}")


def pack_filter(values: np.ndarray, spec: ConvSpec) -> np.ndarray:
    """Lay a filter out as a lane reads it, one output channel after the other.

    Parameters
    ----------
    values : ndarray of ``spec.storage``, [oc, ic, kh, kw]
        The filter.
    spec : ConvSpec
        The convolution.

    Returns
    -------
    ndarray of ``spec.storage``, [1, oc, 1, w1]
        Of a channel ``[ceil(ic / P)][kh * kw][P]``, zero where there is no input channel; folded
        axes count as input channels. Depthwise ``[kh * kw]``. f32 is only reshaped, to
        [1, oc, ic, kh * kw].

    Raises
    ------
    ValueError
        If shape or type are not those of ``spec``.

    Examples
    --------
    >>> from tpulite.layout.bm1684x.spec import Geometry
    >>> spec = ConvSpec(oc=1, ic=3, kh=1, kw=2, fold=Fold.NONE,
    ...                 geometry=Geometry(lanes=2, parallel=2, lane_bytes=4))
    >>> pack_filter(np.array([[[[11, 12]], [[21, 22]], [[31, 32]]]], np.int8), spec).tolist()
    [[[[11, 21, 12, 22, 31, 0, 32, 0]]]]
    """
    check_array("Filter", values, spec.filter_shape, spec.storage)
    if spec.depthwise or spec.dtype == "f32":
        return values.reshape(_packed_shape(spec)).copy()
    if spec.folded == Fold.KW:
        values = values.swapaxes(2, 3)
    channels, positions = _extents(spec)
    blocks = -(-channels // spec.parallel)
    padded = np.zeros((spec.oc, blocks * spec.parallel, positions), spec.storage)
    padded[:, :channels] = values.reshape(spec.oc, channels, positions)
    by_block = padded.reshape(spec.oc, blocks, spec.parallel, positions)
    return by_block.swapaxes(2, 3).reshape(_packed_shape(spec))


def unpack_filter(packed: np.ndarray, spec: ConvSpec) -> np.ndarray:
    """Return the filter ``[oc, ic, kh, kw]``; the inverse of :func:`pack_filter`.

    Raises
    ------
    ValueError
        If shape or type are not those of ``spec``, or padding is not zero.
    """
    check_array("Packed filter", packed, _packed_shape(spec), spec.storage)
    if spec.depthwise or spec.dtype == "f32":
        return packed.reshape(spec.filter_shape).copy()
    channels, positions = _extents(spec)
    by_block = packed.reshape(spec.oc, -1, positions, spec.parallel).swapaxes(2, 3)
    padded = by_block.reshape(spec.oc, -1, positions)
    # As bits: a floating -0.0 is not what pack_filter writes.
    wrong = np.argwhere(padded[:, channels:].view(f"u{spec.storage.itemsize}"))
    if wrong.size:
        raise ValueError(
            f"Padding of the packed filter must be 0, not {padded[:, channels:][tuple(wrong[0])]} "
            f"as in output channel {wrong[0][0]}"
        )
    values = padded[:, :channels]
    if spec.folded == Fold.KW:
        return values.reshape(spec.oc, spec.ic, spec.kw, spec.kh).swapaxes(2, 3).copy()
    return values.reshape(spec.filter_shape).copy()


def pack_bias(values: np.ndarray, spec: ConvSpec) -> np.ndarray:
    """Reshape the float32 bias ``[oc]`` of a floating filter to ``[1, oc, 1, 1]``.

    Raises
    ------
    ValueError
        If it does not fit ``spec``; the bias of int8 is a part of the coefficient tensor.
    """
    _check_bias(values, (spec.oc,), spec)
    return values.reshape(1, spec.oc, 1, 1).copy()


def unpack_bias(packed: np.ndarray, spec: ConvSpec) -> np.ndarray:
    """Return the bias ``[oc]``; the inverse of :func:`pack_bias`."""
    _check_bias(packed, (1, spec.oc, 1, 1), spec)
    return packed.reshape(spec.oc).copy()


def _check_bias(values: np.ndarray, shape: tuple[int, ...], spec: ConvSpec) -> None:
    if spec.dtype == "int8" or not spec.has_bias:
        kind = spec.dtype if spec.has_bias else "no bias"
        raise ValueError(f"Only floating filters with a bias have a bias tensor, not {kind}")
    check_array("Bias", values, shape, np.dtype(np.float32))


def _extents(spec: ConvSpec) -> tuple[int, int]:
    """Return channels and kernel positions after the fold."""
    factor = spec.folded.factor(spec.kh, spec.kw)
    return spec.ic * factor, spec.kh * spec.kw // factor


def _packed_shape(spec: ConvSpec) -> tuple[int, int, int, int]:
    if spec.dtype == "f32":
        return 1, spec.oc, spec.ic, spec.kh * spec.kw
    return 1, spec.oc, 1, spec.w1
