"""Configurations with a name, for command lines and the Makefile."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.near import changes_of, no_such

_on_ecp5 = partial(Config, ub_banks=4, queue_depth=1)

CONFIGS: dict[str, Config] = {
    "4x4": Config(array_size=4),
    "8x8": Config(array_size=8),
    "16x16": Config(array_size=16),
    "32x32": Config(array_size=32),
    # The largest array that is placed and routed on each part of Lattice's ECP5 family, with all
    # roundings. The smaller parts have few lanes and queues of one command.
    "ecp5-25": _on_ecp5(array_size=4, requant_lanes=1, vector_lanes=1),
    "ecp5-45": _on_ecp5(array_size=8, requant_lanes=2, vector_lanes=2),
    "ecp5-85": _on_ecp5(array_size=8, queue_depth=2),
}

BUILDS = {
    # Fetched commands in block RAM; the -45 has too few DSP blocks for all columns.
    "ecp5-25": Build(memories="block"),
    "ecp5-45": Build(memories="block", multipliers="mostly_dsp"),
    "ecp5-85": Build(memories="block"),
}
"""How the chips of configurations are written that are not written as by default."""

CONFIG_PARTS = {f"ecp5-{size}": f"LFE5U-{size}" for size in (25, 45, 85)}
"""The part that a configuration is made for, one of ``tpulite.parts.PARTS``."""

_LARGEST_PART = "LFE5U-85"

_ALIASES = {"ecp5": "ecp5-85"}  # its name while there was one


def part_for(name: str) -> str:
    """Return the part for a name that `named_config` takes, the largest if it is made for none.

    Sizes that differ do not change it.
    """
    first = name.partition(",")[0]
    return CONFIG_PARTS.get(_ALIASES.get(first, first), _LARGEST_PART)


def machines_with(rounding: str, like: Config) -> list[str]:
    """Return the names of configurations with a rounding, those with as large an array if any."""
    found = [name for name, config in CONFIGS.items() if rounding in config.roundings]
    return [n for n in found if CONFIGS[n].array_size == like.array_size] or found


def named_config(name: str) -> Config:
    """Return a configuration by name, perhaps with other sizes: ``16x16,ub_rows=4096``.

    Parameters
    ----------
    name : str
        A name, then any number of ``,FIELD=VALUE`` with fields of Config; several roundings are
        joined by ``+``.

    Raises
    ------
    ValueError
        If there is no such name or field, or a value is impossible.

    Examples
    --------
    >>> named_config("8x8").array_size
    8
    >>> named_config("16x16,ub_rows=4096,dma_bursts=2").ub_bytes
    65536
    """
    first, values = _read_name(name, _SIZES)
    return replace(CONFIGS[first], **values) if values else CONFIGS[first]


def named_chip(name: str) -> tuple[Config, Build]:
    """Return a configuration, and how its chip is written: ``4x4,ub_rows=4096,multipliers=logic``.

    Parameters
    ----------
    name : str
        As for `named_config`, with fields of Build besides.

    Raises
    ------
    ValueError
        If there is no such name or field, or a value is impossible.
    """
    first, values = _read_name(name, _SIZES + _BUILD_FIELDS)
    build = {field: values.pop(field) for field in _BUILD_FIELDS if field in values}
    return replace(CONFIGS[first], **values), replace(BUILDS.get(first, Build()), **build)


def read_field(field: str, text: str) -> Any:
    """Return a value of a field that somebody has typed; several roundings have a ``+``.

    Raises
    ------
    ValueError
        If it is no number and should be one. Whether a machine has it, Config checks.
    """
    if field == "roundings":
        return tuple(text.split("+"))
    if field in ("multipliers", "memories"):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{field} must be an integer, not {text!r}") from error


def _read_name(name: str, known: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the name in CONFIGS and the values of changed fields; ValueError if one is unknown."""
    for field in _BUILD_FIELDS:
        if field not in known and f",{field}=" in name:
            option = field.replace("_", "-")
            raise ValueError(f"{field} is an option of tpulite verilog: --{option}")
    first, changes = changes_of("configuration", name, known)
    first = _ALIASES.get(first, first)
    if first not in CONFIGS:
        raise ValueError(no_such("configuration", first, CONFIGS))
    return first, {field: read_field(field, text) for field, text in changes.items()}


_SIZES = [field.name for field in fields(Config) if field.name != "array_size"]  # the name says it
_BUILD_FIELDS = ["multipliers", "memories", "clock_gates"]
"""Fields of Build that may follow a name: the target is another matter."""
