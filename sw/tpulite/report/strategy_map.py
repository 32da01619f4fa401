"""Which strategy the selector takes where: a grid of shapes of a range."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log
from typing import Any

import numpy as np

from tpulite.compiler.bind import LayerPlan, RangeProgram, Shape
from tpulite.compiler.bind.network import Network
from tpulite.near import no_such

_COLUMNS, _ROWS = 64, 20
"""Most shapes along the axes of a picture: what 80 columns and a screen hold."""

_STRIDES = 64
"""Product of all strides, at most: among so many heights is one that all branches can have."""

_REFUSED = "refused"
"""What cells are called whose shape cannot be bound."""


@dataclass(frozen=True)
class Axis:
    """Shapes along an axis of a grid, from the least to the most, in equal ratios."""

    #: ``batch``, ``height``, ``width``, ``channels``, or ``height x width``: both grow together.
    name: str
    values: tuple[dict[str, int], ...]  #: The extents of each.

    @classmethod
    def of(cls, extents: Mapping[str, Sequence[int]], count: int) -> "Axis":
        """Return an axis of at most so many of the values that some extents can have."""
        steps = []
        for values in map(np.array, extents.values()):
            wanted = np.geomspace(values[0], values[-1], count)
            after = np.searchsorted(values, wanted).clip(1, max(len(values) - 1, 1))
            near = np.stack([values[after - 1], values[np.minimum(after, len(values) - 1)]])
            steps.append(near[np.abs(near - wanted).argmin(axis=0), np.arange(count)].tolist())
        chosen = dict.fromkeys(zip(*steps, strict=True))
        return cls(" x ".join(extents), tuple(dict(zip(extents, x, strict=True)) for x in chosen))

    def label(self, index: int) -> str:
        """Return what a value is called: 8x8."""
        return "x".join(map(str, self.values[index].values()))

    def nearest(self, shape: Shape) -> int:
        """Return the value that is nearest to a shape, by the ratio of their products."""
        products = [self._product(value) for value in self.values]
        wanted = self._product({name: getattr(shape, name) for name in self.values[0]})
        return min(range(len(products)), key=lambda i: abs(log(products[i] / wanted)))

    @staticmethod
    def _product(extents: dict[str, int]) -> int:
        return int(np.prod([*extents.values()]))


@dataclass(frozen=True)
class StrategyMap:
    """A grid of shapes, and what is chosen for a layer at each of them."""

    layer: str  #: The layer.
    fixed: dict[str, int]  #: Extents that all shapes have in common.
    #: The axes.
    rows: Axis
    columns: Axis
    names: tuple[tuple[str, ...], ...]  #: What is chosen, [rows][columns]; see :func:`choice_name`.
    #: Shapes of the range that were asked for, with all that was compared.
    points: tuple[tuple[Shape, LayerPlan], ...]

    @cached_property
    def counts(self) -> Counter[str]:
        """How many shapes of the grid get each choice, most first."""
        return Counter(dict(Counter(x for row in self.names for x in row).most_common()))

    @cached_property
    def letters(self) -> dict[str, str]:
        """A letter for each choice: the first of its name that no other one has."""
        taken: dict[str, str] = {}
        for name in self.counts:
            spare = [*name.replace(" ", ""), *"abcdefghijklmnopqrstuvwxyz"]
            letters = (x for x in spare if x.isalpha() and x.lower() not in taken.values())
            taken[name] = next(letters).lower()
        return taken

    def marks(self) -> Iterator[tuple[int, int, int]]:
        """Yield the number of each point, from 1 on, with its row and column."""
        for number, (shape, _) in enumerate(self.points, start=1):
            yield number, self.rows.nearest(shape), self.columns.nearest(shape)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "layer": self.layer,
            "fixed": self.fixed,
            "rows": list(self.rows.values),
            "columns": list(self.columns.values),
            "choices": [list(row) for row in self.names],
            "points": [
                {
                    "shape": shape._asdict(),
                    "choice": choice_name(plan),
                    "strategy": plan.strategy.name,
                    "candidates": [
                        {
                            "strategy": each.name,
                            "feasible": bool(each.feasible),
                            "cycles": int(each.cycles),
                            "traffic_rows": int(each.traffic),
                            "needed_rows": int(each.sizes["needed_rows"]),
                        }
                        for each in plan.candidates
                    ],
                }
                for shape, plan in self.points
            ],
        }


def choice_name(layer: LayerPlan) -> str:
    """Return what a choice is called: the strategy, and what a tile is.

    A plane is that of a channel block.
    """
    name, tiling = layer.strategy.name, layer.tiling
    if tiling.tiles == 1:
        return f"{name}, one tile"
    if name not in ("planes", "slabs"):
        return name
    sizes = layer.strategy.sizes
    if sizes["parts"] > 1:
        return f"{name}, parts of a plane"
    return f"{name}, {'several planes' if sizes['tile_blocks'] > 1 else 'one plane'} a tile"


def draw_maps(
    program: RangeProgram, points: Sequence[Shape], layer: str | None
) -> list[StrategyMap]:
    """Walk grids of shapes of a range through the selector.

    If channels are a range, the axes are channels, and height and width together; else height and
    width; or the batch, if no two extents are ranges. There is a grid for the smallest and one for
    the largest batch. Extents for which branches do not join are left out.

    Parameters
    ----------
    layer : str, optional
        Which layer; by default the one with the most cycles at the largest shape.

    Raises
    ------
    ValueError
        If there is no such layer, the range is a single shape, or a point is empty.
    """
    for point in points:
        if point.empty:
            extents = "x".join(map(str, point))
            raise ValueError(f"{extents} is empty: it needs no strategy")
    filled = program.shapes.filled
    limits = {} if filled is None else vars(filled)
    vary = {name for name, (low, high) in limits.items() if low < high}
    if not vary:
        raise ValueError(
            "a single shape is not a grid: give a range, like --shapes height=8..64,width=8..64"
        )
    if "channels" in vary:
        down, across = ("channels",), ("height", "width")
    elif vary >= {"height", "width"}:
        down, across = ("height",), ("width",)
    else:
        down, across = ("batch",), ("height", "width")
    values: dict[str, Sequence[int]] = {
        name: range(low, high + 1) for name, (low, high) in limits.items()
    }
    values |= _joining(program.network, values["height"], values["width"])
    number = _number_of(program, layer, {name: each[-1] for name, each in values.items()})
    rows = Axis.of({name: values[name] for name in down}, _ROWS)
    columns = Axis.of({name: values[name] for name in across}, _COLUMNS)
    fixed = {name: limits[name][1] for name in limits if name not in (*down, *across)}
    maps = []
    for batch in dict.fromkeys(limits["batch"] if "batch" in fixed else [0]):
        here = fixed | ({"batch": batch} if batch else {})
        names = tuple(
            tuple(_chosen(program, number, {**here, **row, **column}) for column in columns.values)
            for row in rows.values
        )
        inside = [x for x in points if all(getattr(x, name) == here[name] for name in here)]
        plans = tuple((shape, _plan(program, number, shape._asdict())) for shape in inside)
        name = program.network.nodes[number].layer.name
        maps.append(StrategyMap(name, here, rows, columns, names, plans))
    return maps


def _joining(
    network: Network, heights: Sequence[int], widths: Sequence[int]
) -> dict[str, Sequence[int]]:
    """Return the heights and widths at which branches that join have the same extents.

    Strides round the extents of each branch in its own way, but rows and columns alike.
    """

    def joins(height: int, width: int) -> bool:
        try:
            network.check_branches(network.extents(height, width))
        except ValueError:
            return False
        return True

    last = product(heights[-_STRIDES:][::-1], widths[-_STRIDES:][::-1])
    height, width = next((pair for pair in last if joins(*pair)), (0, 0))
    if not height:
        return {"height": heights, "width": widths}
    return {
        "height": [each for each in heights if joins(each, width)],
        "width": [each for each in widths if joins(height, each)],
    }


def _number_of(program: RangeProgram, layer: str | None, largest: dict[str, int]) -> int:
    """Return which node a layer is, or the most costly one."""
    names = [node.layer.name for node in program.network.nodes]
    if layer is None:
        costs = [each.strategy.cycles for each in program.plan(**largest).layers]
        return costs.index(max(costs))
    if layer not in names:
        raise ValueError(no_such(f"layer of {program.layers.name}", layer, names))
    return names.index(layer)


def _plan(program: RangeProgram, number: int, extents: dict[str, int]) -> LayerPlan:
    return program.plan(**extents).layers[number]


def _chosen(program: RangeProgram, number: int, extents: dict[str, int]) -> str:
    try:
        return choice_name(_plan(program, number, extents))
    except ValueError:  # strides round the extents of branches that join, each in its own way
        return _REFUSED
