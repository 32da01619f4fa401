"""The command ``bind``: from a network's file to programs for shapes of a range."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from tpulite.atomic import write_whole
from tpulite.cli.info import summary
from tpulite.cli.paths import NETWORK, PATH
from tpulite.cli.reading import Reading, plan_options
from tpulite.compiler.bind import RangeProgram, ShapeRange, compile_range
from tpulite.frontend.files import network_name
from tpulite.frontend.padding import pad_same
from tpulite.graph.layers import Conv, Depthwise, LayerGraph, Pool
from tpulite.runtime.model import Model

__all__ = ["bind_file", "padding_notes"]

_EXTENTS = ("batch", "height", "width")


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
    wanted = [_shape(text) for text in asked]
    model = reading.model(network)
    layers = _largest_part(model)
    program = compile_range(layers, _limits(limits, wanted), model.config)
    for batch, height, width in wanted:
        for note in padding_notes(program, height, width):
            click.echo(f"tpulite: note: {note}", err=True)
        start = time.perf_counter()
        bound = program.bind(height, width, batch=batch)
        taken = time.perf_counter() - start
        path = output / f"{network_name(network)}_{batch}x{height}x{width}.tpu"
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


def _largest_part(model: Model) -> LayerGraph:
    """Return the part of the machine with the most multiplications."""
    if not model.layers:
        raise ValueError(f"{model.graph.name!r} has nothing that the machine computes")
    return max(model.layers, key=lambda layers: sum(layers.macs().values()))


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split("x")
    if len(parts) != len(_EXTENTS) or not all(part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is no shape: it must be BATCHxHEIGHTxWIDTH, like 1x96x96")
    batch, height, width = map(int, parts)
    return batch, height, width


def _limits(text: str | None, wanted: list[tuple[int, int, int]]) -> ShapeRange:
    """Read a range; extents that it does not name go from the least to the most wanted."""
    limits = {
        name: (min(values), max(values))
        for name, values in zip(_EXTENTS, zip(*wanted, strict=True), strict=True)
    }
    for part in text.split(",") if text else ():
        name, _, values = part.partition("=")
        low, dots, high = values.partition("..")
        if name not in _EXTENTS or not low.isdigit() or not (high or low).isdigit():
            raise ValueError(f"{part!r} is no range: it must be like height=96..224")
        limits[name] = int(low), int(high if dots else low)
    return ShapeRange(**limits)
