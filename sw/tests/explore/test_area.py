import pytest

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.configs import CONFIGS, named_chip
from tpulite.explore.area import GROUPS, area, gates, group_of
from tpulite.parts import SIZES


@pytest.mark.parametrize("name", SIZES)
def test_estimates_are_near_to_what_synthesis_says(name):
    if SIZES[name].hash != f"{CONFIGS[name].hash:#010x}":
        pytest.skip("synthesized with another definition")
    found, estimate = SIZES[name], area(*named_chip(name))
    assert estimate.lut == pytest.approx(found.lut, rel=0.1)
    assert estimate.ff == pytest.approx(found.ff, rel=0.1)
    assert (estimate.dsp, estimate.bram) == (found.dsp, found.bram)


@pytest.mark.parametrize("name", [name for name, size in SIZES.items() if size.gates])
def test_gates_are_near_to_what_synthesis_says(name):
    assert gates(CONFIGS[name]) == pytest.approx(SIZES[name].gates, rel=0.15)


def test_memories_of_few_rows_are_lookup_tables():
    large, small = (area(Config(array_size=4, ub_rows=rows), Build()) for rows in (512, 256))
    assert (large.bram - small.bram, small.lut - large.lut) == (8, 8 * 2 * 8 * 6)
    assert (
        area(Config(array_size=4, acc_rows=64), Build()).bram
        == area(Config(array_size=4), Build()).bram - 4
    )


def test_register_slices_are_two_places_for_each_bit_of_all_channels():
    sliced = Config(axi_slices=True)
    assert (
        area(sliced, Build()).ff - area(Config(), Build()).ff == 2 * 504 + 10 * 3
    )  # levels, and who is alone
    assert area(sliced, Build()).lut - area(Config(), Build()).lut == 594
    assert gates(sliced) - gates(Config()) == 8558


@pytest.mark.parametrize(
    ("size", "ff", "lut", "nand2"), [(4, 317, -25, 1_904), (8, 542, 50, 3_053)]
)
def test_registers_behind_rams_take_what_two_syntheses_differ_by(size, ff, lut, nand2):
    with_them, without = Config(array_size=size, ram_registers=True), Config(array_size=size)
    assert area(with_them, Build()).ff - area(without, Build()).ff == pytest.approx(ff, abs=2)
    assert area(with_them, Build()).lut - area(without, Build()).lut == pytest.approx(lut, abs=50)
    assert area(with_them, Build()).bram == area(without, Build()).bram
    assert gates(with_them) - gates(without) == pytest.approx(nand2, abs=2)


def test_delay_lines_take_what_syntheses_of_16x16_differ_by():
    """Of each, with and without: delay lines, pairs of vectors, and lines of five taps."""
    lines, without = Config(), Config(delay_lines=False)
    buffer = 6_774 - 9_172  # which has no more to do
    luts = 85_464 - 84_578 + 80_995 - 82_285 - buffer + 81_379 - 80_995
    assert area(lines, Build()).lut - area(without, Build()).lut == pytest.approx(luts, rel=0.03)
    ffs = 52_084 - 51_634 + 52_198 - 50_542 + 52_352 - 52_198
    assert area(lines, Build()).ff - area(without, Build()).ff == pytest.approx(ffs, rel=0.02)
    brams = 158 - 154 + 162 - 158
    assert area(lines, Build()).bram - area(without, Build()).bram == brams
    nand2 = 980_277 - 978_075 + 928_259 - 920_218 + 929_247 - 928_259
    assert gates(lines) - gates(without) == pytest.approx(nand2, rel=0.02)


def test_transposed_tiles_take_what_two_syntheses_of_16x16_differ_by():
    tiles, without = Config(), Config(transposed_tiles=False)
    more, less = area(tiles, Build()), area(without, Build())
    assert more.lut - less.lut == pytest.approx(84_186 - 81_379, rel=0.02)
    assert more.ff - less.ff == pytest.approx(52_830 - 52_352, rel=0.02)
    assert (more.dsp, more.bram) == (less.dsp, less.bram)
    assert gates(tiles) - gates(without) == pytest.approx(933_115 - 929_247, rel=0.02)


@pytest.mark.parametrize(
    ("option", "size", "luts", "ffs", "nand2"),
    [
        ("int16", 8, 45_256 - 43_658, 25_312 - 24_736, None),
        ("int16", 16, 87_587 - 84_520, 54_128 - 53_080, 947_509 - 928_259),
        ("int4", 8, 43_814 - 43_658, 25_092 - 24_736, None),
        ("int4", 16, 84_908 - 84_520, 54_420 - 53_080, 939_187 - 933_115),
    ],
)
def test_widths_of_numbers_take_what_two_syntheses_differ_by(option, size, luts, ffs, nand2):
    with_it, without = Config(array_size=size, **{option: True}), Config(array_size=size)
    more, less = area(with_it, Build()), area(without, Build())
    assert more.lut - less.lut == pytest.approx(luts, rel=0.05)
    assert more.ff - less.ff == pytest.approx(ffs, rel=0.1)
    assert (more.dsp, more.bram) == (less.dsp, less.bram)
    if nand2:
        assert gates(with_it) - gates(without) == pytest.approx(nand2, rel=0.02)


def test_each_block_is_of_the_group_that_knows_it():
    assert [group_of(name) for name in ("mxu.array.pe_*", "mxu.array.skew", "buffer.bank3")] == [
        "elements",
        "skew",
        None,
    ]
    assert {group_of("load.rows"), group_of("mxu.requantizer")} == {"rest"} < set(GROUPS)
