"""From a network's file to a program for a range of shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from tpulite.cli.bind_shapes import AskedShape, asked_range, named_extents
from tpulite.cli.reading import Reading
from tpulite.compiler.bind import RangeProgram, ShapeRange, compile_range
from tpulite.compiler.bind.network import Network, Node
from tpulite.counted import first_of
from tpulite.frontend.files import load_image_inputs
from tpulite.frontend.given_shapes import FileInput, GivenShapes, shape_text
from tpulite.graph.graph import Graph
from tpulite.graph.layers import LayerGraph, Pool
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.model import Model

_IMAGE = ("height", "width")

"""Layers that compute each position alike, whatever the extents are."""

_SOME = 64
"""At which height and width a file is read of which only empty shapes are bound."""


def range_program(
    network: Path, reading: Reading, limits: str | None, shapes: Sequence[AskedShape]
) -> RangeProgram:
    """Compile a network's largest part on the machine for a range of shapes; note what is left out.

    Extents that the file leaves open are those that are asked for. Where it leaves open a height
    or a width, the other one, if it is fixed, stays so, unless ``limits`` names it. Extents of a
    file that fixes both can be any, but for those that it reduces: windows slide as far as there
    is an activation.

    Parameters
    ----------
    limits : str, optional
        The range, as it was typed; extents that it does not name go from the least to the most of
        ``shapes``.
    shapes : sequence of AskedShape
        What is to be bound; if nothing is yet, the shape of the file.

    Raises
    ------
    ValueError
        If it cannot be read or compiled; or if the file, at one of the shapes, is not the same
        network as at the first of them but for its extents; or if it fixes extents over which it
        reduces, and a shape has others.
    """
    inputs = load_image_inputs(network)
    ranged = {name: each for name, each in inputs.items() if each.ranged}
    named = named_extents(limits)
    first = next(iter(ranged.values()), None)
    if first is not None:
        _check_fixed(first, named, shapes)
    largest = max(shapes, key=lambda shape: shape.height * shape.width, default=None)
    try:
        at = _at(ranged, reading, named, largest)
    except ValueError as error:
        raise ValueError(f"{network}: {error}") from error
    model = at.model(network)
    layers = _largest_part(model)
    _note_left_out(network, model, layers)
    height, width, channels = layers.activations[layers.inputs[0]].shape
    if first is not None:
        channels = first.known(reading.shapes.dims).get("channels", channels)
    asked = shapes or [AskedShape(1, height, width)]
    program = compile_range(layers, asked_range(limits, asked, channels), model.config)
    if all(layer.in_place for layer in layers.layers):
        return program
    for shape in shapes:
        other = _at(ranged, reading, named, shape)
        if not shape.height or not shape.width:
            continue
        if other != at:
            _check_same(program, layers, _largest_part(other.model(network)), shape)
        else:
            check_reductions(program, model.graph, inputs, shape)
    if len(layers.layers) == 1:  # C binds it to all of the range
        for shape in _ends(program.shapes):
            check_reductions(program, model.graph, inputs, shape)
    return program


def _ends(shapes: ShapeRange) -> list[AskedShape]:
    """Return the least and the most of a range, but for empty ones."""
    filled = shapes.filled
    if filled is None:
        return []
    return [AskedShape(filled.batch[0], filled.height[i], filled.width[i]) for i in (0, 1)]


def _check_fixed(
    image: FileInput, named: Mapping[str, tuple[int, int]], shapes: Sequence[AskedShape]
) -> None:
    """Check that shapes have the extents that a file fixes, which leaves open others."""
    known = image.known({})
    for shape in shapes:
        for axis in _IMAGE:
            asked, fixed = getattr(shape, axis), known.get(axis)
            if axis not in named and fixed is not None and asked != fixed:
                raise ValueError(
                    f"{shape}: the file fixes its {axis} at {fixed}; "
                    f"--shapes {axis}={asked} allows another"
                )


def _at(
    inputs: Mapping[str, FileInput],
    reading: Reading,
    named: Mapping[str, tuple[int, int]],
    shape: AskedShape | None,
) -> Reading:
    """Return how a file is read for a shape: what it leaves open, and nobody says, is given."""
    said = {axis: high for axis, (_, high) in named.items() if high}
    if shape is not None:
        extents = {axis: getattr(shape, axis) for axis in (*_IMAGE, "channels")}
        said = dict.fromkeys(_IMAGE, _SOME) | said
        said |= {axis: extent for axis, extent in extents.items() if extent}
    given, found = reading.shapes, dict(reading.shapes.shapes)
    for name, image in inputs.items():
        extents = {**said, **image.known(given.dims)}
        extents["batch"] = image.known(given.dims).get("batch", 1)
        if name not in found and "height" in extents and "width" in extents:
            if "channels" not in extents:
                raise ValueError(
                    f"input {name!r} has open channels: add them to the shape, like "
                    f"{shape or '1x96x96'}x16"
                )
            found[name] = tuple(extents[axis] for axis in image.axes)
    return replace(reading, shapes=GivenShapes(found, given.dims))


def _check_same(
    program: RangeProgram, layers: LayerGraph, there: LayerGraph, shape: AskedShape
) -> None:
    """Check that what a file is at a shape is what the program computes.

    SAME padding, and windows and means over all of an activation, may depend on the extents.
    """
    extents = program.network.extents(shape.height, shape.width)
    own = {name: image.shape[:2] for name, image in there.activations.items()}
    same = len(layers.layers) == len(there.layers) and all(
        extents[name] == own.get(name)
        for name in extents
        if name in layers.activations and name not in program.network.packed
    )
    for a, b in zip(layers.layers, there.layers, strict=False):
        if not same or _facts(a) != _facts(b):
            raise ValueError(
                f"{shape}: {b.title} pads or averages differently than for the other shapes; "
                "bind this shape in a separate call"
            )


def _facts(layer: object) -> tuple[object, ...]:
    """Return what of a layer must not depend on the extents."""
    record = getattr(layer, "requantization", None)
    numbers = () if record is None else (record.multiplier, record.shift, record.bias)
    padding, stride = getattr(layer, "padding", None), getattr(layer, "stride", None)
    return type(layer), padding, stride, *map(bytes, numbers)


def _largest_part(model: Model) -> LayerGraph:
    """Return the part of the machine with the most multiplications."""
    if not model.layers:
        title = f"{model.graph.name!r} has no operator that runs on the machine"
        lines = [f"{each.operator}: {each.reason}" for each in model.summary() if each.reason]
        raise ValueError("; ".join([title, *dict.fromkeys(lines)]))
    return max(model.layers, key=lambda layers: sum(layers.macs().values()))


def _note_left_out(network: Path, model: Model, layers: LayerGraph) -> None:
    """Say which operators are not bound, but for those that are naturally the CPU's."""
    (bound,) = (x for x in model.segments if isinstance(x, MachineSegment) and x.layers is layers)
    inside = {node.name for node in bound.nodes}
    left_out = []
    for node in model.graph.nodes:
        placement = model.plan.placed.placements.get(node.name)
        if placement is None or node.name in inside or placement.engine == "none":
            continue
        if placement.engine != "host" or not (placement.natural or placement.follows):
            left_out.append(node.name)
    if left_out:
        ends = dict.fromkeys(repr(bound.nodes[i].name) for i in (0, -1))
        click.echo(
            f"tpulite: note: only {' to '.join(ends)} is bound, the largest part on the machine, "
            f"without {first_of(left_out)}: tpulite inspect {network} says why",
            err=True,
        )


