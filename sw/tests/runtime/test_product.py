"""``tpulite.gemm``: exact in all orders, and what it says of what it cannot multiply."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tpulite
from tpulite.arch.isa import Drain, Opcode

EXTENTS = st.integers(1, 70)


def random_matrix(seed, shape):
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def requantized(sums, scale):
    """Return the document's step from int32 sums to int8: float32, half to even, saturated."""
    product = sums.astype(np.float32) * np.asarray(scale, np.float32)
    return np.clip(np.rint(product), -128, 127).astype(np.int8)


@example(m=1, k=1, n=1, seed=0)
@settings(max_examples=6)
@given(m=EXTENTS, k=EXTENTS, n=EXTENTS, seed=st.integers(0, 1 << 32))
def test_products_in_the_order_of_the_document_are_exact(m, k, n, seed):
    a, b = random_matrix(seed, (m, k)), random_matrix(seed + 1, (k, n))
    rng = np.random.default_rng(seed)
    bias, scale = rng.integers(-(1 << 20), 1 << 20, n), rng.uniform(1e-4, 1e-2, n)
    sums = a.astype(np.int32) @ b.astype(np.int32)

    product = tpulite.gemm(a, b, order="document")
    assert product.output.dtype == np.int32
    np.testing.assert_array_equal(product.output, sums)
    product = tpulite.gemm(a, b, bias=bias, scale=scale, order="document")
    assert product.output.dtype == np.int8
    np.testing.assert_array_equal(product.output, requantized(sums + bias, scale))


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (9, 20, 17), (40, 8, 3)])
def test_the_fast_order_is_exact_and_not_slower(m, k, n):
    a, b = random_matrix(m, (m, k)), random_matrix(n, (k, n))
    fast, document = (tpulite.gemm(a, b, order=order) for order in ("fast", "document"))
    np.testing.assert_array_equal(fast.output, a.astype(np.int32) @ b.astype(np.int32))
    assert fast.cycles <= document.cycles


@pytest.mark.parametrize(
    ("scale", "expected"), [(0.5, [0, 2, 2, -2, -128]), (1, [1, 3, 5, -5, -128])]
)
def test_ties_go_to_the_even_number_and_large_results_saturate(scale, expected):
    sums = np.array([[1, 3, 5, -5, -16384]])
    a, b = (
        np.array([[-128, 1]], np.int8),
        np.array([[0, 0, 0, 0, 127], [1, 3, 5, -5, -128]], np.int8),
    )
    np.testing.assert_array_equal(a.astype(int) @ b, sums)
    product = tpulite.gemm(a, b, scale=scale, order="document")
    assert product.output.tolist() == [expected]


def test_without_a_scale_a_bias_is_added_to_the_sums_and_wraps():
    a, b = random_matrix(1, (3, 5)), random_matrix(2, (5, 2))
    sums = a.astype(np.int32) @ b.astype(np.int32)
    product = tpulite.gemm(a, b, bias=7, order="document")
    np.testing.assert_array_equal(product.output, sums + 7)
    most = 2**31 - 1
    product = tpulite.gemm(a, b, bias=[most, -most], order="document")
    np.testing.assert_array_equal(product.output, sums + np.array([most, -most], np.int32))


def test_zeros_are_multiplied_in_the_order_that_was_asked_for():
    a, b = random_matrix(1, (20, 40)), np.zeros((40, 20), np.int8)
    product = tpulite.gemm(a, b, order="document")
    assert not product.output.any()
    products = [c for c in product.program.commands if c.opcode == Opcode.CONV]
    assert [(c["rows"], c["blocks"], c["drain"]) for c in products] == [(10, 3, Drain.RAW)] * 4


def test_a_product_tells_what_it_took():
    product = tpulite.gemm(random_matrix(1, (9, 16)), random_matrix(2, (16, 16)), order="document")
    assert product.dram_bytes == 9 * 16 + 16 * 16 + 4 * 9 * 16 + 32 * len(product.program.commands)
    cycles, moved = product.cycles, product.dram_bytes
    assert (
        repr(product) == f"<Product int32[9, 16]: {cycles} cycles, {moved:,} bytes of DRAM traffic>"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": np.ones((2, 3))}, "a: must be an array of int8, not float64"),
        ({"b": [[1], [2], [3]]}, "b: must be an array of int8, not list"),
        ({"a": np.ones(3, np.int8)}, r"a: must be \[M, K\], with no extent of 0, not \(3,\)"),
        (
            {"b": np.ones((3, 0), np.int8)},
            r"b: must be \[K, N\], with no extent of 0, not \(3, 0\)",
        ),
        ({"b": np.ones((4, 1), np.int8)}, "b: must have 3 rows, as a has columns, not 4"),
        ({"bias": [1, 2]}, r"bias: must be one value, or 1, one for each column of b, not \(2,\)"),
        ({"bias": [[1], [2]]}, r"bias: .*, not \(2, 1\); for one of each row multiply the transp"),
        ({"bias": 0.5}, "bias: must be integers, not float64"),
        ({"bias": 1 << 31}, "bias: must be int32, not 2147483648"),
        ({"scale": 0}, "scale: must be above 0 and finite in float32, not 0"),
        ({"scale": [-0.5]}, "scale: must be above 0 and finite in float32, not -0.5"),
        ({"scale": 1e-50}, "scale: must be above 0 and finite in float32, not 1e-50"),
        ({"scale": np.nan}, "scale: must be above 0 and finite in float32, not nan"),
        ({"scale": "x"}, "scale: must be floats, not <U1"),
        ({"scale": 1, "config": "4x4,roundings=ruy"}, "scale: needs a machine that rounds float32"),
        ({"order": "any"}, "order: must be one of fast, document, not 'any'"),
        ({"device": "none"}, "none: no such device"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    given_arguments = {"a": np.ones((2, 3), np.int8), "b": np.ones((3, 1), np.int8), **arguments}
    with pytest.raises(ValueError, match=f"^{message}"):
        tpulite.gemm(**given_arguments)
