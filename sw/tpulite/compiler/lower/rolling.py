"""Images of which a group keeps only the rows that it still needs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any

from tpulite.compiler.geometry.cut import split
from tpulite.compiler.geometry.group import StepRows
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.vector_commands import copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.space import Made

_FIRST = 256
"""Rows of the buffer that a LOAD of the first step writes: the array waits for the first of them,
but no longer for all."""


@dataclass
class Rolled:
    """Which rows of an image are there, which come next, and LOADs of the first step to come."""

    view: View | None = None
    coming: View | None = None
    arriving: list[tuple[int, list[Op]]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class RollingStore(Store):
    """An image inside a group; to a layer it looks like any image that is resident.

    Each step has a strip of its own in the buffer. What the step before has computed and this one
    needs again is copied from strip to strip by the vector path.
    """

    loads: bool = False  #: Whether the group reads it from DRAM, instead of computing it.
    parted: bool = True  #: Whether that of the first step comes in parts.
    state: Rolled = field(default_factory=Rolled)  #: Where the group is.

    @classmethod
    def rolling(cls, store: Store, *, loaded: bool, parted: bool = True) -> "RollingStore":
        """Return an image as a group sees it: loaded from where it is in DRAM, or computed."""
        same: dict[str, Any] = {each.name: getattr(store, each.name) for each in fields(Store)}
        same["resident"] = True
        return cls(**same, loads=loaded, parted=parted)

    @property
    def view(self) -> View | None:
        """Where the rows of this step are."""
        return self.state.view

    def prepare(self, rows: StepRows, context: LayerContext, over: Iterable[View] = ()) -> list[Op]:
        """Return the commands that make room for the next rows, and load them if need be.

        The room may be that of one of the views in ``over``, which the rows are made from.
        They may come as soon as the rows of the step before are complete. Until :meth:`advance`
        the image has those.
        """
        if not rows.new or self.state.coming is not None:
            return []
        # In DRAM rows begin at beats only every few: those before are loaded, or stored, again.
        start = rows.new.start
        ops = self._arrive(self.height)
        if self.loads or self.stored:
            start = start // self.grain * self.grain
        first = min(rows.live.start, start)
        view = self.strip(range(first, rows.live.stop), over)
        kept = range(first, start if self.loads else rows.new.start)
        if kept:
            old = self.view
            assert old is not None and old.rows.start <= kept.start and kept.stop <= old.rows.stop
            ops += self._copies(old, view, kept, context)
        if self.loads and self.parted and self.view is None:
            self.state.arriving = self._parts(view, range(start, rows.new.stop), context.index)
        elif self.loads:
            ops += self.load(view, range(start, rows.new.stop), context.index)
        self.state.coming = view
        return ops

    def _parts(self, view: View, rows: range, layer: int) -> list[tuple[int, list[Op]]]:
        """Return the LOADs of rows in parts, each with its first row."""
        line = self.blocks * self.width * self.vector_rows
        count = -(-len(rows) // max(1, _FIRST // line))
        parts = (rows[part.start : part.stop] for part in split(len(rows), count, self.grain))
        return [(part.start, self._loads(view, part, layer)) for part in parts]

    def _loads(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the LOADs of rows, that of the last channel block last if it is complete last."""
        blocks, last = range(self.blocks), self.blocks - 1
        if self.made is not Made.BY_BLOCKS or not last:
            return self.load(view, rows, layer)
        most = self.some_blocks(blocks[:last]).load(view, rows, layer)
        return most + self.some_blocks(blocks[last:]).load(view.behind(last), rows, layer)

    def _arrive(self, stop: int) -> list[Op]:
        """Return the LOADs of parts that begin before a row and have not come yet."""
        found: list[list[Op]] = []
        while self.state.arriving and self.state.arriving[0][0] < stop:
            found.append(self.state.arriving.pop(0)[1])
        return [op for ops in zip_longest(*found) for op in ops if op is not None]

    def _copies(self, old: View, new: View, rows: range, context: LayerContext) -> Iterator[Op]:
        """Yield COPYs of rows: all blocks at once if the rows follow each other without a gap."""
        width = self.width * self.vector_rows
        if old.pitch == width:
            places = (old.at(rows.start), new.at(rows.start))
            extents = (self.blocks, len(rows) * width)
            yield from copy_ops(
                context, places, extents, (old.block_pitch, 1), (new.block_pitch, 1)
            )
            return
        for block in range(self.blocks):
            places = (old.at(rows.start, 0, block), new.at(rows.start, 0, block))
            extents = (len(rows), width)
            yield from copy_ops(context, places, extents, (old.pitch, 1), (new.pitch, 1))

    def advance(self, rows: StepRows, context: LayerContext, over: Iterable[View] = ()) -> list[Op]:
        """Go to the next rows; return the commands that were not prepared."""
        ops = self.prepare(rows, context, over)
        if rows.new:
            self.state.view, self.state.coming = self.state.coming, None
        return ops

    def read(self, rows: range, layer: int) -> tuple[View, list[Op]]:
        """Return where rows can be read, and the LOADs of those of the first step."""
        return self._current(rows), self._arrive(rows.stop)

    def open(self, rows: range, over: Iterable[View] = ()) -> View:
        """Return where rows can be written."""
        return self._current(rows)

    def _current(self, rows: range) -> View:
        view = self.view
        assert view is not None
        assert (
            view.rows.start <= max(rows.start, 0) <= min(rows.stop, self.height) <= view.rows.stop
        )
        return view
