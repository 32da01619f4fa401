"""The coefficient tensor of an int8 convolution: requantization, bias and filter of each lane."""

from dataclasses import dataclass

import numpy as np

from tpulite.layout.bm1684x.filters import check_array, pack_filter, unpack_filter
from tpulite.layout.bm1684x.manifest import REQUANT_BYTES, Manifest
from tpulite.layout.bm1684x.spec import ConvSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class Coefficients:
    """The constants of an int8 convolution.

    Parameters
    ----------
    filter : ndarray of int8, [oc, ic, kh, kw]
        Weights; ``ic`` is 1 if it is depthwise.
    multiplier, rshift, zero_point : ndarray of int32, [oc]
        Requantization of each channel: multiply, shift right, add the zero point of the output.
    bias : ndarray of int32, [oc], optional
        Added to the sums.
    """

    filter: np.ndarray
    multiplier: np.ndarray
    rshift: np.ndarray
    zero_point: np.ndarray
    bias: np.ndarray | None = None


def pack_coefficients(coefficients: Coefficients, spec: ConvSpec) -> np.ndarray:
    """Merge the constants of a convolution into one tensor.

    Parameters
    ----------
    coefficients : Coefficients
        The constants.
    spec : ConvSpec
        The convolution.

    Returns
    -------
    ndarray of int8, [1, lanes, 1, w5]
        As :class:`Manifest` describes it. The words of a channel's requantization are
        ``[multiplier, -rshift, zero_point]``; channels that do not exist are zero.

    Raises
    ------
    ValueError
        If an array is not what ``spec`` asks for, or ``spec`` is not int8.
    """
    manifest = Manifest.of(spec)
    _check(coefficients, spec)
    words = np.stack(
        [coefficients.multiplier, -coefficients.rshift, coefficients.zero_point], axis=1
    )
    requant = np.zeros((spec.oc, manifest.requant_stride), np.int8)
    requant[:, :REQUANT_BYTES] = _bytes(words)
    image = np.zeros((manifest.lanes, manifest.w5), np.int8)
    image[:, : manifest.w4] = _to_lanes(requant, manifest)[:, : manifest.w4]
    if coefficients.bias is not None:
        stop = manifest.bias_off + manifest.w3
        image[:, manifest.bias_off : stop] = _to_lanes(_bytes(coefficients.bias), manifest)
    packed = pack_filter(coefficients.filter, spec).reshape(spec.oc, spec.w1)
    image[:, manifest.filter_off :] = _to_lanes(packed, manifest)
    return image.reshape(manifest.shape)


def unpack_coefficients(image: np.ndarray, spec: ConvSpec) -> Coefficients:
    """Return the constants of a convolution; the inverse of :func:`pack_coefficients`.

    Raises
    ------
    ValueError
        If the tensor is not one that ``spec`` describes, down to the zeros between its parts.
    """
    manifest = Manifest.of(spec)
    check_array("Coefficient tensor", image, manifest.shape, np.dtype(np.int8))
    lanes = image.reshape(manifest.lanes, manifest.w5)
    requant = np.zeros((manifest.lanes, manifest.slots * manifest.requant_stride), np.int8)
    requant[:, : manifest.w4] = lanes[:, : manifest.w4]
    words = _words(_to_channels(requant, manifest)[: spec.oc, :REQUANT_BYTES])
    bias = None
    if spec.has_bias:
        stop = manifest.bias_off + manifest.w3
        bias = _words(_to_channels(lanes[:, manifest.bias_off : stop], manifest)[: spec.oc])[:, 0]
    packed = _to_channels(lanes[:, manifest.filter_off :], manifest)[: spec.oc]
    coefficients = Coefficients(
        filter=unpack_filter(packed.reshape(1, spec.oc, 1, spec.w1), spec),
        multiplier=words[:, 0].copy(),
        rshift=-words[:, 1],
        zero_point=words[:, 2].copy(),
        bias=bias,
    )
    differ = np.argwhere(pack_coefficients(coefficients, spec) != image)
    if differ.size:
        _, lane, _, byte = (int(i) for i in differ[0])
        raise ValueError(
            f"Byte {byte} of lane {lane} is padding and must be 0, not {lanes[lane, byte]}"
        )
    return coefficients


def _check(coefficients: Coefficients, spec: ConvSpec) -> None:
    if (coefficients.bias is not None) != spec.has_bias:
        raise ValueError(f"bias must be given exactly if has_bias, which is {spec.has_bias}")
    for name in ("multiplier", "rshift", "zero_point", "bias"):
        values = getattr(coefficients, name)
        if values is not None:
            check_array(name, values, (spec.oc,), np.dtype(np.int32))


def _bytes(words: np.ndarray) -> np.ndarray:
    """View int32 of each channel as little-endian bytes ``[oc, width]``."""
    return np.ascontiguousarray(words.reshape(len(words), -1), "<i4").view(np.int8)


def _words(data: np.ndarray) -> np.ndarray:
    """View the bytes ``[oc, width]`` as int32."""
    return np.ascontiguousarray(data).view("<i4").astype(np.int32)


def _to_lanes(channels: np.ndarray, manifest: Manifest) -> np.ndarray:
    """Deal channels ``[oc, width]`` out to lanes ``[lanes, slots * width]``."""
    oc, width = channels.shape
    padded = np.zeros((manifest.slots * manifest.lanes, width), channels.dtype)
    padded[:oc] = channels
    slots = padded.reshape(manifest.slots, manifest.lanes, width)
    return slots.swapaxes(0, 1).reshape(manifest.lanes, -1)


def _to_channels(lanes: np.ndarray, manifest: Manifest) -> np.ndarray:
    """Collect channels ``[slots * lanes, width]``; the inverse of :func:`_to_lanes`."""
    slots = lanes.reshape(manifest.lanes, manifest.slots, -1)
    return slots.swapaxes(0, 1).reshape(manifest.slots * manifest.lanes, -1)
