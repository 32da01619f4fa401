"""What a layer group costs: cycles, DRAM traffic and rows of the unified buffer."""

from collections.abc import Mapping

from tpulite.compiler.geometry.cut import PARTS
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import step_delays
from tpulite.compiler.group.alone_costs import alone_cost
from tpulite.compiler.group.block_costs import blocks_cost
from tpulite.compiler.group.costs import Cost, step_cycles
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.step_positions import StepPositions, middle_step
from tpulite.compiler.plan.layer_cost import DramRows, dram_cycles, transfer_cycles
from tpulite.compiler.plan.pointwise import POINTWISE

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
    table : GraphTable
        The network.
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
        apart = strips.delay(name) or (
            group.pipelined and isinstance(table.layers.layers[i], POINTWISE)
        )
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
