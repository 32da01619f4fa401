"""Batch normalization that no convolution has taken."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8, Rounding
from tpulite.golden.ops import requantize_sums
from tpulite.graph.graph import Node
from tpulite.graph.layers import Affine, Requantization
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.tensors import Quantized, UnsupportedError

_GAIN_BITS = 14
"""Largest gains are two to this: the bias has that many bits below the scale of the input."""

_BIAS_BITS = 30
"""Gains are smaller where the bias would need more bits."""

_NUDGES = (0, 1, -1, 2, -2, 3, -3)
"""What is added to a bias, one after the other, until all results are right."""

_TILTS = (0.0, *(sign * k * 2.0**-26 for k in range(1, 17) for sign in (1, -1)))
"""Likewise for factors, relatively: float32 rounds each product by up to 2**-24 of it."""

Results = NDArray[np.int8]


def lower_batch_norm(node: Node, context: GraphContext) -> None:
    """Lower ONNX Runtime's batch normalization between DequantizeLinear and QuantizeLinear.

    It computes ``x * scale + bias`` by channel in float32. Records count only if they give the same
    result for all 256 inputs of their channel.
    """
    if not context.exactness.ort:
        raise UnsupportedError(f"{context.exactness} has no quantized batch_norm")
    source, target = node.inputs[0], node.outputs[0]
    image = context.read(source)
    context.write(target)
    x, y = context.quantized(source), context.quantized(target)
    gamma, beta, mean, variance = (_constant(context, name) for name in node.inputs[1:5])
    deviation = np.sqrt(variance + np.float32(node["epsilon"]))
    scale = (gamma / deviation).astype(np.float32)
    bias = (beta - mean * scale).astype(np.float32)
    if len(scale) != image.shape[2]:
        raise UnsupportedError(f"it has {len(scale)} channels, its input {image.shape[2]}")
    real = (x.integers() - x.zero_point).astype(np.float32) * x.scale
    result = (real[:, np.newaxis] * scale + bias) / y.scale
    wanted = y.image(np.rint(result).astype(np.int64) + y.zero_point)
    gain, record = affine_records(x, y, scale, bias, wanted)
    context.emit(Affine, node.name, (source,), target, gain=gain, requantization=record)


def _constant(context: GraphContext, name: str) -> NDArray[np.float32]:
    tensor = context.tensor(name)
    if tensor.data is None or tensor.dtype != "float32":
        raise UnsupportedError(f"its parameter {name!r} is not a float32 constant")
    return tensor.data.reshape(-1)


def affine_records(
    x: Quantized,
    y: Quantized,
    scale: NDArray[np.float32],
    bias: NDArray[np.float32],
    wanted: Results,
) -> tuple[NDArray[np.int16], Requantization]:
    """Return gains and records of ``x * scale + bias`` by channel.

    Parameters
    ----------
    x, y : Quantized
        Input and output.
    scale, bias : ndarray of float32, [C]
        Real numbers.
    wanted : ndarray of int8, [n, C]
        Images of the results for the n least inputs; others do not count.

    Raises
    ------
    UnsupportedError
        If there are no records with these results.
    """
    ratio = float(x.scale) * np.abs(scale.astype(np.float64)) / float(y.scale)
    ratio[scale == 0] = 1  # the gain is 0, so the bias alone is scaled
    units = bias.astype(np.float64) / float(y.scale) / ratio
    bits = np.minimum(_GAIN_BITS, _BIAS_BITS - np.frexp(np.abs(units) + 256)[1])
    if bits.min() < 0:
        raise UnsupportedError("a channel's bias overflows int32")
    gain = (np.sign(scale) * (1 << bits)).astype(np.int16)
    step = np.ldexp(ratio, -bits)
    offset = np.rint(np.ldexp(units, bits)) - x.zero * gain.astype(np.int64)
    for rounding in (Rounding.SINGLE, Rounding.AWAY, Rounding.FLOAT32):
        record = make_requantization(step, rounding, y.zero, bias=offset)
        record = _adjust(record, step, gain, wanted)
        if record is not None:
            return gain, record
    raise UnsupportedError("no parameters give ONNX Runtime's results for every value")


def _adjust(
    record: Requantization, step: NDArray[np.float64], gain: NDArray[np.int16], wanted: Results
) -> Requantization | None:
    """Move factors and biases of channels by little until all results are as wanted."""
    multiplier, shift, bias = (x.copy() for x in (record.multiplier, record.shift, record.bias))
    assert isinstance(record.rounding, Rounding)
    numbers = np.arange(INT8[0], INT8[0] + len(wanted))[:, np.newaxis]
    pending = np.arange(len(gain))
    for tilt in _TILTS:
        tilted = make_requantization(step[pending] * (1 + tilt), record.rounding, bias=0)
        tilted = replace(record.of(pending), multiplier=tilted.multiplier, shift=tilted.shift)
        sums, missing = numbers * gain[pending].astype(np.int64), np.ones(len(pending), dtype=bool)
        for nudge in _NUDGES:
            moved = replace(tilted, bias=tilted.bias + np.int32(nudge))
            fits = missing & np.all(requantize_sums(sums, moved) == wanted[:, pending], axis=0)
            found = pending[fits]
            bias[found] = moved.bias[fits]
            multiplier[found], shift[found] = moved.multiplier[fits], moved.shift[fits]
            missing &= ~fits
        pending = pending[missing]
        if not len(pending):
            return replace(record, multiplier=multiplier, shift=shift, bias=bias)
    return None
