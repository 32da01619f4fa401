from dataclasses import replace
from pathlib import Path

import pytest

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.configs import CONFIG_PARTS, CONFIGS, machines_with, named_chip, named_config, part_for
from tpulite.parts import PARTS, SIZES

PAGE = Path(__file__).resolve().parents[2] / "docs/fpga.md"


def test_names_say_the_array_size():
    for size in (4, 8, 16, 32):
        assert named_config(f"{size}x{size}").array_size == size


def test_configurations_differ():
    assert len({config.hash for config in CONFIGS.values()}) == len(CONFIGS)


def test_other_sizes_are_for_the_same_part():
    assert part_for("ecp5-45,requant_lanes=4") == part_for("ecp5-45") == "LFE5U-45"
    assert part_for("ecp5,ub_rows=4096") == part_for("8x8") == "LFE5U-85"


@pytest.mark.parametrize(("name", "part"), CONFIG_PARTS.items())
def test_what_is_made_for_a_part_fits_and_has_all_roundings(name, part):
    size = SIZES[name]
    assert size.part == part
    for resource in ("lut", "ff", "dsp", "bram"):
        assert 0 < getattr(size, resource) <= getattr(PARTS[part], resource)
    assert len(CONFIGS[name].roundings) == len(Rounding)


def test_sizes_are_those_of_the_configurations_as_they_are():
    """When this fails: make synth CONFIG=NAME, then scripts/parts.py."""
    for name, size in SIZES.items():
        assert size.hash == f"{CONFIGS[name].hash:#010x}", name


def test_the_page_has_the_same_sizes():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    for row, size in zip(rows[1:], SIZES.values(), strict=True):
        assert row.startswith(f"| `{size.config}` | {size.part} | {size.lut:,}")
        assert row.endswith(f" | {size.speed} |")


def test_the_name_of_the_only_one_is_still_known():
    assert named_config("ecp5") is CONFIGS["ecp5-85"]
    assert named_config("ecp5,ub_rows=64").ub_rows == 64


def test_machines_of_the_same_array_come_first():
    assert machines_with("tflite", Config(array_size=4)) == ["4x4", "ecp5-25"]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"^5x5: no such configuration; choose from 4x4, .*5-85$"):
        named_config("5x5")


def test_sizes_can_be_others():
    config = named_config("32x32,ub_rows=4096,vector_lanes=8,roundings=ruy+tflite")
    expected = Config(array_size=32, ub_rows=4096, vector_lanes=8, roundings=("tflite", "ruy"))
    assert config == expected
    assert named_config("16x16") is CONFIGS["16x16"]


def test_a_chip_is_a_machine_and_how_it_is_written():
    assert named_chip("16x16") == (Config(), Build())
    assert named_chip("ecp5") == (CONFIGS["ecp5-85"], Build(memories="block"))
    name = "ecp5-45,ub_rows=4096,memories=macro,clock_gates=1"
    build = Build(multipliers="mostly_dsp", memories="macro", clock_gates=True)
    assert named_chip(name) == (replace(CONFIGS["ecp5-45"], ub_rows=4096), build)
    with pytest.raises(ValueError, match=r"^target: no such field of a configuration"):
        named_chip("4x4,target=ecp5")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("5x5,ub_rows=64", "^5x5: no such configuration; choose from 4x4, "),
        ("4x4,ub_rows", "^'ub_rows' must be FIELD=VALUE; fields are ub_rows, ub_banks, "),
        ("4x4,array_size=8", "^array_size: no such field of a configuration"),
        ("4x4,size=8", "^size: no such field of a configuration; choose from ub_rows, ub_banks, "),
        ("4x4,", "^'' must be FIELD=VALUE"),
        ("4x4,clock_gates=1", "^clock_gates is an option of tpulite verilog: --clock-gates$"),
        ("4x4,vector_pairs=0", "^vector_pairs: no such field of a configuration"),
        ("4x4,ub_rows=many", "^ub_rows must be an integer, not 'many'$"),
        ("4x4,ub_rows=64,ub_rows=128", "^ub_rows of configuration '.*' is given twice$"),
        ("4x4,vector_lanes=3", "^vector_lanes must divide array_size 4, not 3$"),
    ],
)
def test_impossible_sizes_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        named_config(name)
