"""``bind --explain``: which strategy where."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.bind_shapes import AskedShape
from tpulite.cli.common import is_stdout, save_json, say
from tpulite.cli.reading import Reading
from tpulite.compiler.bind import RangeProgram, Shape
from tpulite.frontend.files import load_image_inputs
from tpulite.report.strategy_map import StrategyMap, draw_maps
from tpulite.report.strategy_svg import make_svg
from tpulite.report.strategy_text import candidates_table, legend_table, map_lines, strategy_words

_OPEN = 8, 256
"""Heights and widths of a grid where the file leaves them open, and nobody says a range."""

_BATCHES = 1, 16
"""Batches of a grid of a network without heights and widths."""


@dataclass(frozen=True)
class Explaining:
    """What was chosen of ``--explain``, ``--layer`` and ``--svg``.

    UsageError if there is nothing to explain.
    """

    on: bool  #: Whether to explain instead of writing programs.
    layer: str | None  #: The layer; by default the most costly one.
    svg: Path | None  #: Where the picture goes.

    def __post_init__(self) -> None:
        for option, value in (("--layer", self.layer), ("--svg", self.svg)):
            if value is not None and not self.on:
                raise click.UsageError(f"{option} needs --explain.")


def grid_range(network: Path, reading: Reading, points: Sequence[AskedShape]) -> str | None:
    """Return the range of a grid that nobody named, and say it; None if points make one.

    Heights and widths go from those of the file to twice as many. Where the file leaves them
    open, they go from 8 to 256, and the others stay. Without any it is the batch that varies. A
    point that is marked is always within.
    """
    if len(set(points)) > 1:
        return None
    inputs = [*load_image_inputs(network).values()]
    image = next((each for each in inputs if each.ranged), inputs[0] if inputs else None)
    known = image.known(reading.shapes.dims) if image else {}
    limits: dict[str, tuple[int, int]]
    limits = {axis: _OPEN for axis in ("height", "width") if image and axis not in known}
    if image and not limits:
        limits = {axis: (known[axis], 2 * known[axis]) for axis in ("height", "width")}
    if all(high <= 2 for _, high in limits.values()):
        limits = {"batch": _BATCHES}
    for point in points:
        for axis, (low, high) in limits.items():
            extent = getattr(point, axis)
            limits[axis] = min(low, extent), max(high, extent)
    text = ",".join(f"{axis}={low}..{high}" for axis, (low, high) in limits.items())
    click.echo(
        f"tpulite: note: the grid is --shapes {text}; give --shapes for another one", err=True
    )
    return text


def explain_range(
    program: RangeProgram,
    shapes: Sequence[AskedShape],
    how: Explaining,
    json_path: Path | None,
) -> None:
    """Print which strategy is taken where in a range, and what was compared at some shapes."""
    assert program.shapes.channels is not None
    most = program.shapes.channels[1]
    points = [Shape(x.batch, x.height, x.width, x.channels or most) for x in shapes]
    maps = draw_maps(program, points, how.layer)
    if how.svg is not None:
        write = partial(Path.write_text, data=make_svg(maps), encoding="utf-8")
        write_whole(how.svg, write)
    save_json(json_path, [each.as_dict() for each in maps])
    console = Console(quiet=is_stdout(json_path))
    for each in maps:
        _print(console, each)


def _print(console: Console, strategies: StrategyMap) -> None:
    for line in map_lines(strategies):
        say(console, line)
    console.print()
    console.print(legend_table(strategies))
    if strategies.points:
        console.print()
        console.print(candidates_table(strategies))
    compared = (each.name for _, plan in strategies.points for each in plan.candidates)
    for line in strategy_words((*strategies.counts, *compared)):
        console.print(line, highlight=False)
