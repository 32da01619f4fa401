from dataclasses import replace

import pytest

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.configs import CONFIGS, named_chip
from tpulite.explore.area import area
from tpulite.explore.families import FAMILIES, family_area, measured_mhz
from tpulite.parts import FAMILY_PARTS, FAMILY_SIZES, SIZES


def test_sizes_are_those_of_the_configurations_as_they_are():
    """When this fails: scripts/families.py NAME."""
    for (_, name), size in FAMILY_SIZES.items():
        assert size.hash == f"{CONFIGS[name].hash:#010x}", name
    assert {family for family, _ in FAMILY_SIZES} <= set(FAMILY_PARTS)


@pytest.mark.parametrize(("family", "name"), FAMILY_SIZES)
def test_estimates_are_near_to_what_synthesis_says(family, name):
    found, estimate = FAMILY_SIZES[family, name], family_area(*named_chip(name), family)
    for what in ("lut", "ff", "bram"):
        assert getattr(estimate, what) == pytest.approx(getattr(found, what), rel=0.25), what
    assert estimate.dsp == found.dsp


def test_every_other_column_in_logic_saves_multipliers():
    parts = {
        build: family_area(*named_chip(f"16x16,multipliers={build}"), "7-series")
        for build in ("dsp", "half_dsp")
    }
    assert parts["dsp"].dsp == 256 + 16 * (4 + 2) + 4
    assert parts["half_dsp"].dsp == 128 + 16 * (3 + 2) + 3 <= 224


def test_of_an_ecp5_the_area_is_its_model():
    assert family_area(Config(), Build(), FAMILIES[0]) == area(Config(), Build())


def test_a_clock_is_that_of_what_was_routed():
    for name, size in SIZES.items():
        assert measured_mhz(*named_chip(name), "ECP5") == size.fmax_mhz
        assert measured_mhz(*named_chip(name), "7-series") is None
    config, build = named_chip("ecp5-25")
    assert measured_mhz(replace(config, ub_rows=512), build, "ECP5") is None
    assert measured_mhz(config, Build(), "ECP5") is None
