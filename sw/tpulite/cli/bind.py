"""The command ``bind``: from a network's file to programs for shapes of a range."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from tpulite.atomic import write_whole
from tpulite.cli.bind_program import range_program
from tpulite.cli.bind_shapes import asked_shape
from tpulite.cli.info import summary
from tpulite.cli.paths import NETWORK, PATH
from tpulite.cli.reading import Reading, plan_options
from tpulite.compiler.bind import RangeProgram
from tpulite.frontend.files import network_name
from tpulite.frontend.padding import pad_same
from tpulite.graph.layers import Conv, Depthwise, Pool

__all__ = ["bind_file", "padding_notes"]


@click.command("bind")
@click.argument("network", type=NETWORK)
@click.argument("asked", nargs=-1, required=True, metavar="BATCHxHEIGHTxWIDTH...")
@click.option(
    "--shapes", "limits", metavar="RANGE", help="Like batch=1..8,height=96..224,width=96..224."
)
@click.option("-o", "--output", type=PATH, default=Path(), help="Folder for the programs.")
@plan_options
def bind_file(
    network: Path,
    asked: tuple[str, ...],
    limits: str | None,
    output: Path,
    reading: Reading,
) -> None:
    """Compile a network once for a range of shapes, and bind it to some: 1x96x96 4x192x160.

    Without a range it is compiled for all extents between the least and the most that are bound.
    If the host has to compute some of it, the machine's largest part is bound. Padding is that of
    the file, in numbers; a note says where SAME would differ.
    """
    shapes = [asked_shape(text) for text in asked]
    program = range_program(network, reading, limits, shapes)
    for shape in shapes:
        for note in padding_notes(program, shape.height, shape.width):
            click.echo(f"tpulite: note: {note}", err=True)
        start = time.perf_counter()
        bound = program.bind(shape.height, shape.width, batch=shape.batch, channels=shape.channels)
        taken = time.perf_counter() - start
        path = output / f"{network_name(network)}_{shape}.tpu"
        write_whole(path, bound.save)
        click.echo(f"{path}: {summary(bound)}, bound in {1e3 * taken:.1f} ms")


def padding_notes(program: RangeProgram, height: int, width: int) -> Iterator[str]:
    """Yield where SAME would pad a shape in another way than the file, whose numbers hold.

    A file's reader has made numbers of SAME. With strides they depend on the extents.
    """
    network = program.network
    extents = network.extents(height, width)
    for node in network.nodes:
        layer, name = node.layer, node.inputs[0]
        before = network.layers.activations[name].shape[:2]
        match layer:
            case Conv() | Depthwise():
                kernel, dilation = layer.weight.shape[:2], layer.dilation
            case Pool() if layer.window != before:
                kernel, dilation = layer.window, (1, 1)
            case _:
                continue
        sizes = (height, width) if name in network.packed else extents[name]
        for i, what in enumerate(("height", "width")):
            padding = layer.padding[i], layer.padding[i + 2]
            then, now = (
                pad_same(size, kernel[i], layer.stride[i], dilation[i])
                for size in (before[i], sizes[i])
            )
            if padding == then != now:
                yield (
                    f"{layer.title} pads its {what} by {padding}, as in the file; if that is SAME "
                    f"of {before[i]}, SAME of {sizes[i]} is {now}"
                )
