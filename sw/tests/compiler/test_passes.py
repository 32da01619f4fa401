"""What one command of a convolution takes of its kernel, blocks and outputs."""

from dataclasses import replace
from itertools import product

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, Axis1D
from tpulite.compiler.geometry.passes import (
    AxisLimits,
    Pass,
    axis_limits,
    cut_kernel,
    far_columns,
    pass_tiles,
    plan_tiles,
)

ANY = AxisLimits()


def axis_of(size, stride, dilation, kernel, before):
    return Axis1D(kernel, stride, dilation, before, size=size)


def flat(regions):
    return [output for region in regions for output in region]


def test_tiles_are_taps_of_blocks():
    assert Pass(range(2, 5), range(1, 3), range(7)).tiles == 3 * 2 * 7


class TestOutputs:
    """How outputs are cut into regions."""

    def test_regions_are_as_few_as_limits_allow(self):
        limits = AxisLimits(outputs=2, limited=(3, 8), most=4)
        for start, stop, most in product(range(13), range(13), range(1, 6)):
            regions = limits.cut(range(start, stop), most)
            assert flat(regions) == list(range(start, stop))
            count = 0
            for first, last, limit in ((0, 3, 2), (3, 8, 4), (8, 13, 2)):
                zone = [x for x in regions if first <= x.start and x.stop <= last]
                limit = min(limit, most)
                assert all(len(region) <= limit for region in zone)
                assert len(zone) == -(-len(flat(zone)) // limit)
                count += len(zone)
            assert count == len(regions)

    def test_without_limits_regions_have_what_is_asked_for(self):
        assert ANY.cut(range(5, 105), 30) == [range(a, a + 25) for a in (5, 30, 55, 80)]
        far = range((1 << 20) - 2, 1 << 20)
        assert ANY.cut(far, 1 << 29) == [far]

    @pytest.mark.parametrize("stride", [1, 3, 15, 16, 40])
    @pytest.mark.parametrize("dilation", [1, 2, 15, 16, 40])
    @pytest.mark.parametrize("pad", [0, 31, 32, 70])
    @pytest.mark.parametrize("pitched", [False, True])
    def test_every_region_has_a_padding_that_the_field_can_hold(
        self, stride, dilation, pad, pitched
    ):
        axis = axis_of(20, stride, dilation, 4, pad)
        limits = axis_limits(axis, 60, pitched=pitched)
        assert limits.taps == 1 or dilation <= CONV.limit("dilation_y")
        regions = limits.cut(range(60), 50)
        assert flat(regions) == list(range(60))
        assert max(map(len, regions)) <= 50
        subsampled = pitched and stride > CONV.limit("stride_y")
        for region in regions:
            assert stride <= CONV.limit("stride_y") or subsampled or len(region) == 1
            for start in range(0, 4, min(4, limits.taps)):
                part = replace(axis, kernel=min(limits.taps, 4 - start), start=start)
                covered = (len(region) - 1) * stride + (part.kernel - 1) * dilation + 1
                if part.span(region):
                    covered = min(covered, -part.origin(region.start))
                assert (len(region) if subsampled else covered) <= CONV.limit("pad_top")

    @pytest.mark.parametrize("stride", [1, 2, 3, 15])
    def test_regions_read_what_a_command_can(self, stride):
        axis = axis_of(70_000, stride, 9, 5, 3)
        outputs = (axis.size + 3 - 36) // stride
        limits = axis_limits(axis, outputs, pitched=False)
        regions = limits.cut(range(outputs), CONV.limit("columns"))
        assert flat(regions) == list(range(outputs))
        assert max(len(axis.span(region)) for region in regions) <= LARGEST_EXTENT

    @pytest.mark.parametrize(
        ("axis", "outputs", "pitched", "expected"),
        [
            pytest.param(axis_of(60, 1, 1, 3, 1), 60, False, ANY, id="no limit"),
            pytest.param(axis_of(60, 1, 1, 40, 0), 21, True, ANY, id="large kernel"),
            pytest.param(axis_of(60, 15, 15, 3, 31), 5, False, ANY, id="all that fields can say"),
            pytest.param(axis_of(60, 1, 16, 3, 0), 28, True, AxisLimits(1), id="dilation"),
            pytest.param(axis_of(60, 16, 1, 3, 0), 4, True, AxisLimits(1), id="rows far apart"),
            pytest.param(axis_of(60, 16, 1, 3, 0), 4, False, AxisLimits(15, 1), id="columns apart"),
            # 31 positions behind the image need no limit, 32 begin where all is behind it.
            pytest.param(axis_of(20, 1, 1, 3, 0), 49, False, ANY, id="31 behind"),
            pytest.param(
                axis_of(20, 1, 1, 3, 0), 50, False, AxisLimits(15, 17, (0, 18)), id="32 behind"
            ),
            pytest.param(
                axis_of(20, 1, 1, 3, 32), 30, False, AxisLimits(15, 17, (1, 1 << 30)), id="before"
            ),
            # Every second output needs a row less of padding: 40 - 31 rows are five outputs.
            pytest.param(
                axis_of(20, 2, 4, 3, 40), 30, False, AxisLimits(4, 10, (5, 1 << 30)), id="strides"
            ),
            # Both: output 5 still reads in front, 24 is the first one that is behind.
            pytest.param(
                axis_of(20, 2, 4, 3, 40), 60, False, AxisLimits(4, 10, (5, 26)), id="both"
            ),
            pytest.param(
                axis_of(20, 20, 1, 3, 40), 9, True, AxisLimits(1, 31, (1, 3)), id="far rows"
            ),
            pytest.param(
                axis_of(5000, 1, 1, 3, 1), 5000, False, AxisLimits(most=2045), id="long image"
            ),
            pytest.param(
                axis_of(5000, 2, 9, 20, 0), 2400, True, AxisLimits(most=961), id="long and dilated"
            ),
            pytest.param(
                axis_of(5000, 1, 1, 3, 40),
                5000,
                False,
                AxisLimits(15, 17, (9, 1 << 30), most=2045),
                id="long image, and before",
            ),
            pytest.param(axis_of(2047, 1, 1, 3, 0), 2045, False, ANY, id="as long as can be"),
            pytest.param(
                axis_of(2048, 1, 1, 3, 0), 2046, False, AxisLimits(most=2045), id="a row too long"
            ),
        ],
    )  # fmt: skip
    def test_limits_of_an_axis(self, axis, outputs, pitched, expected):
        assert axis_limits(axis, outputs, pitched=pitched) == expected


class TestFarColumns:
    """Strides along columns that are larger than the field."""

    @pytest.mark.parametrize(
        ("axis", "outputs", "expected"),
        [
            pytest.param(axis_of(96, 16, 1, 16, 0), 6, (15, 0, 6), id="patches"),
            pytest.param(axis_of(96, 16, 1, 3, 2), 7, (15, 1, 6), id="last one at the border"),
            pytest.param(axis_of(97, 16, 1, 3, 2), 7, (15, 1, 7), id="last one inside"),
            pytest.param(axis_of(130, 18, 1, 20, 9), 8, (15, 1, 7), id="both borders"),
            pytest.param(axis_of(150, 16, 20, 3, 20), 10, (1, 2, 9), id="dilated"),
            pytest.param(axis_of(99, 16, 1, 3, 2), 3, (15, 1, 3), id="few outputs"),
            pytest.param(axis_of(99, 16, 1, 3, 2), 2, None, id="a single output inside"),
            pytest.param(axis_of(96, 15, 1, 16, 0), 6, None, id="a stride of the field"),
            pytest.param(axis_of(60_000, 16_383, 1, 3, 0), 4, (15, 0, 4), id="the largest pitch"),
            pytest.param(axis_of(60_000, 16_384, 1, 3, 0), 4, None, id="no pitch"),
        ],
    )
    def test_outputs_inside_the_image_go_together(self, axis, outputs, expected):
        limits = far_columns(axis, outputs)
        if expected is None:
            assert limits is None
            return
        taps, first, stop = expected
        assert limits == AxisLimits(taps, 1, (first, stop))
        last = (axis.kernel - 1) * axis.dilation
        inside = [
            o for o in range(outputs) if axis.origin(o) >= 0 and axis.origin(o) + last < axis.size
        ]
        assert inside == list(range(first, stop))


class TestKernels:
    """How kernels and channel blocks are cut into passes."""

    def test_two_passes_are_a_quarter_of_the_buffer(self):
        assert pass_tiles(16, Config(ub_rows=16384)) == 128
        assert pass_tiles(16, Config(ub_rows=256)) == 2
        assert pass_tiles(16, Config(ub_rows=64)) == 1
        assert pass_tiles(4, Config(array_size=4, ub_rows=512)) == 16

    def test_passes_cover_the_kernel_once(self):
        for rows, columns, blocks, most in [(20, 31, 3, 8), (1, 1, 50, 3), (5, 40, 1, 1)]:
            passes = cut_kernel(
                (rows, columns),
                range(7, 7 + blocks),
                most,
                rows=AxisLimits(blocks=2),
                columns=AxisLimits(taps=9),
            )
            taps = [(r, c, b) for p in passes for r in p.rows for c in p.columns for b in p.blocks]
            assert len(taps) == len(set(taps)) == rows * columns * blocks
            assert {b for _, _, b in taps} == set(range(7, 7 + blocks))
            assert max(len(p.rows) for p in passes) <= CONV.limit("kernel_rows")
            assert max(len(p.columns) for p in passes) <= 9
            assert max(len(p.blocks) for p in passes) <= 2
            assert max(p.tiles for p in passes) <= 2 * most

    @pytest.mark.parametrize(
        ("kernel", "blocks", "most", "rows", "columns", "blocks_of_passes"),
        [
            pytest.param((3, 3), 4, 128, [3], [3], [4], id="all at once"),
            pytest.param((3, 3), 15, 128, [3], [3], [8, 7], id="as few as tiles allow"),
            pytest.param((3, 3), 14, 126, [3], [3], [14], id="exactly as many"),
            pytest.param((20, 40), 1, 450, [10, 10], [14, 13, 13], [1], id="fields"),
            pytest.param((3, 4), 2, 6, [3], [4], [1, 1], id="twice as many taps as tiles"),
            pytest.param((3, 4), 2, 5, [1, 1, 1], [4], [1, 1], id="rows apart"),
            pytest.param((5, 4), 1, 8, [2, 2, 1], [4], [1], id="some rows together"),
            pytest.param((2, 13), 1, 5, [1, 1], [5, 4, 4], [1], id="columns apart"),
            pytest.param((2, 10), 1, 5, [1, 1], [10], [1], id="columns together"),
        ],
    )
    def test_parts_of_a_kernel(self, kernel, blocks, most, rows, columns, blocks_of_passes):
        passes = cut_kernel(kernel, range(blocks), most, rows=ANY, columns=ANY)
        sizes = [(len(p.blocks), len(p.rows), len(p.columns)) for p in passes]
        assert sizes == list(product(blocks_of_passes, rows, columns))
        taps = [(b, r, c) for p in passes for b in p.blocks for r in p.rows for c in p.columns]
        assert sorted(taps) == list(product(range(blocks), *map(range, kernel)))

    @pytest.mark.parametrize(
        ("taps", "blocks", "options", "expected"),
        [
            pytest.param(1, 8, {"early": True}, [8], id="no nine tiles"),
            pytest.param(1, 9, {"early": True}, [9], id="nine tiles"),
            pytest.param(1, 10, {"early": True}, [5, 5], id="ten"),
            pytest.param(1, 20, {"early": True}, [7, 7, 6], id="twenty"),
            pytest.param(3, 6, {"early": True}, [3, 3], id="taps count"),
            pytest.param(3, 20, {"early": True, "most": 30}, [3, 2, 3, 2, 10], id="only the first"),
            pytest.param(1, 9, {"late": True}, [8, 1], id="the last one alone"),
            pytest.param(1, 2, {"late": True}, [1, 1], id="each of two"),
            pytest.param(1, 1, {"late": True}, [1], id="there is but one"),
            pytest.param(1, 10, {"late": True, "most": 5}, [5, 4, 1], id="of the last pass"),
            pytest.param(1, 20, {"early": True, "late": True}, [7, 7, 5, 1], id="both"),
        ],
    )
    def test_first_and_last_blocks_may_go_alone(self, taps, blocks, options, expected):
        most = options.pop("most", 128)
        passes = cut_kernel((1, taps), range(3, 3 + blocks), most, rows=ANY, columns=ANY, **options)
        assert [len(p.blocks) for p in passes] == expected
        assert flat(p.blocks for p in passes) == list(range(3, 3 + blocks))

    def test_tiles_have_as_many_output_rows_as_fit(self):
        y = axis_of(100, 2, 1, 5, 0)
        assert plan_tiles(y, ANY, 8, 10, 1000) == (8, AxisLimits(taps=5, blocks=5))
        assert plan_tiles(y, ANY, 8, 10, 190) == (8, AxisLimits(taps=5, blocks=1))
        assert plan_tiles(y, ANY, 8, 10, 189) == (8, AxisLimits(taps=4, blocks=1))
        assert plan_tiles(y, ANY, 8, 10, 150) == (8, AxisLimits(taps=1, blocks=1))
        assert plan_tiles(y, ANY, 8, 10, 80) == (4, AxisLimits(taps=2, blocks=1))
        assert plan_tiles(y, ANY, 8, 10, 20) == (1, AxisLimits(taps=2, blocks=1))
        assert plan_tiles(y, ANY, 8, 10, 9) == (1, AxisLimits(taps=1, blocks=1))
        assert plan_tiles(y, AxisLimits(taps=3, most=7), 8, 10, 1000) == (
            8,
            AxisLimits(taps=3, blocks=5, most=7),
        )

    def test_tiles_have_no_more_rows_than_the_image(self):
        y = axis_of(6, 2, 3, 3, 2)
        assert plan_tiles(y, ANY, 3, 10, 60) == (3, AxisLimits(taps=3, blocks=1))
        assert plan_tiles(y, ANY, 3, 10, 59) == (3, AxisLimits(taps=1, blocks=1))
        assert plan_tiles(y, ANY, 3, 10, 49) == (1, AxisLimits(taps=2, blocks=1))
        assert plan_tiles(y, ANY, 5, 10, 49) == (2, AxisLimits(taps=1, blocks=1))
