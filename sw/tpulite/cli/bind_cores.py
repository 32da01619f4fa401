"""Shapes split among several cores, for ``bind --cores``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.bind_shapes import AskedShape
from tpulite.cli.common import say
from tpulite.cli.help import Topic, option
from tpulite.compiler.bind import RangeProgram, bind_cores
from tpulite.report.cores import CoresReport

cores_option = option(
    "--cores",
    group=Topic.MACHINE,
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of chips to split each shape among, by images and channel blocks.",
)


@dataclass(frozen=True)
class Split:
    """A shape's programs, not yet written."""

    report: CoresReport  #: The programs, and what they are called.
    note: str | None  #: Why there are fewer of them than cores.

    def save(self, console: Console) -> dict[str, Any]:
        """Write a program for each core, print which part it computes, and return that for JSON."""
        report = self.report
        if self.note is not None:
            click.echo(f"tpulite: note: {self.note}", err=True)
        for part, name in zip(report.cores, report.names, strict=True):
            write_whole(Path(name), part.program.save)
        say(console, report.line())
        console.print(report.table())
        return report.as_dict()


def split(program: RangeProgram, asked: AskedShape, path: Path, cores: int) -> Split:
    """Bind a program for each core.

    Parameters
    ----------
    asked : AskedShape
        A shape of its range.
    path : Path
        What the program of one core would be called; ``_core0`` and so on is added to its name.
    """
    extents = {"batch": asked.batch, "channels": asked.channels}
    alone = program.bind(asked.height, asked.width, **extents)
    parts = bind_cores(program, program.shape(asked.height, asked.width, **extents), cores)
    paths = [path.with_stem(f"{path.stem}_core{number}") for number in range(len(parts))]
    report = CoresReport(parts, alone, [str(each) for each in paths])
    if len(parts) == cores:
        return Split(report, None)
    blocks = "" if len(program.layers.layers) > 1 else " or channel blocks"
    note = f"{asked} uses {len(parts)} of {cores} cores: it has no more images{blocks} to split"
    return Split(report, note)
