"""Options for what a file leaves open: ``--shape``, ``--dim`` and ``--set``."""

import math
from collections.abc import Mapping
from typing import Any

import click

from tpulite.cli.help import Topic, option
from tpulite.frontend.given_shapes import GivenShapes


class _Extents(click.ParamType):
    """``NAME=EXTENTS``: a name, and so many extents with an x between them."""

    name = "name=extents"

    def __init__(self, example: str, several: bool) -> None:
        self.example = example
        self.several = several

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, text = str(value).rpartition("=")
        parts = text.split("x") if self.several else [text]
        if not name or not all(part.isascii() and part.isdigit() for part in parts):
            self.fail(f"{value!r} must be like {self.example}", param, ctx)
        return name, tuple(map(int, parts))


shape_option = option(
    "--shape",
    "shapes",
    group=Topic.NETWORK,
    type=_Extents("x=1x3x64x64", several=True),
    multiple=True,
    metavar="INPUT=1x3x64x64",
    help="Shape of an input with open dimensions.",
)


class _Number(click.ParamType):
    """``NAME=NUMBER``."""

    name = "name=number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        name, _, text = str(value).rpartition("=")
        try:
            number = float(text)
        except ValueError:
            name, number = "", 0.0
        if not name or math.isnan(number):
            self.fail(f"{value!r} must be like sr=16000", param, ctx)
        return name, number


set_option = option(
    "--set",
    "values",
    group=Topic.NETWORK,
    type=_Number(),
    multiple=True,
    metavar="INPUT=NUMBER",
    help="Make an input of an ONNX file a constant, which may decide branches (If).",
)

dim_option = option(
    "--dim",
    "dims",
    group=Topic.NETWORK,
    type=_Extents("sequence=128", several=False),
    multiple=True,
    metavar="NAME=128",
    help="Value of a named dimension of an ONNX file.",
)


def given_shapes(
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dims: tuple[tuple[str, tuple[int, ...]], ...],
    values: tuple[tuple[str, float], ...] = (),
) -> GivenShapes:
    """Return what was given by the options; UsageError if something is given twice."""
    by_name: list[Mapping[str, tuple[int, ...]]] = []
    for flag, pairs in (("--shape", shapes), ("--dim", dims)):
        found: dict[str, tuple[int, ...]] = {}
        for name, extents in pairs:
            if found.setdefault(name, extents) != extents:
                raise click.UsageError(f"{flag} {name} is given twice, with different values.")
        by_name.append(found)
    numbers: dict[str, float] = {}
    for name, number in values:
        if numbers.setdefault(name, number) != number:
            raise click.UsageError(f"--set {name} is given twice, with different values.")
    sizes = {name: extent for name, (extent,) in by_name[1].items()}
    return GivenShapes(by_name[0], sizes, numbers)
