"""The definition of rounding against formulas of another kind: exact fractions, and C's rules."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch import numerics
from tpulite.arch.numerics import INT32, Rounding, scale_accumulator

accumulators = st.one_of(
    st.integers(INT32[0], INT32[-1]), st.sampled_from([INT32[0], -1, 0, 1, INT32[-1]])
)
multipliers = st.integers(1 << 30, (1 << 31) - 1)
shifts = st.integers(-31, 30)


@given(st.floats(2.0**-30, 2.0**29))
def test_fixed_point_multiplier_is_within_half_a_unit(scale):
    multiplier, shift = numerics.quantize_multiplier(scale)
    assert 1 << 30 <= multiplier < 1 << 31
    error = abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(scale))
    assert error <= Fraction(2) ** (shift - 31) / 2


def test_fixed_point_multiplier_at_its_limits():
    assert numerics.quantize_multiplier(0.0) == (0, 0)
    assert numerics.quantize_multiplier(2.0**-33) == (0, 0)
    assert numerics.quantize_multiplier(2.0**-32) == (1 << 30, -31)
    assert numerics.quantize_multiplier(2.0**31) == ((1 << 31) - 1, 30)
    assert numerics.quantize_multiplier(math.nextafter(1.0, 0.0)) == (1 << 30, 1)
    for scale in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^Scale must be finite and not negative, not "):
            numerics.quantize_multiplier(scale)


@given(st.floats(2.0**-32, 2.0**100, width=32))
def test_float32_multiplier_is_exact(scale):
    mantissa, exponent = numerics.float32_multiplier(scale)
    assert 1 << 23 <= mantissa < 1 << 24
    assert Fraction(mantissa) * Fraction(2) ** exponent == Fraction(scale)


@pytest.mark.parametrize("scale", [-0.5, -1e-40, 1e40, math.inf, math.nan])
def test_float32_multiplier_refuses_what_is_no_scale(scale):
    with pytest.raises(ValueError, match=r"^Scale must be finite in float32 and not negative"):
        numerics.float32_multiplier(scale)


def test_float32_scales_that_make_nothing_of_any_sum_are_zero():
    for scale in (0.0, 1e-45, 1e-40, 2.0**-126, math.nextafter(2.0**-32, 0.0)):
        assert numerics.float32_multiplier(scale) == (0, 0)
        assert np.rint(np.float32(-(2**31)) * np.float32(scale)) == 0
    assert numerics.float32_multiplier(2.0**-32) == (1 << 23, -55)


@given(accumulators, multipliers, shifts)
def test_single_rounds_the_exact_product_half_up(acc, multiplier, shift):
    exact = Fraction(acc * multiplier) * Fraction(2) ** (shift - 31)
    result = scale_accumulator(acc, multiplier=multiplier, shift=shift, rounding=Rounding.SINGLE)
    assert result == math.floor(exact + Fraction(1, 2))


@given(accumulators, multipliers, shifts)
def test_away_rounds_the_exact_magnitude_half_up(acc, multiplier, shift):
    exact = Fraction(abs(acc) * multiplier) * Fraction(2) ** (shift - 31)
    magnitude = math.floor(exact + Fraction(1, 2))
    result = scale_accumulator(acc, multiplier=multiplier, shift=shift, rounding=Rounding.AWAY)
    assert result == (-magnitude if acc < 0 else magnitude)


def gemmlowp(acc: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier as gemmlowp's C++ has it, with C's truncating division."""
    shifted = numerics.wrap32(acc << max(shift, 0))
    product = shifted * multiplier
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) >> 31
    high = high if product + nudge >= 0 else -high
    exponent = max(-shift, 0)
    mask = (1 << exponent) - 1
    remainder = high & mask
    threshold = (mask >> 1) + (1 if high < 0 else 0)
    return (high >> exponent) + (1 if remainder > threshold else 0)


@given(accumulators, multipliers, shifts)
def test_tflite_is_gemmlowp(acc, multiplier, shift):
    result = scale_accumulator(acc, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE)
    assert result == gemmlowp(acc, multiplier, shift)


@given(accumulators, multipliers, shifts)
def test_ruy_differs_from_tflite_at_negative_ties_only(acc, multiplier, shift):
    ruy, tflite = (
        scale_accumulator(acc, multiplier=multiplier, shift=shift, rounding=rounding)
        for rounding in (Rounding.RUY, Rounding.TFLITE)
    )
    assert ruy - tflite in (0, 1)
    if ruy != tflite:
        assert ruy <= 0
        assert shift < 0


@given(accumulators, st.floats(2.0**-40, 2.0**5, width=32))
def test_float32_is_ieee_arithmetic(acc, scale):
    mantissa, exponent = numerics.float32_multiplier(scale)
    result = scale_accumulator(acc, multiplier=mantissa, shift=exponent, rounding=Rounding.FLOAT32)
    assert result == int(np.rint(np.float32(acc) * np.float32(scale)))


def test_ties_go_where_the_rounding_says():
    halves = {
        Rounding.TFLITE: [-3, -2, -1, 1, 2, 3],
        Rounding.RUY: [-2, -1, 0, 1, 2, 3],
        Rounding.SINGLE: [-2, -1, 0, 1, 2, 3],
        Rounding.FLOAT32: [-2, -2, 0, 0, 2, 2],
        Rounding.AWAY: [-3, -2, -1, 1, 2, 3],
    }
    assert halves.keys() == set(Rounding)
    for rounding, expected in halves.items():
        values = [-5, -3, -1, 1, 3, 5]
        assert [numerics.rounded_shift(value, 1, rounding) for value in values] == expected


def test_requantize_wraps_the_bias_and_clamps():
    scale = {"multiplier": 1 << 30, "shift": 1, "rounding": Rounding.RUY}
    assert numerics.requantize(INT32[-1], bias=1, **scale | {"shift": 0}) == -128
    assert numerics.requantize(5, zero_point=3, **scale) == 8
    assert numerics.requantize(500, high=6, **scale) == 6
    assert numerics.requantize(-500, low=0, **scale) == 0


def test_wrap32_is_twos_complement():
    rng = random.Random(0)
    values = [rng.randrange(-(1 << 70), 1 << 70) for _ in range(99)]
    for value in [1 << 31, -(1 << 31) - 1, *values]:
        wrapped = numerics.wrap32(value)
        assert wrapped in INT32
        assert (wrapped - value) % (1 << 32) == 0
