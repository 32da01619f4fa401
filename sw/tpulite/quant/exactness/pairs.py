"""Addition, subtraction and multiplication of two tensors with scales of their own.

TFLite's scales are those of ``PrepareGeneralSubOp`` in tensorflow/lite/kernels/sub.cc; the other
formulas were found by comparison with the libraries' results. There are 65,536 pairs of operands,
so where arithmetic differs from the machine's, parameters count only if they give the same result
for *every* pair.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8, Rounding, quantize_multiplier
from tpulite.golden import ops
from tpulite.golden.layers import run_layer
from tpulite.graph.layers import Elementwise, Requantization
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.scaling import activation_bounds, make_requantization
from tpulite.quant.tensors import UNSIGNED, Quantized, UnsupportedError

_SHIFT = 20
"""TFLite scales operands with this many fractional bits."""


@dataclass(frozen=True)
class Pair:
    """An operator of two tensors."""

    op: str  #: ``add``, ``sub`` or ``mul``.
    #: Operands and result.
    a: Quantized
    b: Quantized
    y: Quantized
    activation: str = "none"  #: Fused activation.


@cache
def pair_layer(pair: Pair, exactness: Exactness) -> Elementwise:
    """Return the layer of an operator; its name and those of its images are yet to be chosen.

    Raises
    ------
    UnsupportedError
        If the library does not define the operator, or the machine cannot reproduce it.
    """
    if exactness == Exactness.BM1684X:
        raise UnsupportedError(f"bm1684x numerics do not define {pair.op}")
    if pair.a.unsigned != pair.b.unsigned or pair.a.unsigned != pair.y.unsigned:
        raise UnsupportedError("its tensors are int8 and uint8")
    if exactness == Exactness.LITERT_XNNPACK and not _xnnpack_takes(pair):
        exactness = Exactness.LITERT_OPT
    bounds = activation_bounds(pair.activation, pair.y, exactness)
    if pair.op == "mul":
        return _multiplication(pair, exactness, bounds)
    if exactness.ort:
        raise UnsupportedError(
            f"ONNX Runtime computes {pair.op} in float32, and its rounding depends on the CPU"
        )
    if exactness == Exactness.LITERT_XNNPACK:
        return _xnnpack_sum(pair, bounds)
    result = _tflite_sum(pair, bounds)
    if pair.op == "add" and exactness == Exactness.LITERT_OPT:
        _check_vectorized(result)
    return result


def _run(layer: Elementwise) -> NDArray[np.int8]:
    """Return what the machine computes of every pair of int8, [256, 256] from -128 on."""
    return run_layer(layer, *_pairs())


def _layer(pair: Pair, record: Requantization, **scaling: Any) -> Elementwise:
    return Elementwise(
        name=pair.op,
        inputs=("a", "b"),
        output="y",
        op=pair.op,
        requantization=record,
        zero_points=(pair.a.zero, pair.b.zero),
        **scaling,
    )


def _pairs() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    values = np.arange(INT8[0], INT8[-1] + 1, dtype=np.int64)
    return values[:, np.newaxis], values[np.newaxis, :]


def _tflite_scales(pair: Pair) -> tuple[tuple[float, float], float]:
    """Return scales of the operands and of the result."""
    twice = 2 * max(float(pair.a.scale), float(pair.b.scale))
    result = twice / ((1 << _SHIFT) * float(pair.y.scale))
    if result >= 1:
        raise UnsupportedError(f"LiteRT rejects {pair.op} with the output scale {pair.y.scale}")
    return (float(pair.a.scale) / twice, float(pair.b.scale) / twice), result


def _tflite_sum(pair: Pair, bounds: tuple[int, int]) -> Elementwise:
    scales, result = _tflite_scales(pair)
    (a, a_shift), (b, b_shift) = (quantize_multiplier(scale) for scale in scales)
    if max(-a_shift, -b_shift) > 31:
        raise UnsupportedError(f"scales {pair.a.scale} and {pair.b.scale} differ too much")
    record = make_requantization(result, Rounding.TFLITE, pair.y.zero, bounds)
    return _layer(pair, record, multipliers=(a, b), shifts=(-a_shift, -b_shift))


def _check_vectorized(scalar: Elementwise) -> None:
    """Refuse what LiteRT's vector code computes otherwise than its scalar code.

    Where vectors are used depends on the number of elements and on the CPU. The vector code of an
    addition rounds the scaled operands once, and all of it keeps results in 16 bits, which wrap.
    """
    a, b = (value - zero for value, zero in zip(_pairs(), scalar.zero_points, strict=True))
    total = a * b
    if scalar.op == "add":
        scaled = [
            ops.scale_accumulators(
                value << _SHIFT,
                multiplier=scalar.multipliers[i],
                shift=-scalar.shifts[i],
                rounding=Rounding.SINGLE,
            )
            for i, value in enumerate((a, b))
        ]
        total = scaled[0] + scaled[1]
    record = scalar.requantization
    extremes = ops.scale_accumulators(
        [int(np.min(total)), int(np.max(total))],
        multiplier=record.multiplier,
        shift=record.shift,
        rounding=record.rounding,
    )
    if np.abs(extremes).max() >= (1 << 15) - UNSIGNED * 2:
        raise UnsupportedError("LiteRT's vector code overflows 16 bits with these scales")
    if not np.array_equal(ops.requantize_sums(total, record), _run(scalar)):
        raise UnsupportedError("LiteRT's vector code rounds some sums differently")


def _xnnpack_takes(pair: Pair) -> bool:
    """Tell whether XNNPACK takes the operator; LiteRT's optimized kernel does if not."""
    if pair.op == "mul":
        return bool(2.0**-16 <= _product_scale(pair) < 2.0**8)
    ratios = (pair.a.scale / pair.y.scale, pair.b.scale / pair.y.scale)
    return all(2.0**-10 <= ratio < 2.0**8 for ratio in ratios)


