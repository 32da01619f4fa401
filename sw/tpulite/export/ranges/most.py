"""The most commands and bytes that any shape of a range takes: sizes of buffers."""

from math import prod

import numpy as np

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.memory import PAGE_BYTES, Window
from tpulite.compiler.bind.network import Network
from tpulite.compiler.bind.pointwise import Pointwise
from tpulite.compiler.bind.shapes import Shape, ShapeRange
from tpulite.compiler.bind.sizes import Sizes
from tpulite.compiler.plan.closed_forms import ceil_div
from tpulite.export.ranges.bounds import Interval, evaluate, pieces
from tpulite.export.ranges.symbols import Formulas

__all__ = ["image_bytes", "most_commands", "most_memory", "up"]

_PIXELS, _CHANNELS = 1024, 16
"""Intervals into which ranges are cut: the bound is within some percent of what a shape takes."""


def most_commands(network: Network, shapes: ShapeRange) -> int:
    """Return a number of commands that no shape exceeds, END among them."""
    operator = network.nodes[0].operator
    assert isinstance(operator, Pointwise)
    assert shapes.channels is not None
    facts, formulas = operator.facts, Formulas()
    pixels, channels = formulas.name("pixels"), formulas.name("channels")
    # Batch, height and width count as their product alone.
    ends = zip(shapes.batch, shapes.height, shapes.width, strict=True)
    low, high = map(prod, ends)
    extents = {
        "pixels": pieces((low, high), _PIXELS),
        "channels": Interval(*(x[:, None] for x in pieces(shapes.channels, _CHANNELS))),
    }
    most = 0
    for strategy in operator.strategies(1, 1, pixels, channels):
        tiles, parts = strategy.sizes["tiles"], strategy.sizes["parts"]
        vectors = tiles
        if facts.block_rows:
            vectors = parts * ceil_div(channels, network.config.array_size)
        loads = len(network.nodes[0].inputs) + (1 if facts.block_rows else 0)
        count = tiles * (loads + 1) + vectors
        found, possible = (evaluate(formulas, extents, x) for x in (count, strategy.feasible))
        most = max(most, int(np.where(possible.high > 0, found.high, 0).max()))
    return most + bool(facts.common_rows) + 1


def most_memory(network: Network, shapes: ShapeRange) -> dict[Window, int]:
    """Return the bytes of windows for the largest shape: no other one takes more."""
    assert shapes.channels is not None
    largest = Shape(shapes.batch[1], shapes.height[1], shapes.width[1], shapes.channels[1])
    inputs, outputs = Sizes(network, largest, largest.batch).specs()
    config = network.config
    return {
        specs[-1].window: specs[-1].offset + specs[-1].nbytes(config) for specs in (inputs, outputs)
    }


def up(size: int, multiple: int = PAGE_BYTES) -> int:
    """Return a size, rounded up."""
    return ceil_div(size, multiple) * multiple


def image_bytes(constants: int, commands: int) -> int:
    """Return the bytes of an image: constants, and commands from a page on."""
    return up(constants) + COMMAND_BYTES * commands
