"""The most commands and bytes that any shape of a range takes: sizes of buffers."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.memory import PAGE_BYTES, Window
from tpulite.compiler.bind.network import Network
from tpulite.compiler.bind.sizes import Sizes
from tpulite.compiler.geometry.axis import ceil_div
from tpulite.compiler.operators.operator import Shape, ShapeRange
from tpulite.compiler.plan.slabs import cost
from tpulite.export.ranges.bounds import Interval, evaluate
from tpulite.export.ranges.operators import OperatorText
from tpulite.export.ranges.selector import EXTENTS, strategies_of, symbols_of
from tpulite.export.ranges.symbols import Formulas

_SLACK = 1.05
"""How much more than any shape takes a bound may be, if it is found soon enough."""

_ROUNDS, _BOXES = 40, 256
"""How often boxes of shapes are halved at most, and how many each time."""

Boxes = dict[str, Interval]
"""Ranges of extents, by name: of many boxes of shapes."""


def most_commands(network: Network, text: OperatorText, shapes: ShapeRange) -> int:
    """Return a number of commands that no shape exceeds, END among them.

    Branch and bound: formulas on intervals bound what the shapes of a box take. Boxes that may take
    more than some shape does are halved.
    """
    limits = {name: getattr(shapes, name) for name in EXTENTS}
    if text.plane:
        ends = zip(shapes.batch, shapes.height, shapes.width, strict=True)
        limits |= {"batch": (1, 1), "height": (1, 1), "width": tuple(map(prod, ends))}
    boxes = {name: Interval(*(np.array([end]) for end in limits[name])) for name in EXTENTS}
    bound = _CommandBound(network, text)
    upper, best = bound.of(boxes), 0
    for _ in range(_ROUNDS):
        order = upper.argsort()
        worst, others = order[-_BOXES:], order[:-_BOXES]
        mine = {name: each.some(worst) for name, each in boxes.items()}
        corners = {name: Interval(each.high, each.high) for name, each in mine.items()}
        best = max(best, int(bound.of(corners).max()))
        if upper.max() <= _SLACK * best:
            break
        halves = _halved(mine)
        boxes = {name: each.some(others).joined(halves[name]) for name, each in boxes.items()}
        upper = np.concatenate([upper[others], bound.of(halves)])
    return int(upper.max()) + 1


class _CommandBound:
    """Bounds of the commands that the shapes of boxes take, END not among them."""

    def __init__(self, network: Network, text: OperatorText) -> None:
        self._formulas = Formulas()
        shape = symbols_of(self._formulas)
        self._values = [
            value
            for each in strategies_of(network, shape)
            for value in (
                each.feasible,
                cost(each.cycles, each.traffic),
                text.commands(each, shape),
            )
        ]

    def of(self, boxes: Boxes) -> NDArray[np.int64]:
        """Return the bound for each box."""
        shape, never = boxes["batch"].low.shape, np.iinfo(np.int64).max
        limit, bounds = np.full(shape, never), []
        # Strategies share most of their terms.
        found = iter(evaluate(self._formulas, boxes, self._values))
        for fits, price, count in zip(found, found, found, strict=True):
            # What costs more than this for every shape of a box is not chosen.
            limit = np.minimum(limit, np.where(fits.low > 0, price.high, never))
            bounds.append((fits.high > 0, price.low, count.high))
        most = np.zeros(shape, np.int64)
        for possible, price, count in bounds:
            most = np.maximum(most, np.where(possible & (price <= limit), count, 0))
        return most


def _halved(boxes: Boxes) -> Boxes:
    """Cut each box in two, along the extent of which it has the widest range."""
    lows, highs = (np.array([each[i] for each in boxes.values()]) for i in (0, 1))
    widest = ((highs - lows) / lows).argmax(axis=0)
    here = widest == np.arange(len(lows))[:, None]
    middle = np.sqrt(lows * highs.astype(float)).astype(np.int64)
    below, above = np.where(here, middle, highs), np.where(here, middle + 1, lows)
    lows, highs = np.concatenate([lows, above], axis=1), np.concatenate([below, highs], axis=1)
    there = (lows <= highs).all(axis=0)
    return {
        name: Interval(low[there], high[there])
        for name, low, high in zip(boxes, lows, highs, strict=True)
    }


def most_memory(network: Network, shapes: ShapeRange) -> dict[Window, int]:
    """Return the bytes of windows for the largest shape: no other one takes more."""
    assert shapes.channels is not None
    largest = Shape(shapes.batch[1], shapes.height[1], shapes.width[1], shapes.channels[1])
    inputs, outputs = Sizes(network, largest, largest.batch).specs()
    config = network.config
    return {
        specs[-1].window: specs[-1].offset + specs[-1].nbytes(config) for specs in (inputs, outputs)
    }


def up(size: int) -> int:
    """Return a size, rounded up to pages."""
    return ceil_div(size, PAGE_BYTES) * PAGE_BYTES


def image_bytes(constants: int, commands: int) -> int:
    """Return the bytes of an image: constants, and commands from a page on."""
    return up(constants) + COMMAND_BYTES * commands
