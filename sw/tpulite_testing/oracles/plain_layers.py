"""Integer layers in plain loops over taps and windows, and random ones to try them on."""

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import Rounding, requantize, scale_accumulator, wrap32
from tpulite.graph.layers import Activation, LayerGraph, Requantization
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options


def random_requantization(rng, channels, reach):
    """Return parameters that bring sums up to about ``reach`` to all of int8."""
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2))
    clamped = rng.random() < 0.3 and low < high
    return Requantization(
        multiplier=rng.integers(1 << 30, 1 << 31, channels),
        shift=-np.int64(np.log2(reach / 128)) + rng.integers(-1, 2, channels),
        bias=rng.integers(-reach // 4, reach // 4 + 1, channels).astype(np.int32),
        rounding=Rounding(rng.choice([0, 1, 2, 4])),
        zero_point=int(rng.integers(-128, 128)),
        low=low if clamped else -128,
        high=high if clamped else 127,
    )


def scaled(sums, requantization):
    """Requantize sums [..., C] one by one."""
    channels = sums.shape[-1]
    multiplier, shift, bias = (
        np.broadcast_to(values, channels)
        for values in (requantization.multiplier, requantization.shift, requantization.bias)
    )
    out = np.empty(sums.shape, np.int8)
    for position in np.ndindex(sums.shape):
        c = position[-1]
        out[position] = requantize(
            int(sums[position]),
            bias=int(bias[c]),
            multiplier=int(multiplier[c]),
            shift=int(shift[c]),
            rounding=requantization.rounding,
            zero_point=requantization.zero_point,
            low=requantization.low,
            high=requantization.high,
        )
    return out


def plain_conv(x, layer, extents, *, depthwise=False):
    """Return a convolution tap by tap."""
    kh, kw = layer.weight.shape[:2]
    channels = layer.weight.shape[-1]
    (sy, sx), (dy, dx), (top, left) = layer.stride, layer.dilation, layer.padding[:2]
    x = x.astype(np.int64) - layer.input_zero_point
    weight = layer.weight.astype(np.int64) - layer.weight_zero_point
    sums = np.zeros((*extents, channels), np.int64)
    for oy, ox, ky, kx in np.ndindex(*extents, kh, kw):
        row, column = oy * sy + ky * dy - top, ox * sx + kx * dx - left
        if 0 <= row < x.shape[0] and 0 <= column < x.shape[1]:
            pixel, tap = x[row, column], weight[ky, kx]
            sums[oy, ox] += pixel * tap if depthwise else pixel @ tap
    return sums if layer.requantization is None else scaled(sums, layer.requantization)


def plain_elementwise(a, b, layer):
    """Return a sum, difference or product of images, one number after the other."""
    (za, zb), (ma, mb), (sa, sb) = layer.zero_points, layer.multipliers, layer.shifts

    def operand(value, multiplier, shift):
        if layer.scaling == Scaling.EXACT:
            return wrap32(value * multiplier)
        return scale_accumulator(
            value << 20, multiplier=multiplier, shift=-shift, rounding=Rounding.TFLITE
        )

    def combine(u, v):
        u, v = int(u) - za, int(v) - zb
        if layer.op == "mul":
            return u * v
        u, v = operand(u, ma, sa), operand(v, mb, sb)
        return wrap32(u + v if layer.op == "add" else u - v)

    sums = np.vectorize(combine, otypes=[np.int64])(a, np.broadcast_to(b, a.shape))
    return scaled(sums, layer.requantization)


def plain_pool(x, layer, extents):
    """Return a pooling layer window by window."""
    (kh, kw), (sy, sx), (top, left) = layer.window, layer.stride, layer.padding[:2]
    out = np.empty((*extents, x.shape[2]), np.int64)
    for oy, ox in np.ndindex(*extents):
        y, column = oy * sy - top, ox * sx - left
        window = x[max(y, 0) : y + kh, max(column, 0) : column + kw].astype(np.int64)
        count, total = window.shape[0] * window.shape[1], window.sum(axis=(0, 1))
        if layer.op == "max":
            out[oy, ox] = window.max(axis=(0, 1))
        elif layer.op == "average":
            out[oy, ox] = np.sign(total) * ((2 * abs(total) + count) // (2 * count))
        else:
            out[oy, ox] = scaled(total, layer.requantization)
    return np.clip(out, layer.low, layer.high).astype(np.int8)


def run_layer(layer, shapes, inputs, config, device="golden", *, raw=False, constants=None):
    """Compile a layer alone, run it, return its output; shapes are those of all its images."""
    constants = constants or {}
    images = {name: Activation(shape) for name, shape in shapes.items()}
    if raw:
        images[layer.output] = Activation(shapes[layer.output], "int32")
    graph = LayerGraph(layer.name, (layer,), images, tuple(inputs), (layer.output,), constants)
    program = kept_program(graph, config, quick_options())
    results = Session(program, device).run(inputs)
    assert results.fault is None
    return results.outputs[layer.output]
