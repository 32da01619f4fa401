import itertools
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.layout.panel_products import (
    fixed_stride_elements,
    multiply_panels,
    panel_products,
)
from tpulite.layout.panels import (
    NARROW,
    WIDE,
    PackedPanels,
    PackedTiles,
    pack_panels,
    pack_tiles,
    panel_index,
    panel_rows,
    unpack_panels,
    unpack_tiles,
)
from tpulite.layout.weights import pack_weights

FAMILIES = pytest.mark.parametrize("heights", [NARROW, WIDE])
EXTENTS = st.integers(1, 70)


def random_matrix(seed, shape):
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def panels_of_the_document(kernel):
    """Return the used part of each channel of ``kernel_tm``, by the loops of the document."""
    outch, inch = kernel.shape
    channels, p = {}, 0
    for height in (8, 4, 1):
        while p + height - 1 < outch:
            ktmp = []
            for q in range(inch):
                for row in range(height):
                    ktmp.append(kernel[p + row, q])
            channels[p // 8 + (p % 8) // 4 + p % 4] = ktmp
            p += height
    assert sorted(channels) == list(range(outch // 8 + (outch % 8) // 4 + outch % 4))
    return [channels[index] for index in sorted(channels)]


@FAMILIES
@pytest.mark.parametrize("m", range(1, 26))
def test_product_of_panels_is_the_product(m, heights):
    for k, n in ((1, 1), (3, 29), (7, 13), (20, 21)):
        a, b = random_matrix(m, (m, k)), random_matrix(n, (k, n))
        product = multiply_panels(pack_panels(a, heights), pack_panels(b.T, heights))
        np.testing.assert_array_equal(product, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("m", range(1, 26))
def test_product_with_tiles_is_the_product(m):
    size = 16
    for k, n in ((1, 1), (16, 32), (17, 5), (40, 33)):
        a, b = random_matrix(m, (m, k)), random_matrix(n, (k, n))
        panels, tiles = pack_panels(a, WIDE), pack_tiles(b, Config())
        blocks, k_tiles = tiles.offsets.shape
        product = np.zeros((m, blocks * size), np.int64)
        for i, rows in enumerate(panel_rows(m, WIDE)):
            for block, depth in np.ndindex(blocks, k_tiles):
                for r in range(min(size, k - depth * size)):
                    at = panels.offsets[i] + (depth * size + r) * len(rows)
                    column = panels.data[at : at + len(rows)].astype(np.int64)
                    at = tiles.offsets[block, depth] + r * size
                    row = tiles.data[at : at + size].astype(np.int64)
                    product[rows.start : rows.stop, block * size :][:, :size] += np.outer(
                        column, row
                    )
        np.testing.assert_array_equal(product[:, :n], a.astype(int) @ b.astype(int))
        assert not product[:, n:].any()


@given(
    rows=EXTENTS,
    depth=EXTENTS,
    heights=st.sampled_from([NARROW, WIDE, (1,), (5, 3, 2, 1)]),
    dtype=st.sampled_from(["int8", "int32", "float32"]),
    seed=st.integers(0, 1 << 32),
)
def test_panels_survive_the_round_trip(rows, depth, heights, dtype, seed):
    matrix = random_matrix(seed, (rows, depth)).astype(dtype)
    packed = pack_panels(matrix, heights)
    assert packed.data.dtype == matrix.dtype
    assert packed.data.size == matrix.size  # nothing wasted
    unpacked = unpack_panels(packed)
    assert unpacked.dtype == matrix.dtype
    np.testing.assert_array_equal(unpacked, matrix)


@FAMILIES
@pytest.mark.parametrize("rows", range(1, 60))
def test_panels_cover_the_rows_in_order(rows, heights):
    panels = panel_rows(rows, heights)
    assert [row for panel in panels for row in panel] == list(range(rows))
    assert [len(panel) for panel in panels] == sorted(map(len, panels), reverse=True)
    assert {len(panel) for panel in panels} <= set(heights)
    assert [panel_index(panel.start, heights) for panel in panels] == list(range(len(panels)))


@pytest.mark.parametrize("p", range(60))
def test_index_of_a_panel_is_that_of_ncnn(p):
    assert panel_index(p) == p // 8 + p % 8 // 4 + p % 4


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 12, 14, 25])
def test_panels_are_those_of_the_document(rows):
    matrix = random_matrix(rows, (rows, 6))
    packed = pack_panels(matrix)
    panels = [packed.data[a:b].tolist() for a, b in pairwise(packed.offsets)]
    assert panels == panels_of_the_document(matrix)


@FAMILIES
def test_products_are_in_the_order_of_the_loops(heights):
    steps = list(panel_products(18, 6, 9, heights))
    assert [(i.start, j.start, k.start) for i, j, k in steps] == sorted(
        (i.start, j.start, k) for i, j in {step[:2] for step in steps} for k in (0, 4)
    )
    covered = Counter(each for step in steps for each in itertools.product(*step))
    assert covered == Counter(itertools.product(range(18), range(9), range(6)))


def test_operands_of_other_depths_are_refused():
    with pytest.raises(ValueError, match=r"^b: must have depth 2, as a has, not 3$"):
        multiply_panels(pack_panels(np.ones((4, 2))), pack_panels(np.ones((4, 3))))


def test_rows_of_a_panel_are_adjacent():
    matrix = random_matrix(3, (13, 6))
    packed = pack_panels(matrix)
    assert packed.offsets == (0, 48, 72, 78)
    for q in range(6):
        assert packed.data[8 * q : 8 * q + 8].tolist() == matrix[:8, q].tolist()
        assert packed.data[48 + 4 * q : 52 + 4 * q].tolist() == matrix[8:12, q].tolist()
        assert packed.data[72 + q] == matrix[12, q]


@pytest.mark.parametrize(
    ("rows", "depth", "elements"),
    [(8, 64, 512), (12, 64, 1024), (7, 64, 2048), (1, 64, 512), (8, 7, 128), (25, 64, 2048)],
)
def test_a_fixed_stride_takes_a_largest_panel_for_each(rows, depth, elements):
    assert fixed_stride_elements(rows, depth) == elements
    assert pack_panels(random_matrix(4, (rows, depth))).data.size == rows * depth


@given(
    size=st.sampled_from([4, 8, 16, 32]),
    k=EXTENTS,
    n=EXTENTS,
    zero_point=st.integers(-128, 127),
    seed=st.integers(0, 1 << 32),
)
def test_tiles_survive_the_round_trip_in_any_order(size, k, n, zero_point, seed):
    config = Config(array_size=size)
    weight = random_matrix(seed, (k, n))
    packed = pack_tiles(weight, config, zero_point=zero_point)
    assert packed.data.size == size * -(-k // size) * size * -(-n // size)
    np.testing.assert_array_equal(unpack_tiles(packed, config), weight)

    padded = [-(-extent // size) * size for extent in (k, n)]
    unused = unpack_tiles(PackedTiles(packed.data, packed.offsets, *padded), config)
    unused[:k, :n] = zero_point
    assert (unused == zero_point).all()

    order = np.random.default_rng(seed).permutation(packed.offsets.size)
    shuffled = packed.data.reshape(-1, size**2)[order].reshape(-1)
    offsets = np.argsort(order).reshape(packed.offsets.shape) * size**2
    moved = PackedTiles(shuffled, offsets, k, n)
    np.testing.assert_array_equal(unpack_tiles(moved, config), weight)


def test_tiles_are_panels_of_output_channels():
    weight = random_matrix(5, (32, 48))
    panels = pack_panels(np.ascontiguousarray(weight.T), WIDE)
    np.testing.assert_array_equal(panels.data, pack_tiles(weight, Config()).data)
    np.testing.assert_array_equal(panels.data, pack_weights(weight, Config()).reshape(-1))


def test_wrong_operands_are_refused():
    with pytest.raises(ValueError, match=r"^Heights of panels must fall to 1, not \(8, 4\)$"):
        panel_rows(12, (8, 4))
    with pytest.raises(ValueError, match=r"^Heights of panels must fall to 1, not \(4, 8, 1\)$"):
        pack_panels(np.ones((3, 3)), (4, 8, 1))
    with pytest.raises(ValueError, match=r"^Heights of panels must fall to 1, not \(4, 4, 1\)$"):
        pack_panels(np.ones((3, 3)), (4, 4, 1))
    with pytest.raises(ValueError, match=r"^Heights of panels must fall to 1, not \(\)$"):
        panel_index(3, ())
    with pytest.raises(ValueError, match=r"^Rows must be at least 1, not 0$"):
        panel_rows(0)
    with pytest.raises(ValueError, match=r"^A matrix must have two .* at least 1, not \(0, 4\)$"):
        pack_panels(np.ones((0, 4)))
    with pytest.raises(ValueError, match=r"^A matrix must have two .* at least 1, not \(4,\)$"):
        pack_tiles(np.ones(4, np.int8), Config())
    with pytest.raises(ValueError, match=r"^Weights must be int8, not int64$"):
        pack_tiles(np.ones((4, 4), np.int64), Config())
    with pytest.raises(ValueError, match=r"^Panels of a 2 x 3 matrix must have 6 .*, not 5$"):
        unpack_panels(PackedPanels(np.zeros(5), (0, 6), 2, 3))


def test_wrong_tables_are_refused():
    packed = pack_tiles(np.ones((20, 20), np.int8), Config())
    with pytest.raises(ValueError, match=r"^Offsets must have shape \(2, 1\), not \(2, 2\)$"):
        unpack_tiles(PackedTiles(packed.data, packed.offsets, 16, 20), Config())
    with pytest.raises(ValueError, match=r"^Offset of a tile must be from 0 to 768, not 769$"):
        unpack_tiles(PackedTiles(packed.data, packed.offsets + 1, 20, 20), Config())


def test_rows_below_0_are_in_no_panel():
    with pytest.raises(ValueError, match=r"^row must be at least 0, not -1$"):
        panel_index(-1)
