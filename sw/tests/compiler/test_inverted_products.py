"""Products of inverted operands: the same bits with half of the weight tiles."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding, float32_multiplier, quantize_multiplier, requantize
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.inverted_products import invert_operands
from tpulite.golden.timing.predict import program_cycles
from tpulite.graph.layers import Activation, LayerGraph, MatMul, Requantization
from tpulite_testing.drawn.compilations import Compilation
from tpulite_testing.quick_options import quick_options

VALUES = (6, 1, 256, 48)
"""Heads, rows, positions and channels of attention of one token."""

EVEN = 2.0**-6
"""A scale that makes each odd sum a tie of the doubling multiplication."""


def product(scale, shape=VALUES, zero_points=(-128, 3), rounding=Rounding.TFLITE, **record):
    """Return a network of one product whose sums are scaled."""
    split = float32_multiplier if rounding == Rounding.FLOAT32 else quantize_multiplier
    multiplier, shift = (np.array([value]) for value in split(scale))
    layer = MatMul(
        name="y",
        inputs=("a", "b"),
        output="y",
        requantization=Requantization(
            multiplier=multiplier, shift=shift, rounding=rounding, **record
        ),
        zero_points=zero_points,
    )
    heads, rows, inner, columns = shape
    shapes = {"a": (heads, rows, inner), "b": (heads, inner, columns), "y": (heads, rows, columns)}
    activations = {name: Activation(each) for name, each in shapes.items()}
    return LayerGraph("product", (layer,), activations, ("a", "b"), ("y",))


def inverted(layers):
    """Return the product of inverted operands, or None if the product is what it was."""
    made = invert_operands(layers, Config())
    found = next(layer for layer in made.layers if isinstance(layer, MatMul))
    return None if found is layers.layers[0] else found


@pytest.mark.parametrize("rounding", [Rounding.TFLITE, Rounding.FLOAT32, Rounding.AWAY])
@pytest.mark.parametrize("shape", [VALUES, (2, 2, 200, 40)], ids=str)
def test_products_of_inverted_operands_have_the_same_bits(shape, rounding):
    layers = product(0.00171, shape, rounding=rounding, zero_point=-9, low=-100, high=90)
    assert inverted(layers)
    case = Compilation(layers, Config(), quick_options())
    case.run(case.compile(), "golden")


@pytest.mark.parametrize("scale", [0.00171, 0.7 * 2.0**-22, 1.3])
@pytest.mark.parametrize("rounding", [Rounding.TFLITE, Rounding.FLOAT32])
def test_each_negative_sum_has_the_inverse_of_the_result(scale, rounding):
    layers = product(scale, (6, 1, 48, 256), rounding=rounding, zero_point=5, high=100)
    made = inverted(layers)
    assert made is not None
    old, new = (scaling(layer.requantization) for layer in (layers.layers[0], made))
    largest = 48 * 255 * 131
    for total in (*range(3000), *range(3000, largest, 997), *range(largest - 2000, largest + 1)):
        for each in (total, -total):
            assert requantize(each, **old) == ~requantize(-each, **new)


def scaling(record):
    """Return the arguments of ``requantize``."""
    return {
        "multiplier": int(record.multiplier[0]),
        "shift": int(record.shift[0]),
        "rounding": Rounding(record.rounding),
        "zero_point": record.zero_point,
        "low": record.low,
        "high": record.high,
    }


@pytest.mark.parametrize(
    "layers",
    [
        product(EVEN),
        product(0.00171, rounding=Rounding.RUY),
        product(0.00171, rounding=Rounding.SINGLE),
        product(0.00171, zero_points=(-127, 3)),
        product(0.00171, (12, 128, 128, 32)),
    ],
    ids=["ties", "ruy", "single", "another zero point", "many rows"],
)
def test_other_products_stay(layers):
    assert inverted(layers) is None


def test_the_only_tie_of_a_float32_scale_decides_no_bit():
    scale = float(np.float32(0.00171))
    layers = product(scale)
    old = scaling(layers.layers[0].requantization)
    assert old["multiplier"] % 128 == 0  # so 2^23 is a tie, and less than 256 * 255 * 131
    made = inverted(layers)
    assert made is not None
    for total in (1 << 23, -(1 << 23)):
        assert requantize(total, **old) == ~requantize(-total, **scaling(made.requantization))


def test_inverted_operands_take_fewer_cycles():
    layers = product(0.00171)
    without, cycles = (
        program_cycles(Compilation(layers, Config(), options).compile())
        for options in (Options(without=("invert-operands",)), Options())
    )
    tiles = 6 * 3 * 16  # of the second half of 128, which take 16 cycles each
    assert without - cycles > 0.9 * 16 * tiles