_OPS = ("mean", "sum", "reduce_max", "reduce_min")


def check_reductions(
    program: RangeProgram, graph: Graph, inputs: Mapping[str, FileInput], shape: AskedShape
) -> None:
    """Check that a network reduces as many positions at a shape as in its file.

    A mean's multiplier holds their number, a sum's bias so many zero points, and a window over
    some axes is as large as those of the file. Only maxima and minima over all positions follow.

    Parameters
    ----------
    program : RangeProgram
        The network, compiled.
    graph : Graph
        What it was compiled from.
    inputs : mapping of str to FileInput
        Images that the file has as inputs.
    shape : AskedShape
        A shape of the range, without a 0.

    Raises
    ------
    ValueError
        If one does not, with what reads the file at the shape.
    """
    network = program.network
    extents = network.extents(shape.height, shape.width)
    names = {node.name for node in graph.nodes if node.op in _OPS}
    for node in network.nodes:
        layer, name = node.layer, node.inputs[0]
        if (layer.name.rpartition("/step ")[0] or layer.name) not in names:
            continue
        sizes = (shape.height, shape.width) if name in network.packed else extents[name]
        there = network.layers.activations[name].shape[:2]
        windows = layer.windows
        kernel = (1, 1) if windows is None else windows.kernel
        changed = any(k > 1 and a != b for k, a, b in zip(kernel, there, sizes, strict=True))
        if changed and not _follows(node, network, sizes):
            raise ValueError(
                f"{shape}: {layer.title} reduces {there[0]} x {there[1]} positions in the file, "
                f"not {sizes[0]} x {sizes[1]}; {_advice(graph, inputs, shape)}"
            )


def _follows(node: Node, network: Network, sizes: tuple[int, int]) -> bool:
    """Return whether it is a maximum of all positions, however many they are."""
    if not isinstance(node.layer, Pool) or node.layer.op != "max":
        return False
    axes = node.operator.axes_of(*sizes)
    return tuple(axis.kernel for axis in axes) == sizes


def _advice(graph: Graph, inputs: Mapping[str, FileInput], shape: AskedShape) -> str:
    """Say how the file is read at a shape."""
    if graph.format != "tflite" or len(inputs) != 1:
        return "use a file whose dimensions have names"
    ((name, image),) = inputs.items()
    asked = {"height": shape.height, "width": shape.width}
    extents = [
        asked.get(axis, extent) for axis, extent in zip(image.axes, image.extents, strict=True)
    ]
    return f"give --shape {name}={shape_text(extents)}"
