"""Ranges of activations: each method against what it is defined by, by trying."""

import numpy as np
import pytest

from tpulite.quant.floats.ranges import METHODS, Histogram, attention_range, choose_range

BINS = 4096


def seen(values: np.ndarray) -> Histogram:
    low, high = float(values.min()), float(values.max())
    return Histogram(low, high, np.histogram(values, BINS, (low, high))[0])


def rounded(values: np.ndarray, low: float, high: float) -> np.ndarray:
    scale = (high - low) / 255
    zero = np.round(-low / scale)
    return (np.clip(np.round(values / scale) + zero, 0, 255) - zero) * scale


def normal(outliers: int = 0) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.concatenate([rng.normal(size=50_000), np.linspace(30, 40, outliers)])


def test_everything_that_was_seen_is_in_the_range_of_minmax():
    values = normal(3)
    assert choose_range(seen(values), "minmax") == (values.min(), values.max())


def test_squared_errors_are_less_than_those_of_all_ranges_around():
    """One outlier of 30 is worth clipping a little; the error is that of rounding itself."""
    values = normal(1)
    low, high = choose_range(seen(values), "mse")
    assert 5 < high < 30

    def error(low: float, high: float) -> float:
        return float(np.square(rounded(values, low, high) - values).mean())

    least = error(low, high)
    assert least < error(values.min(), values.max())
    for other in (0.7, 0.85, 1.15, 1.3):
        assert least < 1.02 * error(low, high * other)
        assert least < 1.02 * error(low * other, high)


def test_a_percentile_leaves_out_half_of_the_rest_on_each_side():
    low, high = choose_range(seen(normal()), "percentile", 99)
    values = normal()
    assert np.mean(values < low) == pytest.approx(0.005, abs=0.001)
    assert np.mean(values > high) == pytest.approx(0.005, abs=0.001)


def test_entropy_leaves_out_outliers_and_keeps_the_bulk():
    low, high = choose_range(seen(normal(20)), "entropy")
    assert -6 < low < -2
    assert 2 < high < 30


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_of_zeros_has_no_range(method):
    assert choose_range(seen(np.zeros(10)), method, 99) == (0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_in_every_range(method):
    low, high = choose_range(seen(np.random.default_rng(2).uniform(3, 4, 1000)), method, 99)
    assert low == 0 < high


def test_scores_far_below_a_mask_do_not_count():
    rows = np.random.default_rng(3).normal(size=(64, 16)) * 3
    masked = np.concatenate([rows, np.full((64, 4), -1e9)], axis=1)
    low, high = attention_range(masked)
    assert -40 < low < -3
    assert rows.max() * 0.6 <= high <= rows.max()
