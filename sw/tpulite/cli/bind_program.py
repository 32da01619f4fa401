"""From a network's file to a program for a range of shapes."""

from collections.abc import Sequence
from pathlib import Path

from tpulite.cli.bind_shapes import AskedShape, asked_range
from tpulite.cli.reading import Reading
from tpulite.compiler.bind import RangeProgram, compile_range
from tpulite.graph.layers import LayerGraph
from tpulite.runtime.model import Model

__all__ = ["range_program"]


def range_program(
    network: Path, reading: Reading, limits: str | None, shapes: Sequence[AskedShape]
) -> RangeProgram:
    """Compile a network's largest part on the machine for a range of shapes.

    Parameters
    ----------
    network : Path
        The file, or a network of the zoo.
    reading : Reading
        How it is read.
    limits : str, optional
        The range, as it was typed; extents that it does not name go from the least to the most of
        ``shapes``.
    shapes : sequence of AskedShape
        What is to be bound; if nothing is yet, the shape of the file.

    Raises
    ------
    ValueError
        If it cannot be read or compiled.
    """
    model = reading.model(network)
    layers = _largest_part(model)
    height, width, _ = layers.activations[layers.inputs[0]].shape
    asked = shapes or [AskedShape(1, height, width)]
    return compile_range(layers, asked_range(limits, asked), model.config)


def _largest_part(model: Model) -> LayerGraph:
    """Return the part of the machine with the most multiplications."""
    if not model.layers:
        raise ValueError(f"{model.graph.name!r} has nothing that the machine computes")
    return max(model.layers, key=lambda layers: sum(layers.macs().values()))
