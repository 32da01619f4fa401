"""From when to when buffers live: what scheduling hands to allocation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from tpulite.compiler.ops import Buffer, Op


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a buffer is needed."""

    buffer: Buffer  #: Whose rows and bank are to be placed.
    #: Positions of the first and the last command that touch it, in the final order. Buffers that
    #: one command touches live at the same time.
    first: int
    last: int


@dataclass(frozen=True)
class Schedule:
    """The commands in their final order, and how long each buffer lives."""

    ops: tuple[Op, ...]  #: The commands, without END; a legal serial execution.
    #: Of every buffer that is not resident, in the order of first use.
    lifetimes: tuple[Lifetime, ...]
    #: Buffers that are made in place, each with the buffer that had the place first.
    joined: Mapping[Buffer, Buffer]
    #: First rows of all buffers of ``lifetimes``, as found while scheduling.
    rows: Mapping[Buffer, int]
    first_row: int  #: First row of the unified buffer that may be given out.
    #: Loads that went ahead of a command: fewer than were asked for, if the space was too short.
    lead: int
    #: Buffers that may begin in any bank, because there was no other place.
    anywhere: frozenset[Buffer] = frozenset()

    @property
    def places(self) -> tuple[Lifetime, ...]:
        """Lifetimes of places: of all buffers that are made in one place, together."""
        if not self.joined:
            return self.lifetimes
        spans: dict[Buffer, tuple[int, int]] = {}
        for each in self.lifetimes:
            root = self.joined.get(each.buffer, each.buffer)
            first, last = spans.get(root, (each.first, each.last))
            spans[root] = min(first, each.first), max(last, each.last)
        return tuple(Lifetime(buffer, *span) for buffer, span in spans.items())

    @property
    def bound(self) -> int:
        """Rows that every placement takes at least: the most that live at one time."""
        return lower_bound(self.places)


def find_lifetimes(ops: Iterable[Op]) -> tuple[Lifetime, ...]:
    """Return the lifetimes of all buffers that are not resident, in the order of first use."""
    spans: dict[Buffer, list[int]] = {}
    for position, op in enumerate(ops):
        for region in op.rows.values():
            buffer = region.buffer
            if buffer in spans:
                spans[buffer][1] = position
            elif buffer.row is None:
                spans[buffer] = [position, position]
    return tuple(Lifetime(buffer, first, last) for buffer, (first, last) in spans.items())


def lower_bound(places: Iterable[Lifetime]) -> int:
    """Return the largest sum of the rows that are live at one time, the peak.

    Examples
    --------
    >>> a, b, c = (Buffer(name, 10) for name in "abc")
    >>> lower_bound([Lifetime(a, 0, 2), Lifetime(b, 2, 3), Lifetime(c, 3, 4)])
    20
    """
    changes: dict[int, int] = {}
    for each in places:
        rows = each.buffer.rows
        changes[each.first] = changes.get(each.first, 0) + rows
        changes[each.last + 1] = changes.get(each.last + 1, 0) - rows
    return max(accumulate(changes[position] for position in sorted(changes)), default=0)
