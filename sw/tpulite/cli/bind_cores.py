"""Shapes split among several cores, for ``bind --cores``."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.bind_shapes import AskedShape
from tpulite.compiler.bind import RangeProgram, bind_cores
from tpulite.report.cores import CoresReport

__all__ = ["cores_option", "save_cores"]

cores_option = click.option(
    "--cores",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Split each shape among so many chips, by images and blocks of channels.",
)


def save_cores(
    program: RangeProgram, asked: AskedShape, cores: int, path: Path, console: Console
) -> dict[str, Any]:
    """Write a program for each core, print which part it computes, and return that for JSON.

    Parameters
    ----------
    program : RangeProgram
        The network.
    asked : AskedShape
        A shape of its range.
    cores : int
        How many cores there are.
    path : Path
        What the program of one core would be called; ``_core0`` and so on is added to its name.
    console : Console
        Where to print.
    """
    extents = {"batch": asked.batch, "channels": asked.channels}
    alone = program.bind(asked.height, asked.width, **extents)
    parts = bind_cores(program, program.shape(asked.height, asked.width, **extents), cores)
    if len(parts) < cores:
        several = len(program.layers.layers) > 1
        blocks = "" if several else " and blocks of channels"
        click.echo(
            f"tpulite: note: {asked} is work for {len(parts)} of {cores} cores: it is split by "
            f"images{blocks}, and has no more of them",
            err=True,
        )
    paths = [path.with_stem(f"{path.stem}_core{number}") for number in range(len(parts))]
    report = CoresReport(parts, alone, [str(each) for each in paths])
    for part, each in zip(parts, paths, strict=True):
        write_whole(each, part.program.save)
    console.print(report.line(), highlight=False, soft_wrap=True)
    console.print(report.table())
    return report.as_dict()
