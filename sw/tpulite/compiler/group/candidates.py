"""Ways to run a run of layers, and the best of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import (
    can_be_pipelined,
    plan_steps,
    repeated,
    step_delays,
)
from tpulite.compiler.group.alone_costs import Cost, streams
from tpulite.compiler.group.group_costs import GroupCosts, can_run_by_blocks
from tpulite.compiler.group.residency import crossing_rows

Key = tuple[int, int]
"""What is to be small, in the order of importance."""

Choice = tuple[Group, Cost]

SLICES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
"""Numbers of slices that are tried."""

_COLUMNS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
"""Numbers of columns that are tried where a row is too long."""

_LONGEST = 16
"""Most layers of a group."""

_TRAFFIC_WEIGHT = 64
"""Rows moved that count as a cycle in the choice: some meet others in the banks. Not timing."""

_COMMAND_WEIGHT = 4
"""Cycles that a command counts in the choice, so that a few cycles are not bought with many
commands. Not timing: a command is fetched in two cycles beside the work, but must be compiled."""

_MISSES = 2
"""An interval that so many times had no room, with one more layer each time, grows no more."""

_WORSE = 2
"""After so many numbers of slices without progress no larger one is tried."""


class Candidates:
    """Ways to run layers, judged by their costs.

    Parameters
    ----------
    refused : frozenset of Group
        Groups that are not to be used.

    Attributes
    ----------
    slices : tuple of int
        Numbers of slices that are tried.
    """

    def __init__(self, costs: GroupCosts, refused: frozenset[Group] = frozenset()) -> None:
        self.costs, self.table = costs, costs.table
        self._refused: dict[Group, int] = {}
        for group in refused:
            key = replace(group, slices=0)
            self._refused[key] = max(group.slices, self._refused.get(key, -1))
        self._options = costs.table.options
        # Images of a batch, one after the other, need not be cut.
        self.slices = SLICES if self._options.batch == 1 else (1, *SLICES)

    def key(self, cost: Cost) -> Key:
        """Return cycles and DRAM traffic; traffic first if the user wants little of it.

        Each row that is moved and each command counts a little with the cycles, too.
        """
        traffic = cost.read + cost.written
        if self._options.optimize == "memory":
            return traffic, cost.cycles
        return cost.cycles + traffic // _TRAFFIC_WEIGHT + cost.commands * _COMMAND_WEIGHT, traffic

    def fits(self, group: Group, resident: frozenset[str], *, strips: float = 1) -> bool:
        """Return whether there is room for so many of what a group needs at a time.

        That is beside images that stay on chip.
        """
        rows = strips * self.costs.cost(group, resident).rows
        return rows + crossing_rows(self.table, group.layers, resident) <= self.costs.limit

    def before(self, stop: int, resident: frozenset[str]) -> Iterator[Choice]:
        """Yield the best way to run each interval of layers that ends before ``stop``.

        Intervals of which all images are on chip anyway are left to layers alone, and none goes
        past a cut where all that later layers need is on chip: to cut there costs nothing.
        """
        yield self.alone(stop - 1, resident)
        misses = 0
        longest = _LONGEST if self._options.grouping else 0
        for start in range(stop - 1, max(stop - longest, 0) - 1, -1):
            members = range(start, stop)
            if self.table.reaches[0][start] is None or misses == _MISSES:
                return
            pipelines = can_be_pipelined(self.table.layers, members)
            if len(members) > 1 and self.table.crossing[start + 1] <= resident and not pipelines:
                return
            if self.table.touched(members) <= resident and not pipelines:
                continue
            if len(members) == 1 and streams(self.table, start, resident):
                continue  # it is cut better by itself
            if (found := self.by_blocks(members, resident)) is not None:
                yield found
            found = self.sliced(members, resident)
            if found is None and max(step_delays(self.table.layers, members).values()):
                # A pipeline may be worth that what it reads and computes goes through DRAM.
                found = self.sliced(members, resident - self.table.touched(members))
            misses = misses + 1 if found is None else 0
            if found is not None:
                yield found

    def best(self, members: range, resident: frozenset[str]) -> Choice | None:
        """Return the best way to run layers as one group; None if there is none."""
        found = None
        if len(members) == 1 and streams(self.table, members[0], resident):
            return self.alone(members[0], resident)
        if all(self.table.reaches[0][i] is not None for i in members):
            found = self.sliced(members, resident)
        other = self.by_blocks(members, resident)
        if len(members) == 1:
            other = self.alone(members[0], resident)
        choices = [choice for choice in (other, found) if choice is not None]
        return min(choices, key=lambda choice: self.key(choice[1]), default=None)

    def by_blocks(self, members: range, resident: frozenset[str]) -> Choice | None:
        """Return how two layers run channel block by channel block; None if they cannot."""
        group = Group(members)
        possible = self._options.grouping and can_run_by_blocks(self.table, members, resident)
        if not (possible and self.allowed(group)):
            return None
        cost = self.costs.cost(group, resident)
        rows = cost.rows + crossing_rows(self.table, members, resident)
        return (group, cost) if rows <= self.costs.limit else None

    def alone(self, index: int, resident: frozenset[str]) -> Choice:
        """Return how a layer runs by itself: perhaps in columns, if its rows are too long."""
        group = Group(range(index, index + 1))
        whole = (group, self.costs.cost(group, resident))
        if self.table.touched(group.layers) <= resident or streams(self.table, index, resident):
            return whole
        if self.fits(group, resident, strips=2) and not whole[1].tiled:
            return whole
        numbers = _COLUMNS if self.table.columns_can_be_cut(index) else ()
        cut = (self.sliced(group.layers, resident, columns=columns) for columns in numbers)
        choices = [choice for choice in cut if choice is not None]
        if not choices or self.fits(group, resident):
            choices.append(whole)
        return min(choices, key=lambda choice: self.key(choice[1]))

    def sliced(
        self, members: range, resident: frozenset[str], *, columns: int = 1
    ) -> Choice | None:
        """Return the best way to run layers slice by slice; None if they do not fit.

        They must all be sliceable, and along the width, too, if there are columns.
        """
        crossing = crossing_rows(self.table, members, resident)
        room = self.costs.limit - crossing
        most = self._strips(members, resident)
        height = self.table.height(members)
        numbers = self.slices if columns == 1 else (1, *SLICES)
        pipelines = columns == 1 and can_be_pipelined(self.table.layers, members)
        best: Choice | None = None
        for reloaded in self._reloaded(members, room):
            constants = sum(self.table.constants[i] for i in members if i not in reloaded)
            for rolling, pipelined in product(
                (False, True) if self._options.rolling and columns == 1 else (False,),
                (False, True) if pipelines else (False,),
            ):
                worse, least = 0, None if pipelined else best
                for slices in numbers:
                    if (slices > height and slices > numbers[0]) or worse == _WORSE:
                        break
                    if constants + most // (slices * columns) > room:
                        continue
                    group = Group(members, slices, columns, rolling, reloaded, pipelined=pipelined)
                    cost = self.costs.cost(group, resident)
                    if cost.rows > room or not self.allowed(group):
                        continue
                    if least is None or self.key(cost) < self.key(least[1]):
                        least, worse = (group, cost), 0
                    else:
                        worse += 1
                found = [choice for choice in (best, least) if choice is not None]
                best = min(found, key=lambda choice: self.key(choice[1]), default=None)
        return best

    def _strips(self, members: range, resident: frozenset[str]) -> int:
        """Return the rows of strips if there was one slice; with more there are fewer in each."""
        table = self.table
        private = {name for name in table.touched(members) if table.inside(name, members)}
        moved = sum(2 * table.rows(n) for n in table.touched(members) - private - resident)
        inside = max(
            sum(table.rows(name) for name in {*table.sources[i], table.outputs[i]} & private)
            for i in members
        )
        return (moved + inside) // table.options.batch

    def _reloaded(self, members: range, room: int) -> Iterator[frozenset[int]]:
        """Yield which layers load their weights in every slice: none; the largest, as need be."""
        order = sorted(members, key=lambda i: (self.table.constants[i], i))
        total = sum(self.table.constants[i] for i in members)
        reloaded: frozenset[int] = frozenset()
        yield reloaded
        while total > room // 2 and order:
            index = order.pop()
            if self.table.at_once(index) == self.table.constants[index]:
                return
            total -= self.table.constants[index] - self.table.at_once(index)
            reloaded |= {index}
            yield reloaded

    def allowed(self, group: Group) -> bool:
        """Return whether a group is neither refused nor against what the user asks for.

        Where a group found no place, one with fewer slices needs even more.
        """
        most = self._refused.get(replace(group, slices=0), -1) if self._refused else -1
        if group.slices <= most or (group.rolling and not self._options.rolling):
            return False
        if group.rolling or not (group.slices and self._options.halo_guard):
            return True
        steps = plan_steps(self.table.layers, group)
        heights = self.table.extents[0]
        return not any(repeated([s[name].new for s in steps], heights[name]) for name in steps[0])
