"""Integer layers on numpy arrays: what a network computes, image by image."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8
from tpulite.golden import ops
from tpulite.golden.layer_windows import convolve, convolve_channels, scatter, slide
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pad,
    Pick,
    Pool,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)
from tpulite.layout.int16 import join_int16, split_int16

__all__ = ["MOVES", "run_layer", "run_layers"]

Array = NDArray


def run_layers(layers: LayerGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute a network.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    inputs : mapping of str to ndarray of int8, [H, W, C]
        Its inputs; uint8 tensors with their top bit inverted.

    Returns
    -------
    dict of str to ndarray of int8 or int32, [H, W, C]
        Every image by name.

    Raises
    ------
    ValueError
        If an input is missing, or has another shape or dtype than its image.
    """
    images: dict[str, Array] = dict(layers.constants)
    for name in layers.inputs:
        wanted = layers.activations[name]
        if name not in inputs:
            raise ValueError(f"Input {name!r} of {layers.name!r} is missing")
        value = inputs[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            raise ValueError(
                f"Input {name!r} must be {wanted.dtype}{list(wanted.shape)}, "
                f"not {value.dtype}{list(value.shape)}"
            )
        images[name] = value
    for layer in layers.layers:
        result = run_layer(layer, *(images[name] for name in layer.inputs))
        images[layer.output] = result.reshape(layers.activations[layer.output].shape)
    return images


def run_layer(layer: Layer, *images: Array) -> Array:
    """Compute a layer; a reshape returns its image as it is."""
    for kind, function in _LAYERS.items():
        if isinstance(layer, kind):
            return function(layer, *images)
    raise ValueError(f"{layer.title} is of no known kind: {type(layer).__name__}")


def _conv(layer: Conv, x: Array) -> Array:
    if layer.int16:
        sums = convolve(
            join_int16(x).reshape(len(x), -1, x.shape[2]).astype(np.int64),
            layer.counted,
            **layer.pair_geometry,
        )
        return split_int16(ops.requantize_int16(sums, layer.requantization))
    sums = convolve(
        x.astype(np.int64) - layer.input_zero_point,
        layer.weight.astype(np.int64) - layer.weight_zero_point,
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
    )
    if layer.requantization is None:
        return sums
    return ops.requantize_sums(sums, layer.requantization)


def _depthwise(layer: Depthwise, x: Array) -> Array:
    sums = convolve_channels(
        x.astype(np.int64) - layer.input_zero_point,
        layer.weight.astype(np.int64) - layer.weight_zero_point,
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
    )
    return ops.requantize_sums(sums, layer.requantization)


def _transposed_conv(layer: TransposedConv, x: Array) -> Array:
    if layer.int16:
        x = join_int16(x).reshape(len(x), -1, x.shape[2])
    sums = scatter(
        x.astype(np.int64) - layer.input_zero_point,
        layer.weight.astype(np.int64) - layer.weight_zero_point,
        stride=layer.stride,
        padding=layer.padding,
        size=layer.size,
    )
    if layer.int16:
        return split_int16(ops.requantize_int16(sums, layer.requantization))
    return ops.requantize_sums(sums, layer.requantization)


def _elementwise(layer: Elementwise, a: Array, b: Array) -> Array:
    if layer.op == "max":
        return np.maximum(a, b)
    if layer.op == "mul":
        factors = [
            value.astype(np.int64) - zero
            for value, zero in zip((a, b), layer.zero_points, strict=True)
        ]
        return ops.requantize_sums(factors[0] * factors[1], layer.requantization)
    scaled = [
        ops.scale_operand(
            value,
            zero_point=layer.zero_points[i],
            multiplier=layer.multipliers[i],
            shift=layer.shifts[i],
            scaling=layer.scaling,
        )
        for i, value in enumerate((a, b))
    ]
    sums = scaled[0] - scaled[1] if layer.op == "sub" else scaled[0] + scaled[1]
    return ops.requantize_sums(ops.wrap32(sums), layer.requantization)


def _pool(layer: Pool, x: Array) -> Array:
    geometry = {"window": layer.window, "stride": layer.stride, "padding": layer.padding}
    if layer.op == "max":
        largest = np.max(list(slide(x, fill=INT8[0], **geometry)), axis=0)
        return np.clip(largest, layer.low, layer.high).astype(np.int8)
    sums = np.sum(list(slide(x.astype(np.int64), fill=0, **geometry)), axis=0)
    if layer.requantization is not None:
        return ops.requantize_sums(sums, layer.requantization)
    counts = np.sum(list(slide(np.ones(x.shape, np.int64), fill=0, **geometry)), axis=0)
    sums = sums + layer.offset * counts
    # Half away from zero: the magnitude, plus half, rounded down.
    average = np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts)) - layer.offset
    return np.clip(average, layer.low, layer.high).astype(np.int8)


def _affine(layer: Affine, x: Array) -> Array:
    sums = x.astype(np.int64) * layer.gain
    return ops.requantize_sums(sums, layer.requantization)


def _lut(layer: Lut, x: Array) -> Array:
    return layer.table[x.astype(np.int64) - INT8[0]]


def _softmax(layer: Softmax, x: Array) -> Array:
    return ops.softmax(x, layer.words)


def _pad(layer: Pad, x: Array) -> Array:
    top, left, bottom, right = layer.padding
    return np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=layer.value)


def _concat(layer: Concat, *images: Array) -> Array:
    return np.concatenate(images, axis=layer.axis)


def _pick(layer: Pick, x: Array) -> Array:
    picked = x[np.ix_(layer.rows, layer.columns, layer.channels)]
    return picked.swapaxes(0, 1) if layer.transposed else picked


def _depth_to_space(layer: DepthToSpace, *images: Array) -> Array:
    x, (rows, columns) = np.concatenate(images, axis=2), layer.block
    (height, width), parts = x.shape[:2], np.split(x, rows * columns, axis=2)
    result = np.empty((height * rows, width * columns, layer.channels), x.dtype)
    for part, pixel in zip(parts, layer.order, strict=True):
        y, x0 = divmod(pixel, columns)
        result[y::rows, x0::columns] = part[..., : layer.channels]
    bottom, right = layer.crop
    return result[: len(result) - bottom, : result.shape[1] - right]


def _matmul(layer: MatMul, a: Array, b: Array) -> Array:
    b = b.swapaxes(1, 2) if layer.transposed else b
    factors = (
        value.astype(np.int64) - zero for value, zero in zip((a, b), layer.zero_points, strict=True)
    )
    return ops.requantize_sums(ops.wrap32(np.matmul(*factors)), layer.requantization)


def _transpose(layer: Transpose, x: Array) -> Array:
    return x.swapaxes(1, 2)


def _reshape(layer: Reshape, x: Array) -> Array:
    return x


MOVES: dict[type[Layer], Callable[..., Array]] = {
    Pad: _pad,
    Concat: _concat,
    Pick: _pick,
    DepthToSpace: _depth_to_space,
    Transpose: _transpose,
    Reshape: _reshape,
}
"""Layers that only move elements, whatever these are: functions of the layer and its images."""

_LAYERS: dict[type[Layer], Callable[..., Array]] = {
    Conv: _conv,
    Depthwise: _depthwise,
    TransposedConv: _transposed_conv,
    Elementwise: _elementwise,
    Pool: _pool,
    Affine: _affine,
    Lut: _lut,
    Softmax: _softmax,
    MatMul: _matmul,
    **MOVES,
}
