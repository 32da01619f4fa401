"""When each tensor has rows of the unified buffer: live ranges as the allocator has them.

Time steps have the numbers of the LayerGroup document: one count for everything, layer by layer,
that goes through what a layer reads for the first time, its weights, itself, and what it computes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from tpulite.arch.isa import Opcode
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Buffer, Op
from tpulite.compiler.schedule.allocate import Allocation, rows_used
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, lower_bound
from tpulite.graph.layers import LayerGraph


@dataclass(frozen=True)
class StepNumbers:
    """Numbers of layers and tensors."""

    layers: tuple[int, ...]  #: By index of the layer; layer number 5 runs in time step T5.
    activations: dict[str, int]  #: By name.
    weights: dict[int, int]  #: By index of the layer that has them.

    @classmethod
    def of(cls, layers: LayerGraph) -> "StepNumbers":
        """Return the numbers of a network."""
        steps: list[int] = []
        activations: dict[str, int] = {}
        weights: dict[int, int] = {}
        number = 0
        for i, layer in enumerate(layers.layers):
            for name in layer.inputs:
                if name not in activations:
                    activations[name], number = number, number + 1
            if layer.weights is not None:
                weights[i], number = number, number + 1
            steps.append(number)
            activations[layer.output], number = number + 1, number + 2
        return cls(tuple(steps), activations, weights)


class Moment(NamedTuple):
    """A time step: that of a layer, in one of the slices of its section."""

    layer: int
    slice: int


@dataclass(frozen=True)
class LiveBuffer:
    """Rows of the unified buffer, and when something needs them."""

    #: What the document calls it: ``3`` for an activation, ``w4`` for weights, ``B5`` for what
    #: layer 5 needs only while it runs.
    label: str
    name: str  #: Name of the tensor.
    kind: str  #: ``activation``, ``weight`` or ``buffer``.
    #: First row, and how many.
    row: int
    rows: int
    needed: tuple[Moment, Moment]  #: First and last layer that compute with it.
    #: What is being computed when it is loaded, or written, and when it is free again.
    lives: tuple[Moment, Moment]
    #: The same in time steps since the start of the network: its commands share a step.
    time: tuple[float, float]
    stays: bool  #: Whether all slices share it.


@dataclass(frozen=True)
class Section:
    """A group that is cut into slices, or neighbors that are not: layers that share live ranges."""

    groups: tuple[Group, ...]  #: Its groups.
    layers: range  #: Their layers.
    moments: tuple[Moment, ...]  #: Its time steps, in the order of execution.
    #: All that a layer of it computes with, in the order of loading.
    buffers: tuple[LiveBuffer, ...]
    bound: int  #: The most rows that live at one time: no allocation takes fewer.
    reached: int  #: Rows that are used for anything at any time.

    @property
    def cut(self) -> bool:
        """Whether it is one group that runs slice by slice, or block by block."""
        return not self.groups[0].alone


class Grouped(NamedTuple):
    """A network, and its live ranges section by section."""

    layers: LayerGraph
    sections: tuple[Section, ...]


def live_sections(
    layers: LayerGraph, groups: Sequence[Group], schedule: Schedule, allocation: Allocation
) -> tuple[Section, ...]:
    """Return the live ranges of a network, section by section.

    Parameters
    ----------
    groups : sequence of Group
        Groups that cover it.
    schedule : Schedule
        Its commands, and from when to when each buffer lives.
    allocation : Allocation
        Where buffers lie.
    """
    steps = _Steps(schedule.ops, groups)
    needed = _needed(schedule.ops)
    owners = [_Owner.of(each.buffer, layers) for each in schedule.lifetimes]
    numbers = StepNumbers.of(layers)
    found = []
    for members, some in steps.sections:
        buffers, lifetimes = [], []
        last = max((each.slice for each in steps.moments if each.layer in members), default=0)
        for each, owner in zip(schedule.lifetimes, owners, strict=True):
            first, end = needed.get(each.buffer, (each.first, each.last))
            uses = steps.moment(first), steps.moment(end)
            if uses[0].layer not in members and uses[1].layer not in members:
                continue
            lives = steps.moment(each.first), steps.moment(each.last)
            buffers.append(
                LiveBuffer(
                    owner.label(numbers, schedule.ops[first].layer),
                    owner.name,
                    owner.kind,
                    allocation.rows[each.buffer],
                    each.buffer.rows,
                    uses,
                    lives,
                    (steps.time(each.first), steps.time(each.last + 1)),
                    stays=last > 0
                    and owner.kind != "activation"
                    and (uses[0].slice, uses[1].slice) == (0, last),
                )
            )
            lifetimes.append(each)
        found.append(
            Section(
                some,
                members,
                tuple(each for each in steps.moments if each.layer in members),
                tuple(buffers),
                lower_bound(_places(lifetimes, schedule)),
                rows_used({each.buffer: allocation.rows[each.buffer] for each in lifetimes}),
            )
        )
    return tuple(found)


class _Steps:
    """The time step of every command, and the sections of a network."""

    def __init__(self, ops: Sequence[Op], groups: Sequence[Group]) -> None:
        self.sections: list[tuple[range, tuple[Group, ...]]] = []
        for _, run in groupby(groups, key=lambda group: None if group.alone else group.layers):
            some = tuple(run)
            members = range(some[0].layers.start, some[-1].layers.stop)
            self.sections.append((members, some))
        section = {i: members for members, _ in self.sections for i in members}
        cut = {i for members, some in self.sections if not some[0].alone for i in members}
        self.moments: list[Moment] = []
        self._at: list[int] = []
        before: Op | None = None
        for op in ops:
            if op.opcode in (Opcode.LOAD, Opcode.STORE):
                self._at.append(max(len(self.moments) - 1, 0))
                continue
            if before is None or before.layer not in section[op.layer]:
                self.moments.append(Moment(op.layer, 0))
            else:
                again = op.layer < before.layer or (op.layer in cut and op.slice != before.slice)
                if op.layer > before.layer and op.slice < before.slice:  # steps of a pipeline
                    again = op.slice - before.slice
                if again or op.layer != before.layer:
                    self.moments.append(Moment(op.layer, self.moments[-1].slice + again))
            self._at.append(len(self.moments) - 1)
            before = op
        if not self.moments:  # nothing is computed, only moved
            self.moments = [Moment(ops[0].layer if ops else 0, 0)]
        self._firsts = [bisect_left(self._at, n) for n in range(len(self.moments) + 1)]

    def time(self, position: int) -> float:
        """Return when a command begins, in time steps."""
        if position == len(self._at):
            return len(self.moments)
        step = self._at[position]
        first, stop = self._firsts[step : step + 2]
        return step + (position - first) / (stop - first)

    def moment(self, position: int) -> Moment:
        """Return what is being computed when a command begins."""
        return self.moments[self._at[position]]


class _Owner(NamedTuple):
    """What a buffer is for."""

    name: str
    kind: str

    @classmethod
    def of(cls, buffer: Buffer, layers: LayerGraph) -> "_Owner":
        name = buffer.name.rpartition(", rows ")[0] or buffer.name
        for each in (buffer.name, name):
            if each in layers.activations:
                return cls(each, "activation")
        return cls(buffer.name, "weight" if buffer.name.startswith("weights of ") else "buffer")

    def label(self, numbers: StepNumbers, layer: int) -> str:
        if self.kind == "activation":
            return str(numbers.activations.get(self.name, ""))
        if self.kind == "weight" and layer in numbers.weights:
            return f"w{numbers.weights[layer]}"
        return f"B{numbers.layers[layer]}"


def _needed(ops: Iterable[Op]) -> dict[Buffer, tuple[int, int]]:
    """Return the first and the last command that compute with each buffer."""
    found: dict[Buffer, tuple[int, int]] = {}
    for position, op in enumerate(ops):
        if op.opcode not in (Opcode.LOAD, Opcode.STORE):
            for region in op.rows.values():
                first, _ = found.get(region.buffer, (position, position))
                found[region.buffer] = first, position
    return found


def _places(lifetimes: Sequence[Lifetime], schedule: Schedule) -> tuple[Lifetime, ...]:
    """Return live ranges of places: what is made in place counts once."""
    return replace(schedule, lifetimes=tuple(lifetimes)).places
