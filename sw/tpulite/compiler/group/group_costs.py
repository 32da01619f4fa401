"""What a layer group costs: cycles, DRAM traffic and rows of the unified buffer."""

from collections.abc import Mapping
from typing import NamedTuple

from tpulite.compiler.geometry.cut import PARTS
from tpulite.compiler.geometry.extents import block_parts, plane_rows, runs_by_blocks
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import COLUMN_GRAIN, step_delays
from tpulite.compiler.group.alone_costs import Cost, alone_cost, step_cycles
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.plan.layer_cost import DramRows, dram_cycles, transfer_cycles

_STALLS = 0.75
"""Part of the vector path's work for which the matrix unit waits, if later layers of the group need
it: a slice is too small for much to be computed meanwhile. Measured on networks."""

_SHARED = 1.125
"""How much longer products and a softmax take that run at the same time: they meet in the banks.
Measured on encoder blocks."""

_SPARE = 10
"""A tenth of the largest strip must find room besides: free rows lie apart."""

_LEAST = 8
"""It is at least so many weight tiles, which lie between them; but no more than a strip."""


class GroupCosts:
    """Costs of the groups of one network on one machine; each is computed once.

    Parameters
    ----------
    limit : int
        Rows of the unified buffer that may be used.
    """

    def __init__(self, table: GraphTable, limit: int) -> None:
        self.table, self.limit = table, limit
        self._known: dict[tuple[Group, frozenset[str]], Cost] = {}

    def cost(self, group: Group, resident: frozenset[str]) -> Cost:
        """Return what a group costs.

        Parameters
        ----------
        group : Group
            Layers that can be sliced, if it has slices; columns, if it has several of them.
        resident : frozenset of str
            Images that stay on chip; those inside a group that is sliced do not count.
        """
        key = (group, resident & self.table.touched(group.layers))
        if key not in self._known:
            if group.slices:
                self._known[key] = _sliced_cost(self.table, *key)
            elif group.by_blocks:
                self._known[key] = blocks_cost(self.table, group.layers, key[1])
            else:
                self._known[key] = alone_cost(self.table, group.layers[0], key[1], self.limit)
        return self._known[key]


