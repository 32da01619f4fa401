"""What a network computes, image by image: of integers, or of another ring.

Each layer is written once. :mod:`tpulite.golden.validation` computes the same with terms.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import Scaling
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
    Filter,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pad,
    Pick,
    Pool,
    Requantization,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)
from tpulite.layout.int16 import split_int16

Array = NDArray


def run_layers(layers: LayerGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute a network.

    Parameters
    ----------
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
    images: dict[str, Array] = {}
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
    return interpret(layers, images, NUMBERS)


def interpret(layers: LayerGraph, inputs: Mapping[str, Array], ring: "Ring") -> dict[str, Array]:
    """Return every activation of a network of a ring, by name; see :func:`run_layers`."""
    images: dict[str, Array] = {**layers.constants, **inputs}
    for layer in layers.layers:
        result = run_layer(layer, *(images[name] for name in layer.inputs), ring=ring)
        images[layer.output] = result.reshape(layers.activations[layer.output].shape)
    return images


def run_layer(layer: Layer, *images: Array, ring: "Ring | None" = None) -> Array:
    """Compute a layer, of integers or of another ring; a reshape returns its image as it is."""
    for kind, function in _LAYERS.items():
        if isinstance(layer, kind):
            return function(layer, ring or NUMBERS, *images)
    raise ValueError(f"{layer.title} is of no known kind: {type(layer).__name__}")


class Ring(Protocol):
    """What layers compute with: sums, products, and functions that are no polynomials."""

    def sums(self, function: Callable[..., Array], x: Array, weight: Array, **how: Any) -> Array:
        """Return sums of products, which a function of :mod:`.layer_windows` makes."""
        ...

    def requantized(self, sums: Array, how: Requantization | None) -> Array:
        """Return bytes of sums, of int16 pairs in front of the last axis; or the sums."""
        ...

    def scale(
        self, x: Array, *, zero_point: int, multiplier: int, shift: int, scaling: Scaling
    ) -> Array:
        """Return a scaled operand of a sum."""
        ...

    def average(self, sums: Array, counts: Array, layer: Pool) -> Array:
        """Return sums divided by counts, half away from zero, clamped."""
        ...

    def maximum(self, x: Array) -> Array:
        """Return the largest bytes along the last axis."""
        ...

    def clip(self, x: Array, low: int, high: int) -> Array:
        """Return clamped bytes."""
        ...

    def table(self, x: Array, table: Array) -> Array:
        """Return what a table of 256 has for bytes."""
        ...

    def softmax(self, x: Array, layer: Softmax) -> Array:
        """Return shares."""
        ...


class _Numbers:
    """The ring of integers, in which sums wrap at int32."""

    def sums(self, function: Callable[..., Array], x: Array, weight: Array, **how: Any) -> Array:
        # Sums stay below 2**53, so float64 is exact, and BLAS is much faster than numpy's integers.
        # Most are below 2**24, where float32 is exact, too.
        factors = np.abs(weight).sum(axis=tuple(range(weight.ndim - 1)))
        most = int(np.abs(x).max(initial=0)) * int(factors.max(initial=0))
        dtype = np.float32 if most <= ops.EXACT_FLOAT32 else np.float64
        sums = function(x.astype(dtype), weight.astype(dtype), **how)
        return sums.astype(np.int64).astype(np.int32)

    def requantized(self, sums: Array, how: Requantization | None) -> Array:
        if how is None:
            return sums.astype(np.int32)
        if how.bits == 16:
            return split_int16(ops.requantize_int16(sums, how))
        return ops.requantize_sums(sums, how)

    def scale(
        self, x: Array, *, zero_point: int, multiplier: int, shift: int, scaling: Scaling
    ) -> Array:
        how = {"zero_point": zero_point, "multiplier": multiplier, "shift": shift}
        return ops.scale_operand(x, **how, scaling=scaling)

    def average(self, sums: Array, counts: Array, layer: Pool) -> Array:
        sums = sums + layer.offset * counts
        # Half away from zero: the magnitude, plus half, rounded down.
        average = np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts)) - layer.offset
        return np.clip(average, layer.low, layer.high).astype(np.int8)

    def maximum(self, x: Array) -> Array:
        return x.max(axis=-1)

    def clip(self, x: Array, low: int, high: int) -> Array:
        return np.clip(x, low, high).astype(np.int8)

    def table(self, x: Array, table: Array) -> Array:
        return table[x.astype(np.int64) - INT8[0]]

    def softmax(self, x: Array, layer: Softmax) -> Array:
        return ops.softmax(x, layer.words)


NUMBERS = _Numbers()
"""Integers, as the machine has them."""


def _centered(layer: Filter | TransposedConv, x: Array) -> tuple[Array, Array]:
    """Return an input and weights without their zero points; pairs of bytes as int16."""
    weight = layer.weight.astype(np.int64) - layer.weight_zero_point
    x = x.astype(np.int64)
    if layer.int16:
        x = 256 * x[:, ::2] + x[:, 1::2] + 128
    return x - layer.input_zero_point, weight


def _conv(layer: Conv, ring: Ring, x: Array) -> Array:
    x, weight = _centered(layer, x)
    geometry = {"stride": layer.stride, "dilation": layer.dilation, "padding": layer.padding}
    if layer.int16:
        geometry, weight = layer.pair_geometry, layer.counted
    sums = ring.sums(convolve, x, weight, **geometry)
    if layer.digits is not None and layer.requantization is not None:
        # Sums wrap at int32, and with them what lower bytes lack, which is in the bias.
        whole = layer.requantization.bias + 128 * weight.sum(axis=(0, 1, 2))
        sums = sums + whole.astype(np.int32) - whole
    return ring.requantized(sums, layer.requantization)


def _depthwise(layer: Depthwise, ring: Ring, x: Array) -> Array:
    geometry = {"stride": layer.stride, "dilation": layer.dilation, "padding": layer.padding}
    sums = ring.sums(convolve_channels, *_centered(layer, x), **geometry)
    return ring.requantized(sums, layer.requantization)


def _transposed_conv(layer: TransposedConv, ring: Ring, x: Array) -> Array:
    geometry = {"stride": layer.stride, "padding": layer.padding, "size": layer.size}
    sums = ring.sums(scatter, *_centered(layer, x), **geometry)
    return ring.requantized(sums, layer.requantization)


def _elementwise(layer: Elementwise, ring: Ring, a: Array, b: Array) -> Array:
    if layer.op == "max":
        return ring.maximum(np.stack(np.broadcast_arrays(a, b), axis=-1))
    operands = [x.astype(np.int64) for x in (a, b)]
    if layer.op == "mul":
        left, right = (x - zero for x, zero in zip(operands, layer.zero_points, strict=True))
        return ring.requantized(left * right, layer.requantization)
    left, right = (
        ring.scale(
            x,
            zero_point=layer.zero_points[i],
            multiplier=layer.multipliers[i],
            shift=layer.shifts[i],
            scaling=layer.scaling,
        )
        for i, x in enumerate(operands)
    )
    sums = left - right if layer.op == "sub" else left + right
    return ring.requantized(sums, layer.requantization)


def _pool(layer: Pool, ring: Ring, x: Array) -> Array:
    geometry = {"window": layer.window, "stride": layer.stride, "padding": layer.padding}
    if layer.op == "max":
        windows = np.moveaxis(np.stack(list(slide(x, fill=INT8[0], **geometry))), 0, -1)
        return ring.clip(ring.maximum(windows), layer.low, layer.high)
    sums = np.sum(list(slide(x.astype(np.int64), fill=0, **geometry)), axis=0)
    if layer.requantization is not None:
        return ring.requantized(sums, layer.requantization)
    counts = np.sum(list(slide(np.ones(x.shape, np.int64), fill=0, **geometry)), axis=0)
    return ring.average(sums, counts, layer)


def _affine(layer: Affine, ring: Ring, x: Array) -> Array:
    return ring.requantized(x.astype(np.int64) * layer.gain, layer.requantization)


def _lut(layer: Lut, ring: Ring, x: Array) -> Array:
    return ring.table(x, layer.table)


def _softmax(layer: Softmax, ring: Ring, x: Array) -> Array:
    return ring.softmax(x, layer)


def _matmul(layer: MatMul, ring: Ring, a: Array, b: Array) -> Array:
    b = b.swapaxes(1, 2) if layer.transposed else b
    left, right = (
        value.astype(np.int64) - zero for value, zero in zip((a, b), layer.zero_points, strict=True)
    )
    return ring.requantized(np.matmul(left, right), layer.requantization)


def _pad(layer: Pad, ring: Ring, x: Array) -> Array:
    top, left, bottom, right = layer.padding
    return np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=layer.value)


def _concat(layer: Concat, ring: Ring, *images: Array) -> Array:
    return np.concatenate(images, axis=layer.axis)


def _pick(layer: Pick, ring: Ring, x: Array) -> Array:
    picked = x[np.ix_(layer.rows, layer.columns, layer.channels)]
    return picked.swapaxes(0, 1) if layer.transposed else picked


def _depth_to_space(layer: DepthToSpace, ring: Ring, *images: Array) -> Array:
    x, (rows, columns) = np.concatenate(images, axis=2), layer.block
    (height, width), parts = x.shape[:2], np.split(x, rows * columns, axis=2)
    result = np.empty((height * rows, width * columns, layer.channels), x.dtype)
    for part, pixel in zip(parts, layer.order, strict=True):
        y, x0 = divmod(pixel, columns)
        result[y::rows, x0::columns] = part[..., : layer.channels]
    bottom, right = layer.crop
    return result[: len(result) - bottom, : result.shape[1] - right]


def _transpose(layer: Transpose, ring: Ring, x: Array) -> Array:
    return x.swapaxes(1, 2)


def _reshape(layer: Reshape, ring: Ring, x: Array) -> Array:
    return x


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
    Pad: _pad,
    Concat: _concat,
    Pick: _pick,
    DepthToSpace: _depth_to_space,
    Transpose: _transpose,
    Reshape: _reshape,
}
