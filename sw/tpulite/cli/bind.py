"""The command ``bind``: from a network's file to programs for shapes of a range."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.bind_explain import Explaining, explain_range, grid_range
from tpulite.cli.bind_program import range_program
from tpulite.cli.bind_shapes import AskedShape, asked_shape
from tpulite.cli.common import is_stdout, json_option, save_json, say
from tpulite.cli.help import Topic, command, option
from tpulite.cli.paths import FOLDER, NETWORK, OUTPUT
from tpulite.cli.reading import Reading, plan_options
from tpulite.compiler.bind import RangeProgram, bind_cores
from tpulite.frontend.files import network_name
from tpulite.frontend.padding import pad_same
from tpulite.report.bound import COLUMNS, BoundReport, CoresReport
from tpulite.report.compilation import summary
from tpulite.report.strategy_text import strategy_words

cores_option = option(
    "--cores",
    group=Topic.MACHINE,
    type=click.IntRange(min=1),
    default=1,
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


@command("bind", first=("--shapes", "--output", "--config", "--explain", "--svg", "--json"))
@click.argument("network", type=NETWORK)
@click.argument("asked", nargs=-1, metavar="NxHxW[xC]...")
@option(
    "--shapes",
    "limits",
    group=Topic.NETWORK,
    metavar="RANGE",
    help="Range to compile for, like batch=1..8,height=96..224,width=0..96,channels=16.",
)
@option(
    "-o",
    "--output",
    group=Topic.OUTPUT,
    type=FOLDER,
    default=Path(),
    show_default=False,
    help="Folder for the programs.",
)
@cores_option
@option(
    "--explain",
    group=Topic.OUTPUT,
    is_flag=True,
    help="Show which strategy is chosen where; write no programs.",
)
@option(
    "--layer", group=Topic.OUTPUT, metavar="NAME", help="Layer to explain.  [default: the slowest]"
)
@option("--svg", group=Topic.OUTPUT, type=OUTPUT, help="Write the chart of --explain to this file.")
@plan_options
@json_option
def bind_file(  # noqa: PLR0913 - options of the command
    network: Path,
    asked: tuple[str, ...],
    limits: str | None,
    output: Path,
    cores: int,
    explain: bool,
    layer: str | None,
    svg: Path | None,
    reading: Reading,
    json_path: Path | None,
) -> None:
    """Compile a network once for a range of shapes, and bind it to some: 1x96x96 4x192x160.

    A shape is BATCHxHEIGHTxWIDTH. A network of one layer that computes each channel separately
    (depthwise, pooling) also takes BATCHxHEIGHTxWIDTHxCHANNELS. An extent may be 0: such a program
    does nothing.

    The default range spans the smallest and the largest shape given. If part of the network runs
    on the CPU, the largest part on the machine is bound. Padding keeps the file's amounts; a note
    says where SAME would differ. For each program a table shows the strategy of each layer, its
    tiles, the buffer rows that the tiles use in turn, and its cycles. --cores writes one program
    per core, and shows how the work is split.

    --explain evaluates the strategy selector on a grid of shapes, and prints which strategy it
    chooses where; for the shapes given, all strategies that it compared.
    """
    how = Explaining(explain, layer, svg)
    if not asked and not explain:
        raise click.UsageError("NxHxW[xC]... is missing: give the shapes to bind, like 1x96x96")
    if explain and cores > 1:
        raise click.UsageError("--cores cannot be used with --explain.")
    shapes = [asked_shape(text) for text in asked]
    if explain and limits is None:
        limits = grid_range(network, reading, shapes)
    program = range_program(network, reading, limits, shapes)
    if how.on:
        explain_range(program, shapes, how, json_path)
        return
    paths = [output / f"{network_name(network)}_{shape}.tpu" for shape in shapes]
    bind = partial(split, cores=cores) if cores > 1 else _bind
    bound = [bind(program, *each) for each in zip(shapes, paths, strict=True)]
    output.mkdir(exist_ok=True)
    console, records = Console(quiet=is_stdout(json_path)), []
    for shape, each in zip(shapes, bound, strict=True):
        for note in padding_notes(program, shape.height, shape.width):
            click.echo(f"tpulite: note: {note}", err=True)
        records.append(each.save(console))
    if cores == 1:
        names = (layer["strategy"] for each in records for layer in each["layers"])
        for line in (*COLUMNS, *strategy_words(names)):
            console.print(line, highlight=False)
    save_json(json_path, records)


@dataclass(frozen=True)
class _Bound:
    """A program, not yet written."""

    path: Path
    report: BoundReport
    milliseconds: float

    def save(self, console: Console) -> dict[str, Any]:
        """Write it, print what it is, and return that for JSON."""
        path, report = self.path, self.report
        write_whole(path, report.program.save)
        say(console, f"{path}: {summary(report.program)}")
        say(console, report.heading)
        console.print(report.table())
        return {"program": str(path), "milliseconds": self.milliseconds, **report.as_dict()}


def _bind(program: RangeProgram, shape: AskedShape, path: Path) -> _Bound:
    """Bind a program, and say how many milliseconds that takes, if stderr is a terminal."""
    extents = (shape.height, shape.width), {"batch": shape.batch, "channels": shape.channels}
    start = time.perf_counter()
    bound = program.bind(*extents[0], **extents[1])
    milliseconds = 1e3 * (time.perf_counter() - start)
    if sys.stderr.isatty():
        click.echo(f"{path}: bound in {milliseconds:.1f} ms", err=True)
    return _Bound(path, BoundReport(bound, program.plan(*extents[0], **extents[1])), milliseconds)


def padding_notes(program: RangeProgram, height: int, width: int) -> Iterator[str]:
    """Yield where SAME would pad a shape in another way than the file, whose numbers hold.

    A file's reader has made numbers of SAME. With strides they depend on the extents.
    """
    if not height or not width:
        return
    network = program.network
    extents = network.extents(height, width)
    for node in network.nodes:
        layer, name = node.layer, node.inputs[0]
        before = network.layers.activations[name].shape[:2]
        windows = layer.windows
        if windows is None or (layer.weights is None and windows.kernel == before):
            continue
        sizes = (height, width) if name in network.packed else extents[name]
        for i, what in enumerate(("height", "width")):
            padding = windows.padding[i], windows.padding[i + 2]
            then, now = (
                pad_same(size, windows.kernel[i], windows.stride[i], windows.dilation[i])
                for size in (before[i], sizes[i])
            )
            if padding == then != now:
                yield (
                    f"{layer.title} pads its {what} by {padding}, as in the file; if that is SAME "
                    f"padding for {before[i]}, SAME for {sizes[i]} is {now}"
                )
