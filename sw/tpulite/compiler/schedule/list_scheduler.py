"""One pass over the commands of a tiling: order and places, found together."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Tiling
from tpulite.compiler.schedule.online import Allocator, Shortage
from tpulite.compiler.schedule.uses import Uses

_SHARE = 16
"""What goes ahead, beyond the first LOAD, fills at most this part of the unified buffer. Weights of
a few hundred rows go far ahead; strips do not, or results would be written to rows just freed, and
the matrix unit would wait for them."""

_LEAVING = 1
"""For so many commands after a STORE, LOADs not counted, nothing else is put where it reads, if
there is room: it would wait. In small buffers more of them leave too little choice."""


class ListScheduler:
    """Takes commands as they come, and before each of them some loads of later ones.

    Loads keep their order, so those that went ahead are always the next ones, and the latest of
    them can be withdrawn: nothing has used it yet.

    Parameters
    ----------
    tiling : Tiling
        The commands.
    uses : Uses
        What their buffers are needed for.
    leads : sequence of int
        For each command, loads that may go ahead of it; fewer if they are large.
    fixed : mapping of Buffer to int
        Rows of buffers whose places are known, and which do not live earlier than in the tiling's
        order. All else goes around them.

    Attributes
    ----------
    now : int
        The command that is taken; if the run has failed, the one that found no place.
    """

    def __init__(
        self,
        tiling: Tiling,
        config: Config,
        uses: Uses,
        leads: Sequence[int],
        fixed: Mapping[Buffer, int],
    ) -> None:
        self._ops, self._uses, self._leads, self._fixed = tiling.ops, uses, leads, fixed
        self.now = 0
        self._row_bytes = config.row_bytes
        self._most_ahead = config.ub_rows // _SHARE
        self._allocator = Allocator(tiling.first_row, config.ub_rows, config.ub_banks)
        coming = sorted((uses.spans[each][0], row, row + each.rows) for each, row in fixed.items())
        self._coming_times = [first for first, _, _ in coming]
        self._coming_places = [(start, stop) for _, start, stop in coming]
        self._leaving: tuple[int, int] | None = None  # rows of the last STORE
        self._left = 0  # commands for which nothing else is put there
        self._needed = 0  # loads that have come in the tiling's order
        self._load_positions: list[int] = []  # in the final order, of the loads that are in it
        self._order: list[int | None] = []
        self._rows: dict[Buffer, int] = {}

    def run(self) -> tuple[list[int], dict[Buffer, int]] | Shortage:
        """Return indices of the commands in their final order, and the rows of all places."""
        order, positions, ending = self._order, self._load_positions, self._uses.ending
        for index, op in enumerate(self._ops):
            self.now = index
            if op.opcode is not Opcode.LOAD:
                self._left -= 1
                if self._left < 0:
                    self._leaving = None
            if op.opcode is Opcode.LOAD:
                self._needed += 1
                if len(positions) < self._needed:
                    if not self._place(index):
                        return self._shortage(index)
                    self._emit_load(index)
            else:
                # Places first: what goes ahead must not take those of what comes now.
                if not self._place(index):
                    return self._shortage(index)
                self._prefetch(index)
                order.append(index)
            for buffer in ending.get(index, ()):
                if op.opcode is Opcode.STORE:
                    row = self._allocator.row(buffer)
                    self._leaving, self._left = (row, row + buffer.rows), _LEAVING
                self._allocator.free(buffer)
        return [index for index in order if index is not None], self._rows

    def _prefetch(self, now: int) -> None:
        """Put loads before the command ``now``."""
        uses, done = self._uses, len(self._load_positions)
        ahead = sum(self._moved(index) for index in uses.loads[self._needed : done])
        for index in uses.loads[done : self._needed + self._leads[now]]:
            rows = self._moved(index)
            if ahead and ahead + rows > self._most_ahead:
                return
            ahead += rows
            if uses.after.get(index, -1) >= now or not self._fit(index, now):
                return
            self._emit_load(index)

    def _moved(self, index: int) -> int:
        """Return the rows that a LOAD writes."""
        fields = self._ops[index].fields
        return fields["lines"] * fields["rows"]

    def _emit_load(self, index: int) -> None:
        self._load_positions.append(len(self._order))
        self._order.append(index)

    def _place(self, index: int) -> bool:
        """Give every buffer of a command a place, at the cost of loads that went ahead of it.

        Return whether there is one.
        """
        while not self._fit(index, index):
            if len(self._load_positions) <= self._needed:
                return False
            self._withdraw()
        return True

    def _fit(self, index: int, now: int) -> bool:
        """Give every buffer of a command a place from ``now`` on; return whether there is one."""
        allocator, spans, fixed = self._allocator, self._uses.spans, self._fixed
        for buffer in self._uses.wanted[index]:
            if buffer in allocator:
                continue
            first, last = spans[buffer]
            if buffer in fixed:
                if now < first:
                    return False
                allocator.take(buffer, fixed[buffer])
            elif not self._allocate(buffer, now, last):
                return False
            self._rows[buffer] = allocator.row(buffer)
        return True

    def _allocate(self, buffer: Buffer, now: int, last: int) -> bool:
        """Find a place for a buffer, if possible not where the last STORE still reads."""
        blocked, allocate = self._blocked(now, last), self._allocator.allocate
        if self._leaving is not None and allocate(buffer, [*blocked, self._leaving]):
            return True
        return allocate(buffer, blocked)

    def _blocked(self, now: int, last: int) -> list[tuple[int, int]]:
        """Return the fixed places that are taken by commands from ``now`` to ``last``."""
        times = self._coming_times
        return self._coming_places[bisect_left(times, now) : bisect_right(times, last)]

    def _withdraw(self) -> None:
        """Undo the latest load that went ahead."""
        index = self._uses.loads[len(self._load_positions) - 1]
        self._order[self._load_positions.pop()] = None
        for buffer in self._uses.wanted[index]:
            if self._uses.spans[buffer][0] == index:
                self._allocator.free(buffer)

    def _shortage(self, index: int) -> Shortage:
        allocator = self._allocator
        buffer = next(each for each in self._uses.wanted[index] if each not in allocator)
        free, largest = allocator.free_rows
        return Shortage(
            buffer, free=free, largest=largest, row_bytes=self._row_bytes, allocator="online"
        )