def _sliced_cost(table: GraphTable, group: Group, resident: frozenset[str]) -> Cost:
    """Return what a group costs that is sliced.

    Its steps are a pipeline of three stages, load | compute | store, as fast as the slowest. Rows
    that are kept are copied while the matrix unit works; for what the vector path computes in the
    middle of a group it waits, more or less.
    """
    config, members, batch = table.config, group.layers, table.options.batch
    steps, spans = middle_step(table, group, 0)
    across: Mapping[str, StepPositions] = {}
    if group.columns > 1:
        columns, across = middle_step(table, group, 1)
        steps *= columns
    made = {table.outputs[i]: i for i in members}
    strips = _Strips(table, group)
    read = written = mxu = vpu = waits = copies = commands = 0
    for name, span in spans.items():
        strip, total = span.live * table.row[name], span.total * table.row[name]
        if (x := across.get(name)) is not None:
            width = table.extents[1][name]
            strip, total = -(-strip * x.live // width), total * x.total // width
        private = name in made and table.inside(name, members)
        if name in resident and not private:
            if table.enters(name, members):
                read += total
            if name in made and name in table.layers.outputs:
                written += total
            continue
        copies += steps * span.kept * table.row[name] * config.vector_cycles
        if name not in made:
            read += total
        elif not private:
            written += total
        strips.add(name, strip, private=private, kept=span.kept > 0)
    for name, i in made.items():
        span = spans[name]
        new, columns = span.live - span.kept, table.extents[1][name]
        share = span.total / new
        if (x := across.get(name)) is not None:
            share, columns = share * x.total / x.live, x.live
        engines = table.compute(i, new, columns)
        mxu, vpu = mxu + int(engines.mxu * share), vpu + int(engines.vpu * share)
        apart = strips.delay(name) or (group.pipelined and table.layers.layers[i].in_place)
        if strips.read(name) and not apart:
            waits += int(_STALLS * engines.vpu * share)
        commands += engines.commands
    resident_constants = sum(table.constants[i] for i in members if i not in group.reloaded)
    constants = resident_constants
    for i in group.reloaded:
        constants += table.constants[i] * steps * batch
        resident_constants += table.at_once(i)
    read, written, steps = read * batch, written * batch, steps * batch
    memory = table.options.timing
    # In a pipeline an engine has work of other slices between those that wait for each other.
    between = 0 if group.pipelined else step_cycles(config) * steps * len(members)
    slowest = max(
        (mxu + waits) * batch + between,
        (vpu + copies) * batch,
        dram_cycles(DramRows(read, constants, written, commands * steps), config, memory),
    )
    if strips.latest:  # the pipeline is filled and drained, and waits for the largest slice
        height = table.height(members)
        slices = min(group.slices, height)
        slowest = int((1 if group.pipelined else _SHARED) * slowest)
        slowest = slowest * slices * -(-height // slices) // height
        slowest += strips.latest * min(mxu, vpu) // (slices * (1 + group.pipelined))
    load, store = (transfer_cycles(rows, config, memory) for rows in (read, written))
    cycles = slowest + load // steps + store // (steps * PARTS)
    rows = strips.rows() + resident_constants
    return Cost(cycles, read + constants, written, rows, commands * steps)


class _Strips:
    """Rows of the strips of a group, layer by layer."""

    def __init__(self, table: GraphTable, group: Group) -> None:
        self._members = group.layers
        self._made = {table.outputs[i]: i for i in group.layers}
        self._last = {name: i for i in group.layers for name in table.sources[i]}
        self._first = {name: i for i in reversed(group.layers) for name in table.sources[i]}
        self._delays = step_delays(table.layers, group.layers, pipelined=group.pipelined)
        self._always = self._largest = 0
        self._least = _LEAST * table.config.array_size
        self._while = [0] * len(group.layers)

    def read(self, name: str) -> bool:
        """Return whether a layer of the group reads an image."""
        return name in self._last

    @property
    def latest(self) -> int:
        """By how many steps the layers that are the furthest behind are."""
        return max(self._delays.values())

    def delay(self, name: str) -> int:
        """Return how many steps later than it is computed, or else first read, an image is read."""
        if name not in self._last:
            return 0
        first = self._made.get(name, self._first[name])
        return self._delays[self._last[name]] - self._delays[first]

    def add(self, name: str, rows: int, *, private: bool, kept: bool) -> None:
        """Add the strip of an image; ``kept``: rows of it are copied to the next one."""
        self._largest = max(self._largest, rows)
        self._always += self.delay(name) * rows
        if not private:  # one that is moved, and one that is used; results leave part by part
            self._always += 2 * rows if self.read(name) else rows + rows // PARTS
            return
        first = self._made[name]
        last = self._last.get(name, first)
        if kept:  # it stays, and up to the copy the one before stays, too
            self._always += rows
            last = first
        for i in range(first - self._members.start, last - self._members.start + 1):
            self._while[i] += rows

    def rows(self) -> int:
        """Return the most rows at any time."""
        spare = min(self._largest, max(self._largest // _SPARE, self._least))
        return self._always + max(self._while) + spare


class StepPositions(NamedTuple):
    """Positions of an image along one axis."""

    live: int  #: Those of a step.
    kept: int  #: Those among them that are kept from the step before.
    total: int  #: Those that all steps together compute or load.


def middle_step(table: GraphTable, group: Group, axis: int) -> tuple[int, dict[str, StepPositions]]:
    """Return the number of steps along an axis, and what one of them takes of every image.

    :func:`tpulite.compiler.geometry.slices.plan_steps` says it for each step; this is for the
    search, which asks for thousands of groups. The step is a largest one, with a halo on both sides
    if there are more than two.

    Parameters
    ----------
    group : Group
        Layers that can all be cut along the axis.
    axis : int
        0 for slices of the height, 1 for columns.
    """
    extents, reaches = table.extents[axis], table.reaches[axis]
    rolling = group.rolling and axis == 0
    extent = extents[table.outputs[group.layers[-1]]]
    grain = COLUMN_GRAIN if axis else 1
    units = -(-extent // grain)
    steps = min(group.columns if axis else group.slices, units)
    size = -(-units // steps) * grain
    begin = max(0, extent - size) // 2 // grain * grain if rolling or steps > 2 else 0
    end = min(begin + size, extent)
    needs: dict[str, tuple[int, int, int]] = {}  # start, stop, and where the step before ended
    for i in reversed(group.layers):
        name = table.outputs[i]
        if (need := needs.get(name)) is None:  # in proportion
            before = -(-extents[name] * begin // extent)
            stop = max(-(-extents[name] * end // extent), before + 1)
            need = needs[name] = (before, stop, before)
        start, stop, before = need
        if rolling:
            start, stop = before, max(stop, before + 1)
        for source, reach in zip(table.sources[i], reaches[i] or (), strict=True):
            low, high = reach.span(start, stop)
            known = reach.span(0, before)[1] if rolling and before else 0
            if axis:
                low, high = low // grain * grain, min(-(-high // grain) * grain, reach.window.size)
            if (other := needs.get(source)) is not None:
                low, high, known = min(low, other[0]), max(high, other[1]), max(known, other[2])
            needs[source] = (low, high, known)
    found: dict[str, StepPositions] = {}
    for name, (start, stop, before) in needs.items():
        if rolling:
            kept = max(0, before - start)
            found[name] = StepPositions(max(stop - before, 1) + kept, kept, extents[name])
        else:
            found[name] = StepPositions(stop - start, 0, _total(stop - start, steps, extents[name]))
    return steps, found


def _total(size: int, steps: int, extent: int) -> int:
    """Return the positions of all steps: at the borders of the image they have half a halo."""
    total = steps * size
    if steps > 2:
        total -= max(0, total - extent) // steps
    return total


def can_run_by_blocks(table: GraphTable, members: range, resident: frozenset[str]) -> bool:
    """Return whether layers can run block by block: each block reads the whole input again."""
    return (
        runs_by_blocks(table.layers, members)
        and block_parts(table.layers, members, table.config) > 1
        and resident.issuperset(table.sources[members[0]])
    )


def blocks_cost(table: GraphTable, members: range, resident: frozenset[str]) -> Cost:
    """Return what they cost: nothing between them goes to DRAM, and neither waits for the other.

    Parameters
    ----------
    members : range
        The two layers.
    resident : frozenset of str
        Images that stay on chip.
    """
    config, batch, output = table.config, table.options.batch, table.outputs[members[1]]
    source = table.sources[members[0]][0]
    here = output in resident
    rows = plane_rows(table.layers, members, config, resident=here)
    engines = [
        table.compute(i, *(extents[table.outputs[i]] for extents in table.extents)) for i in members
    ]
    constants = sum(table.constants[i] for i in members)
    read = table.rows(source) if table.enters(source, members) else 0
    written = 0 if here and output not in table.layers.outputs else table.rows(output)
    commands = batch * sum(each.commands for each in engines)
    moved = DramRows(read, constants, written, commands)
    cycles = max(
        sum(each.mxu for each in engines) * batch + step_cycles(config),
        dram_cycles(moved, config, table.options.timing),
    )
    return Cost(cycles, read + constants, written, rows, commands)
