"""How large a machine is on parts of other families: the estimate for an ECP5, times what differs.

Multipliers follow from the configuration. For the rest, a square machine of the table of measured
sizes says how many times an ECP5's a family takes: the one whose array is nearest in size.
"""

import math

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.configs import CONFIG_PARTS, named_chip
from tpulite.explore.area import area
from tpulite.parts import FAMILY_SIZES, SIZES, Part

_ECP5 = "ECP5"

FAMILIES = (_ECP5, *dict.fromkeys(family for family, _ in FAMILY_SIZES))
"""Families of which sizes were measured."""

_EACH_LANE = {"7-series": (2, 4), "GW5A": (3, 9)}
"""Multipliers of an elementwise lane; of a requantizer lane, and of the divider of softmax."""


def family_area(config: Config, build: Build, family: str) -> Part:
    """Estimate what a machine takes of a family's parts.

    Parameters
    ----------
    build : Build
        How it is written, but for its target.
    family : str
        One of :data:`FAMILIES`.
    """
    here = area(config, build)
    if family == _ECP5:
        return here
    known = [name for of, name in FAMILY_SIZES if of == family and name not in CONFIG_PARTS]
    nearest = min(known, key=lambda name: _distance(name, config))
    there, like = FAMILY_SIZES[family, nearest], area(*named_chip(nearest))
    lut, ff, bram = (
        round(getattr(here, what) * getattr(there, what) / getattr(like, what))
        for what in ("lut", "ff", "bram")
    )
    return Part(lut, ff, _multipliers(config, build, family), bram)


def measured_mhz(config: Config, build: Build, family: str) -> float | None:
    """Return the clock of a machine that was placed and routed, its slowest seed; else None."""
    if family != _ECP5:
        return None
    digest = f"{config.hash:#010x}"
    for name, size in SIZES.items():
        if size.hash == digest and named_chip(name)[1] == build:
            return size.fmax_mhz
    return None


def _distance(name: str, config: Config) -> float:
    return abs(math.log2(named_chip(name)[0].array_size / config.array_size))


def _multipliers(config: Config, build: Build, family: str) -> int:
    elementwise, wide = _EACH_LANE[family]
    styles = [build.column_style(column) for column in range(config.array_size)]
    elements = config.array_size * styles.count("dsp")
    if build.lane_style == "logic":
        return elements
    if family == "7-series" and build.saves_multipliers:
        wide -= 1
    vector_lanes = config.array_size // config.vector_cycles
    lanes = elementwise * vector_lanes + wide * (config.lanes + config.has_softmax)
    return elements + lanes
