import itertools

import numpy as np
import pytest

from tpulite.arch import numerics
from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT32, Rounding
from tpulite.golden import ops
from tpulite_testing.regress import REGRESS

VALUES = 1_000_000 if REGRESS else 300_000
ACC_EXTREMES = [
    INT32[0], INT32[0] + 1, -(1 << 24) - 1, -(1 << 24), -3, -2, -1, 0,
    1, 2, 3, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, (1 << 25) + 2, INT32[-1] - 1, INT32[-1],
]  # fmt: skip
MULTIPLIER_EXTREMES = [0, 1, 1 << 23, (1 << 24) - 1, 1 << 30, (1 << 30) + 1, (1 << 31) - 1]
SHIFT_EXTREMES = [
    -128,
    -64,
    -63,
    -33,
    -32,
    -31,
    -30,
    -24,
    -1,
    0,
    1,
    15,
    30,
    31,
    32,
    64,
    95,
    96,
    127,
]


def scalar(acc, multiplier, shift, rounding) -> np.ndarray:
    """Scale with the scalar definition; saturate as the twin does."""
    limit = ops.SATURATION
    results = [
        min(
            max(numerics.scale_accumulator(a, multiplier=m, shift=s, rounding=rounding), -limit),
            limit,
        )
        for a, m, s in zip(acc.tolist(), multiplier.tolist(), shift.tolist(), strict=True)
    ]
    return np.array(results, dtype=np.int64)


def random_operands(rng: np.random.Generator, rounding: Rounding, count: int):
    """Draw accumulators of all magnitudes and the multipliers and shifts that real scales have."""
    acc = rng.integers(INT32[0], INT32[-1], count, endpoint=True) >> rng.integers(0, 32, count)
    if rounding == Rounding.FLOAT32:
        return acc, rng.integers(1 << 23, 1 << 24, count), rng.integers(-60, 10, count)
    return acc, rng.integers(1 << 30, 1 << 31, count), rng.integers(-31, 31, count)


@pytest.mark.parametrize("rounding", Rounding)
def test_scaling_equals_the_scalar_definition_on_many_values(rounding):
    rng = np.random.default_rng(int(rounding))
    acc, multiplier, shift = random_operands(rng, rounding, VALUES)
    # Some records that no real scale gives: the definition holds for them, too.
    wild = rng.random(VALUES) < 0.1
    multiplier[wild] = rng.integers(0, 1 << 31, wild.sum())
    shift[wild] = rng.integers(-128, 128, wild.sum())
    scaled = ops.scale_accumulators(acc, multiplier=multiplier, shift=shift, rounding=rounding)
    assert np.array_equal(scaled, scalar(acc, multiplier, shift, rounding))


@pytest.mark.parametrize("rounding", Rounding)
def test_scaling_equals_the_scalar_definition_at_extremes(rounding):
    operands = np.array(
        list(itertools.product(ACC_EXTREMES, MULTIPLIER_EXTREMES, SHIFT_EXTREMES)), dtype=np.int64
    )
    acc, multiplier, shift = operands.T
    scaled = ops.scale_accumulators(acc, multiplier=multiplier, shift=shift, rounding=rounding)
    assert np.array_equal(scaled, scalar(acc, multiplier, shift, rounding))


@pytest.mark.parametrize("rounding", Rounding)
def test_scaling_equals_the_scalar_definition_at_ties(rounding):
    """Powers of two as scales put every odd multiple of their half on a tie."""
    shift = np.repeat(np.arange(1, 17), 4000)
    acc = np.tile(np.arange(-2000, 2000), 16) << (shift - 1)
    if rounding == Rounding.FLOAT32:
        multiplier, exponent = np.full(acc.size, 1 << 23), -23 - shift
    else:
        multiplier, exponent = np.full(acc.size, 1 << 30), 1 - shift
    scaled = ops.scale_accumulators(acc, multiplier=multiplier, shift=exponent, rounding=rounding)
    assert np.array_equal(scaled, scalar(acc, multiplier, exponent, rounding))
    ties = acc.astype(np.float64) / 2.0**shift % 1 == 0.5
    assert np.count_nonzero(ties) == acc.size // 2


def test_roundings_differ_pairwise():
    """A test with these operands can tell the roundings apart."""
    rng = np.random.default_rng(0)
    acc, multiplier, shift = random_operands(rng, Rounding.RUY, 100_000)
    shift = np.minimum(shift, 0)
    # Only exact ties below zero tell AWAY from SINGLE.
    acc[:16], multiplier[:16], shift[:16] = np.arange(-16, 0), 1 << 30, 0
    scaled = [
        ops.scale_accumulators(
            acc,
            multiplier=multiplier >> 7 if rounding == Rounding.FLOAT32 else multiplier,
            shift=shift - 24 if rounding == Rounding.FLOAT32 else shift,
            rounding=rounding,
        )
        for rounding in Rounding
    ]
    for first, second in itertools.combinations(scaled, 2):
        assert not np.array_equal(first, second)


