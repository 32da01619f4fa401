"""Weights, biases and other constants: their values, and their order."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Quantization, Tensor

_MAX_EXPANDED = 1 << 24
"""Elements of the weights of a transposed convolution in groups, written as one with zeros."""


def conv_weights(weight: Tensor, group: int) -> tuple[str, Tensor]:
    """Return the operator and the weights of a convolution in groups.

    One group a channel is a depthwise convolution.

    Parameters
    ----------
    weight : Tensor, [O, I / group, kh, kw] or [O, I / group, kw]
        Weights as in the file.
    group : int
        Groups of channels.

    Returns
    -------
    tuple of str and Tensor
        ``conv`` and [O, kh, kw, I / group], or ``depthwise`` and [kh, kw, O].
    """
    assert weight.data is not None
    data = weight.data if weight.data.ndim == 4 else weight.data[:, :, None]
    if group > 1 and data.shape[1] == 1:
        return "depthwise", _constant(weight, data[:, 0].transpose(1, 2, 0), "hwc", axis=2)
    return "conv", _constant(weight, data.transpose(0, 2, 3, 1), "ohwi", axis=0)


def transposed_weights(
    weight: Tensor, group: int, dilation: tuple[int, int]
) -> tuple[str, Tensor] | None:
    """Return the operator and the weights of a transposed convolution, in one group without gaps.

    Between groups, and in the gaps of a dilated kernel, they are zero (the zero point).

    Parameters
    ----------
    weight : Tensor, [I, O / group, kh, kw] or [I, O / group, kw]
        Weights as in the file.
    group : int
        Groups of channels.
    dilation : (int, int)
        Outputs from one tap to the next.

    Returns
    -------
    tuple of str and Tensor, optional
        ``transposed_conv`` and [O, kh, kw, I]; None if zeros would be most of a memory.
    """
    assert weight.data is not None
    data = weight.data if weight.data.ndim == 4 else weight.data[:, :, None]
    inputs, each, *kernel = data.shape
    height, width = ((k - 1) * step + 1 for k, step in zip(kernel, dilation, strict=True))
    if inputs * each * group * height * width > max(_MAX_EXPANDED, data.size):
        return None
    zero, quantization = np.zeros(each, data.dtype), weight.quantization
    if quantization is not None:
        zero = np.broadcast_to(quantization.zero_point.astype(data.dtype), (each,))
        if quantization.axis is not None:
            scales, points = quantization.scale, quantization.zero_point
            tiled = Quantization(np.tile(scales, group), np.tile(points, group), 1)
            weight = replace(weight, quantization=tiled)
    wide = np.empty((inputs, group, each, height, width), data.dtype)
    wide[:] = zero[:, None, None]
    members = inputs // group
    for index in range(group):
        rows = slice(index * members, (index + 1) * members)
        wide[rows, index, :, :: dilation[0], :: dilation[1]] = data[rows]
    ohwi = wide.reshape(inputs, group * each, height, width).transpose(1, 2, 3, 0)
    return "transposed_conv", _constant(weight, ohwi, "ohwi", axis=0)


def dense_weights(
    weight: Tensor, *, transposed: bool, image: tuple[int, int, int] | None
) -> Tensor:
    """Return the weights of a dense layer as [O, K].

    Parameters
    ----------
    weight : Tensor, [K, O], or [O, K] if ``transposed``
        Weights as in the file.
    image : (int, int, int), optional
        C, H and W, if K runs over an image in this order and shall run over [H, W, C].
    """
    assert weight.data is not None
    data = weight.data if transposed else weight.data.T
    suffix = "ok"
    if image is not None:
        data = data.reshape(-1, *image).transpose(0, 2, 3, 1).reshape(len(data), -1)
        suffix = "ohwc"
    return _constant(weight, data, suffix, axis=0)


def block_diagonal(weight: Tensor) -> Tensor:
    """Return matrices [..., K, O] as one that multiplies all of them side by side.

    The result is [B * O, B * K] for B matrices; outside its blocks are zeros (the zero point).
    """
    assert weight.data is not None
    data = weight.data.reshape(-1, *weight.data.shape[-2:])
    count, inputs, outputs = data.shape
    wide = np.zeros((count, outputs, count, inputs), data.dtype)
    if weight.quantization is not None:
        wide[:] = weight.quantization.zero_point.astype(data.dtype)[0]
    for index in range(count):
        wide[index, :, index] = data[index].T
    return _constant(weight, wide.reshape(count * outputs, count * inputs), "ok", axis=0)


def real_values(tensor: Tensor) -> np.ndarray:
    """Return what the integers of a constant mean, in float64."""
    assert tensor.data is not None and tensor.quantization is not None
    return tensor.quantization.real(tensor.data)


def flat_bias(bias: Tensor, channels: int) -> Tensor:
    """Return a bias as [channels], from one with leading axes or a single number."""
    assert bias.data is not None
    if bias.data.shape == (channels,):
        return bias
    data = np.broadcast_to(bias.data.reshape(-1), (channels,))
    return _constant(bias, data, "bias", axis=0)


def _constant(tensor: Tensor, data: np.ndarray, suffix: str, *, axis: int) -> Tensor:
    """Return a constant with other data, whose channels (if it has scales of them) are ``axis``."""
    quantization = tensor.quantization
    name = f"{tensor.name}.{suffix}"
    if quantization is None or quantization.axis is None:
        data = np.ascontiguousarray(data)
        return Tensor(name, data.shape, data.dtype.name, quantization, data)
    found = Tensor(name, data.shape, data.dtype.name, replace(quantization, axis=axis), data)
    points = quantization.zero_point
    if not np.all(points == points[0]):
        found = without_zero_points(found)
    return replace(found, data=np.ascontiguousarray(found.data))


def without_zero_points(tensor: Tensor) -> Tensor:
    """Return a constant less its zero points, or the constant itself if int8 cannot hold that."""
    data, quantization = tensor.data, tensor.quantization
    assert data is not None and quantization is not None
    if tensor.dtype not in ("int8", "uint8"):
        return tensor
    centered = data.astype(np.int64) - quantization.along(data.ndim)[1]
    limits = np.iinfo(np.int8)
    if centered.min(initial=0) < limits.min or centered.max(initial=0) > limits.max:
        return tensor
    zeros = np.zeros_like(quantization.zero_point)
    meaning = replace(quantization, zero_point=zeros)
    return replace(tensor, dtype="int8", quantization=meaning, data=centered.astype(np.int8))
