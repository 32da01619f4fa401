"""``bind --explain``: which strategy where."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.bind_shapes import AskedShape
from tpulite.cli.common import is_stdout, save_json
from tpulite.compiler.bind import RangeProgram, Shape
from tpulite.report.strategy_map import StrategyMap, draw_maps
from tpulite.report.strategy_svg import make_svg
from tpulite.report.strategy_text import candidates_table, legend_table, map_lines

__all__ = ["Explaining", "explain_range"]


@dataclass(frozen=True)
class Explaining:
    """What was chosen of ``--explain``, ``--layer`` and ``--svg``.

    Parameters
    ----------
    on : bool
        Whether to explain instead of writing programs.
    layer : str, optional
        The layer; by default the most costly one.
    svg : Path, optional
        Where the picture goes.

    Raises
    ------
    UsageError
        If there is nothing to explain.
    """

    on: bool
    layer: str | None
    svg: Path | None

    def __post_init__(self) -> None:
        for option, value in (("--layer", self.layer), ("--svg", self.svg)):
            if value is not None and not self.on:
                raise click.UsageError(f"{option} needs --explain.")


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
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(legend_table(strategies))
    if strategies.points:
        console.print()
        console.print(candidates_table(strategies))