def test_float32_rounding_is_ieee_arithmetic():
    rng = np.random.default_rng(1)
    acc, mantissa, exponent = random_operands(rng, Rounding.FLOAT32, 300_000)
    exponent = np.clip(exponent, -55, -23)
    scaled = ops.scale_accumulators(
        acc, multiplier=mantissa, shift=exponent, rounding=Rounding.FLOAT32
    )
    scale = np.ldexp(mantissa.astype(np.float32), exponent).astype(np.float32)
    expected = np.rint(acc.astype(np.float32) * scale)
    assert np.array_equal(scaled, expected.astype(np.int64))


def test_requantization_equals_the_scalar_definition():
    """Channels with parameters of their own, mixed roundings, results within and at the clamp."""
    rng = np.random.default_rng(2)
    m, n = 200, 64
    parameters = {
        "bias": rng.integers(-(1 << 16), 1 << 16, n),
        "multiplier": rng.integers(1 << 30, 1 << 31, n),
        "shift": rng.integers(-12, -4, n),
        "rounding": np.arange(n) % len(Rounding),
        "zero_point": rng.integers(-128, 128, n),
        "low": rng.integers(-128, 0, n),
        "high": rng.integers(0, 128, n),
    }
    float32 = parameters["rounding"] == Rounding.FLOAT32
    parameters["multiplier"][float32] >>= 7
    parameters["shift"][float32] -= 24
    parameters["bias"][0] = INT32[-1]  # wraps
    acc = rng.integers(-(1 << 17), 1 << 17, (m, n))
    result = ops.requantize(acc, **parameters)
    channels = [{name: int(values[i]) for name, values in parameters.items()} for i in range(n)]
    for channel in channels:
        channel["rounding"] = Rounding(channel["rounding"])
    expected = [
        [numerics.requantize(int(a), **channel) for a, channel in zip(row, channels, strict=True)]
        for row in acc
    ]
    assert result.dtype == np.int8
    assert np.array_equal(result, expected)
    clamped = (result == parameters["low"]) | (result == parameters["high"])
    assert 0.1 < clamped.mean() < 0.9


@pytest.mark.parametrize("scaling", Scaling)
def test_operands_are_scaled_as_by_the_scalar_definition(scaling):
    """All int8 values, zero points and multipliers at the extremes; EXACT wraps."""
    values = np.arange(-128, 128)
    multipliers = [0, 1, 1 << 20, 1 << 30, (1 << 31) - 1]
    wrapped = 0
    for zero_point, multiplier, shift in itertools.product([-128, 3, 127], multipliers, [0, 7, 31]):
        scaled = ops.scale_operand(
            values, zero_point=zero_point, multiplier=multiplier, shift=shift, scaling=scaling
        )
        for value, result in zip(values.tolist(), scaled.tolist(), strict=True):
            x = value - zero_point
            if scaling == Scaling.EXACT:
                assert result == numerics.wrap32(x * multiplier)
                wrapped += result != x * multiplier
            else:
                assert result == numerics.scale_accumulator(
                    x << 20, multiplier=multiplier, shift=-shift, rounding=Rounding.TFLITE
                )
    assert bool(wrapped) == (scaling == Scaling.EXACT)


def test_products_wrap_at_int32():
    """All extremes, K long enough to leave int32, against exact integers."""
    k = 66_000
    activation = np.full((2, k), -128, dtype=np.int8)
    activation[1, ::2] = 127
    weight = np.full((k, 2), -128, dtype=np.int8)
    weight[:, 1] = 127
    product = ops.matmul_int32(activation, weight, weight_zero_point=127)
    exact = activation.astype(object) @ (weight.astype(object) - 127)
    assert exact[0, 0] > INT32[-1]
    assert product.dtype == np.int32
    assert product.tolist() == [[numerics.wrap32(int(x)) for x in row] for row in exact]


def test_products_are_exact_on_both_sides_of_the_limit_of_float32():
    """The last sum of extremes that float32 holds, and odd ones of more products."""
    for zero_point, limit in ((0, 1 << 10), (-128, 1 << 9), (127, (1 << 24) // (128 * 255))):
        for k in (limit, limit + 1):
            activation = np.full((1, k), -128, dtype=np.int8)
            weight = np.full((k, 2), -128 if zero_point >= 0 else 127, dtype=np.int8)
            weight[-1, 1] += 1 if zero_point >= 0 else -1
            activation[0, -1] = -127
            exact = activation.astype(np.int64) @ (weight.astype(np.int64) - zero_point)
            assert ops.matmul_int32(activation, weight, zero_point).tolist() == exact.tolist()
