"""What a network computes, in terms."""

from collections.abc import Callable, Mapping

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8, Rounding
from tpulite.golden.layer_windows import slide
from tpulite.golden.layers import MOVES
from tpulite.golden.validation.terms import Array, Terms
from tpulite.graph.layers import (
    Affine,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pool,
    Requantization,
    TransposedConv,
)

__all__ = ["expected_terms"]


def expected_terms(
    layers: LayerGraph, inputs: Mapping[str, Array], terms: Terms
) -> dict[str, Array]:
    """Return every activation of a network in terms: [H, W, C], int32 ones before their bytes.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    inputs : mapping of str to array, [H, W, C]
        Its inputs.
    terms : Terms
        What is not polynomial.

    Raises
    ------
    NotImplementedError
        If terms cannot express a layer.
    """
    found = {name: value.astype(np.int64) for name, value in layers.constants.items()} | dict(
        inputs
    )
    for layer in layers.layers:
        images = [found[name] for name in layer.inputs]
        if type(layer) in MOVES:
            result = MOVES[type(layer)](layer, *images)
        elif type(layer) in _LAYERS:
            result = _LAYERS[type(layer)](layer, terms, *images)
        else:
            raise NotImplementedError(f"{layer.title} cannot be validated")
        found[layer.output] = result.reshape(layers.activations[layer.output].shape)
    return found


def _drained(terms: Terms, sums: Array, how: Requantization | None) -> Array:
    return sums if how is None else terms.requantized(sums, how)


def _taps(layer: Conv | Depthwise, x: Array):
    return slide(
        x - layer.input_zero_point,
        window=(layer.weight.shape[0], layer.weight.shape[1]),
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
    )


def _conv(layer: Conv, terms: Terms, x: Array) -> Array:
    weight = layer.counted
    taps = _taps(layer, x)
    if layer.int16:
        taps = slide(_joined(x), window=weight.shape[:2], **layer.pair_geometry)
    factors = weight.reshape(-1, *weight.shape[2:])
    sums = sum(tap @ factor for tap, factor in zip(taps, factors, strict=True))
    if layer.digits is not None and layer.requantization is not None:
        # Sums wrap at int32, and with them what lower bytes lack, which is in the bias.
        whole = layer.requantization.bias + 128 * weight.sum(axis=(0, 1, 2))
        sums = sums + whole.astype(np.int32) - whole
    return _drained(terms, np.asarray(sums), layer.requantization)


def _joined(x: Array) -> Array:
    """Return int16 of pairs of columns."""
    return 256 * x[:, ::2] + x[:, 1::2] + 128


def _depthwise(layer: Depthwise, terms: Terms, x: Array) -> Array:
    weight = layer.weight.astype(np.int64) - layer.weight_zero_point
    factors = weight.reshape(-1, weight.shape[2])
    sums = sum(tap * factor for tap, factor in zip(_taps(layer, x), factors, strict=True))
    return terms.requantized(np.asarray(sums), layer.requantization)


def _transposed_conv(layer: TransposedConv, terms: Terms, x: Array) -> Array:
    x = _joined(x) if layer.int16 else x - layer.input_zero_point
    weight = layer.weight.astype(np.int64) - layer.weight_zero_point
    (height, width), (top, left) = layer.size, layer.padding
    sums = np.zeros((height, width, weight.shape[3]), np.int64)
    for y, column in np.ndindex(*x.shape[:2]):
        for ky, kx in np.ndindex(*weight.shape[:2]):
            at = y * layer.stride[0] + ky - top, column * layer.stride[1] + kx - left
            if 0 <= at[0] < height and 0 <= at[1] < width:
                sums[at] += x[y, column] @ weight[ky, kx]
    results = terms.requantized(sums, layer.requantization)
    return results.reshape(height, -1, results.shape[-1])  # pairs of int16 are columns


def _elementwise(layer: Elementwise, terms: Terms, a: Array, b: Array) -> Array:
    if layer.op == "max":
        return terms.maximum(np.stack((a, b), axis=-1))
    if layer.op == "mul":
        product = (a - layer.zero_points[0]) * (b - layer.zero_points[1])
        return terms.requantized(product, layer.requantization)
    scaled = [
        terms.scale(
            x,
            zero_point=layer.zero_points[i],
            multiplier=layer.multipliers[i],
            shift=layer.shifts[i],
            exact=layer.scaling == Scaling.EXACT,
        )
        for i, x in enumerate((a, b))
    ]
    sums = scaled[0] - scaled[1] if layer.op == "sub" else scaled[0] + scaled[1]
    return terms.requantized(sums, layer.requantization)


def _pool(layer: Pool, terms: Terms, x: Array) -> Array:
    geometry = {"window": layer.window, "stride": layer.stride, "padding": layer.padding}
    fill = INT8[0] if layer.op == "max" else 0
    window = np.stack(list(slide(x, fill=fill, **geometry)), axis=-1)
    if layer.op == "max":
        return terms.clip(terms.maximum(window), layer.low, layer.high)
    sums = window.sum(axis=-1)
    if layer.requantization is not None:
        return terms.requantized(sums, layer.requantization)
    counts = np.stack(list(slide(np.ones_like(x), fill=0, **geometry)), axis=-1).sum(axis=-1)
    result = np.empty_like(sums)
    for count in np.unique(counts):
        here = counts == count
        result[here] = terms.requantize(sums[here], _average(int(count), layer))
    return result


def _average(count: int, layer: Pool) -> dict:
    """Return the record of an exact average: the reciprocal of 31 bits, rounded up.

    Rounding half away from zero, its error must not reach the next half.
    """
    bits = next(n for n in range(30, 64) if -(-(1 << n) // count) >= 1 << 30)
    multiplier = -(-(1 << bits) // count)
    largest = 255 if layer.offset else 128
    assert 2 * count * largest * (multiplier * count - (1 << bits)) < 1 << bits
    return {
        "bias": layer.offset * count,
        "multiplier": multiplier,
        "shift": 31 - bits,
        "rounding": Rounding.AWAY,
        "zero_point": -layer.offset,
        "low": layer.low,
        "high": layer.high,
    }


def _affine(layer: Affine, terms: Terms, x: Array) -> Array:
    return terms.requantized(x * layer.gain.astype(np.int64), layer.requantization)


def _lut(layer: Lut, terms: Terms, x: Array) -> Array:
    return terms.table(x, layer.table.astype(np.int64))


def _matmul(layer: MatMul, terms: Terms, a: Array, b: Array) -> Array:
    b = b.swapaxes(1, 2) if layer.transposed else b
    product = np.matmul(a - layer.zero_points[0], b - layer.zero_points[1])
    return terms.requantized(product, layer.requantization)


_LAYERS: dict[type[Layer], Callable[..., Array]] = {
    Conv: _conv,
    Depthwise: _depthwise,
    TransposedConv: _transposed_conv,
    Elementwise: _elementwise,
    Pool: _pool,
    Affine: _affine,
    Lut: _lut,
    MatMul: _matmul,
}
