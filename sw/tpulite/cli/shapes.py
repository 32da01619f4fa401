"""Options for what a file leaves open: ``--shape``, ``--dim`` and ``--set``."""

import math
from collections.abc import Sequence
from typing import TypeVar

import click

from tpulite.cli.help import Parsed, Topic, option
from tpulite.frontend.given_shapes import GivenShapes

T = TypeVar("T")


def _extents(text: str) -> tuple[str, tuple[int, ...]]:
    """Read a name and extents, INPUT=1x3x64x64."""
    name, _, extents = text.rpartition("=")
    parts = extents.split("x")
    if not name or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} must be like x=1x3x64x64")
    return name, tuple(map(int, parts))


def _extent(text: str) -> tuple[str, int]:
    """Read a name and an extent, NAME=128."""
    name, _, extent = text.rpartition("=")
    if not name or not (extent.isascii() and extent.isdigit()):
        raise ValueError(f"{text!r} must be like sequence=128")
    return name, int(extent)


def _number(text: str) -> tuple[str, float]:
    """Read a name and a number, INPUT=16000."""
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name or math.isnan(value):
        raise ValueError(f"{text!r} must be like sr=16000")
    return name, value


shape_option = option(
    "--shape",
    "shapes",
    group=Topic.NETWORK,
    type=Parsed("name=extents", _extents),
    multiple=True,
    metavar="INPUT=1x3x64x64",
    help="Shape of an input with open dimensions.",
)


set_option = option(
    "--set",
    "values",
    group=Topic.NETWORK,
    type=Parsed("name=number", _number),
    multiple=True,
    metavar="INPUT=NUMBER",
    help="Make an input of an ONNX file a constant, which may decide branches (If).",
)

dim_option = option(
    "--dim",
    "dims",
    group=Topic.NETWORK,
    type=Parsed("name=extents", _extent),
    multiple=True,
    metavar="NAME=128",
    help="Value of a named dimension of an ONNX file.",
)


def given_shapes(
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    dims: Sequence[tuple[str, int]],
    values: Sequence[tuple[str, float]] = (),
) -> GivenShapes:
    """Return what was given by the options; UsageError if something is given twice."""
    return GivenShapes(_once("--shape", shapes), _once("--dim", dims), _once("--set", values))


def _once(flag: str, pairs: Sequence[tuple[str, T]]) -> dict[str, T]:
    """Return values by name; UsageError if one is given twice, with different values."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise click.UsageError(f"{flag} {name} is given twice, with different values.")
    return found