def _xnnpack_sum(pair: Pair, bounds: tuple[int, int]) -> Elementwise:
    """Scale operands to 21 significant bits of the larger scale, exactly; one half-up rounding."""
    ratios = (pair.a.scale / pair.y.scale, pair.b.scale / pair.y.scale)
    shift = _SHIFT - (math.frexp(float(max(ratios)))[1] - 1)
    a, b = (int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios)
    half = Requantization(
        multiplier=np.array([1 << 30]),
        shift=np.array([1 - shift]),
        rounding=Rounding.SINGLE,
        zero_point=pair.y.zero,
        low=bounds[0],
        high=bounds[1],
    )
    return _layer(pair, half, multipliers=(a, b), scaling=Scaling.EXACT)


def _multiplication(pair: Pair, exactness: Exactness, bounds: tuple[int, int]) -> Elementwise:
    scale = _product_scale(pair)
    if exactness.ort:
        return _ort_multiplication(pair, scale, bounds)
    xnnpack = exactness == Exactness.LITERT_XNNPACK
    rounding = Rounding.FLOAT32 if xnnpack else Rounding.TFLITE
    record = make_requantization(float(scale), rounding, pair.y.zero, bounds)
    result = _layer(pair, record)
    if exactness == Exactness.LITERT_OPT:
        _check_vectorized(result)
    return result


def _product_scale(pair: Pair) -> np.float32:
    """Return the scale of a product; all libraries multiply and divide in float32."""
    return pair.a.scale * pair.b.scale / pair.y.scale


def _ort_multiplication(pair: Pair, scale: np.float32, bounds: tuple[int, int]) -> Elementwise:
    """Find a record for a float32 product to which the zero point is added before rounding."""
    a, b = _pairs()
    product = ((a - pair.a.zero) * (b - pair.b.zero)).astype(np.float32)
    wanted = np.rint(product * scale + np.float32(pair.y.zero_point)).astype(np.int64)
    wanted = np.clip(pair.y.image(wanted), *bounds)
    for record in _ort_candidates(pair, float(scale), bounds):
        result = _layer(pair, record)
        if np.array_equal(_run(result), wanted):
            return result
    raise UnsupportedError("no parameters give ONNX Runtime's product for every pair of values")


def _ort_candidates(pair: Pair, scale: float, bounds: tuple[int, int]) -> Iterator[Requantization]:
    for rounding in (Rounding.FLOAT32, Rounding.SINGLE, Rounding.AWAY):
        base = make_requantization(scale, rounding, pair.y.zero, bounds)
        # Neighbors of the multiplier move results that the addition has made a tie.
        for step in (0, 1, -1, 2, -2, 3, -3):
            spread = step if rounding == Rounding.FLOAT32 else step << 4
            yield replace(base, multiplier=base.multiplier + spread)
    for more in (1, -1):
        zero_point, bias = pair.y.zero + more, -round(more / scale)
        if zero_point in INT8:
            yield make_requantization(scale, Rounding.FLOAT32, zero_point, bounds, bias)
