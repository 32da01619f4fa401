"""Which rows of which image belong to each step of a layer group: backwards from its last layer."""

from collections.abc import Iterable, Mapping
from math import lcm
from types import MappingProxyType

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.backward import backward, backward_columns
from tpulite.compiler.geometry.group import Group, Step, StepRows
from tpulite.graph.layers import Elementwise, Layer, LayerGraph, Softmax

COLUMN_GRAIN = 4
"""Columns are cut at multiples of it: vectors of a beat where they are smallest, so that each part
of a row begins at a beat in DRAM if the row does."""

_NO_GRAINS: Mapping[str, int] = MappingProxyType({})


def column_grain(config: Config) -> int:
    """Return the vectors of a beat: columns of an image in DRAM begin at multiples of it."""
    return max(1, BEAT_BYTES // config.row_bytes)


def part_grain(layer: Layer, config: Config) -> int:
    """Return the columns at multiples of which a layer can be cut: no pair is parted."""
    return lcm(column_grain(config), layer.column_grain)


def repeated(slices: Iterable[range], extent: int) -> bool:
    """Return whether slices of an image repeat more than half of it: the h/2 guard of TPU-MLIR.

    Examples
    --------
    >>> repeated([range(0, 80), range(20, 100)], 100), repeated([range(0, 60), range(20, 100)], 100)
    (True, False)
    """
    return 2 * sum(map(len, slices)) > 3 * extent


def step_delays(layers: LayerGraph, members: range, *, pipelined: bool = False) -> dict[int, int]:
    """Return how many steps each layer of a group that is sliced runs behind the first ones.

    The vector path takes long for a softmax, and the array computes what it reads, and what reads
    it. So a softmax runs one step behind what it reads, and one before what reads it. In a group
    that is ``pipelined`` so do layers of single elements on the vector path; those that read each
    other share a step.
    """
    delays: dict[int, int] = {}
    made: dict[str, tuple[int, bool]] = {}
    for i in members:
        layer = layers.layers[i]
        softmax = isinstance(layer, Softmax)
        slow = softmax or (pipelined and layer.in_place)
        found = (made[name] for name in layer.inputs if name in made)
        later = ((delay, softmax or slow != before) for delay, before in found)
        delays[i] = max((delay + apart for delay, apart in later), default=0)
        made[layer.output] = delays[i], slow
    return delays


def can_be_pipelined(layers: LayerGraph, members: range) -> bool:
    """Return whether layers include a maximum of two activations, as PRELU does, and no softmax."""
    chosen = layers.layers[members.start : members.stop]
    if any(isinstance(layer, Softmax) for layer in chosen):
        return False
    return len(members) > 1 and any(isinstance(x, Elementwise) and x.op == "max" for x in chosen)


def plan_steps(
    layers: LayerGraph, group: Group, *, grains: Mapping[str, int] = _NO_GRAINS
) -> tuple[Step, ...]:
    """Return the rows of every image that a group reads or writes, slice by slice.

    Rows that a step needs of an image are the union of what all its users in the group need. An
    image that none of them reads gets its rows in proportion. Where later layers or the host need
    an image that the group computes, every row is computed.

    *Sliced*: ``new`` and ``live`` are the rows needed; halos are computed or loaded again.
    *Rolling*: ``new`` begins where the step before ended and may be empty; ``live`` begins at the
    first row that this step or a later one needs, and ends with ``new``. So rows of ``live`` that
    are not new were live in the step before. Both are empty when nobody needs the image
    any longer.

    Parameters
    ----------
    group : Group
        Layers that are all sliceable, and ``slices`` of at least 1. Columns do not matter here.
    grains : mapping of str to int
        Images of which slices must begin at multiples of some number of rows.

    Returns
    -------
    tuple of Step
        A step for each slice; fewer than ``slices`` if the last image has not so many rows.

    Raises
    ------
    ValueError
        If a layer cannot be sliced, or the group is not to be.
    """
    walk = _Walk(layers, group, group.slices, grains, axis=0)
    stops: dict[str, int] = {}
    steps: list[tuple[dict[str, range], dict[str, range]]] = []
    for number in range(walk.steps):
        steps.append(walk.step(number, stops, rolling=group.rolling))
        stops = {name: rows.stop for name, rows in steps[-1][0].items()}
    if not group.rolling:
        return tuple({name: StepRows(rows, rows) for name, rows in new.items()} for new, _ in steps)
    found: list[Step] = []
    lowest: dict[str, int] = {}
    for new, needs in reversed(steps):
        for name, rows in needs.items():
            lowest[name] = min(rows.start, lowest.get(name, rows.start))
        found.append(
            {
                name: StepRows(
                    rows, range(min(rows.start, lowest.get(name, rows.start)), rows.stop)
                )
                for name, rows in new.items()
            }
        )
    return tuple(reversed(found))


def plan_columns(
    layers: LayerGraph, group: Group, *, grain: int = COLUMN_GRAIN
) -> tuple[Mapping[str, range], ...]:
    """Return the columns of every image that a group reads or writes, for each of its W slices.

    They begin at multiples of ``grain``.

    Raises
    ------
    ValueError
        If a layer cannot be cut along the width.
    """
    grains = dict.fromkeys(layers.activations, grain)
    walk = _Walk(layers, group, group.columns, grains, axis=1)
    stops: dict[str, int] = {}
    slices: list[Mapping[str, range]] = []
    for number in range(walk.steps):
        columns, _ = walk.step(number, stops, rolling=False)
        stops = {name: each.stop for name, each in columns.items()}
        slices.append(columns)
    return tuple(slices)


class _Walk:
    """The way back through the layers of a group, once for each slice."""

    def __init__(
        self, layers: LayerGraph, group: Group, parts: int, grains: Mapping[str, int], *, axis: int
    ) -> None:
        self._layers = [layers.layers[i] for i in group.layers]
        if parts < 1 or not self._layers:
            raise ValueError(f"A group to be sliced must have layers and slices, not {group}")
        for layer in self._layers:
            if not layer.sliceable(axis):
                raise ValueError(f"{layer.title} cannot run slice by slice")
        self._images, self._grains, self._axis = layers.activations, grains, axis
        self._backward = backward_columns if axis else backward
        self._read = {name for layer in self._layers for name in layer.inputs}
        later = {name for layer in layers.layers[group.layers.stop :] for name in layer.inputs}
        self._outside = later | set(layers.outputs)
        last = self._layers[-1].output
        self.steps = min(parts, -(-self._extent(last) // self._grain(last)))

    def step(
        self, number: int, stops: Mapping[str, int], *, rolling: bool
    ) -> tuple[dict[str, range], dict[str, range]]:
        """Return the new rows of all images, and the rows that layers of the group read.

        ``stops`` says where the new rows of the step before ended.
        """
        new: dict[str, range] = {}
        needs: dict[str, range] = {}
        for layer in reversed(self._layers):
            name, before = layer.output, stops.get(layer.output, 0)
            rows = needs.get(name)
            if name not in self._read:
                rows = self._share(name, number)
            elif rows is not None and name in self._outside:
                rows = range(min(rows.start, before), rows.stop)
            new[name] = self._new(rows, before, rolling=rolling)
            for index, source in enumerate(layer.inputs) if new[name] else ():
                need = self._backward(layer, new[name], index, self._images)
                needs[source] = self._align(source, _hull(need, needs.get(source)))
        for source in self._read - set(new):
            new[source] = self._new(needs.get(source), stops.get(source, 0), rolling=rolling)
        return new, needs

    @staticmethod
    def _new(rows: range | None, before: int, *, rolling: bool) -> range:
        if rows is None:
            return range(before, before)
        return range(before, max(before, rows.stop)) if rolling else rows

    def _share(self, name: str, number: int) -> range:
        """Return the part of an image that nobody reads in the group; at least some of it."""
        grain, extent = self._grain(name), self._extent(name)
        units = -(-extent // grain)
        start, stop = (-(-units * i // self.steps) for i in (number, number + 1))
        return range(min(start, stop - 1) * grain, min(stop * grain, extent))

    def _align(self, name: str, rows: range) -> range:
        grain = self._grain(name)
        stop = min(-(-rows.stop // grain) * grain, self._extent(name))
        return range(rows.start // grain * grain, stop)

    def _grain(self, name: str) -> int:
        return self._grains.get(name, 1)

    def _extent(self, name: str) -> int:
        return self._images[name].shape[self._axis]


def _hull(a: range, b: range | None) -> range:
    return a if b is None else range(min(a.start, b.start), max(a.stop, b.stop))
