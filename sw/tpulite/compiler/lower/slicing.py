"""Running a group slice by slice: every layer computes its rows of a step, then the next step.

Layers around a softmax are a software pipeline: while the vector path computes shares of a step,
the array computes products of the next step, and of the step before.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any

from tpulite.compiler.geometry.cut import split
from tpulite.compiler.geometry.group import Group, Step, StepRows
from tpulite.compiler.geometry.slices import plan_steps, step_delays
from tpulite.compiler.lower.lowering import LayerContext, Lowering, copy_ops
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.graph.layers import Layer, LayerGraph, Made, Pool


class SlicedGroup:
    """The slices of a group.

    Parameters
    ----------
    group : Group
        Layers that run together.
    stores : mapping of str to Store
        Images that they read and write. Of those that are not resident only strips are on chip.
    parted : bool
        Whether what the first step loads comes in parts.
    """

    def __init__(
        self, layers: LayerGraph, group: Group, stores: Mapping[str, Store], *, parted: bool = True
    ) -> None:
        self._group, self._graph = group, layers
        self._layers = {i: layers.layers[i] for i in group.layers}
        self._computed = {layer.output for layer in self._layers.values()}
        read = {name for layer in self._layers.values() for name in layer.inputs}
        # What is computed by rows, and nobody reads here, leaves part by part.
        parts = {x.output for x in self._layers.values() if x.made is Made.BY_ROWS} - read
        self._rolling = {
            name: RollingStore.rolling(store, loaded=name not in self._computed, parted=parted)
            for name, store in stores.items()
            if not store.resident and (name not in parts or store.grain > 1)
        }
        self.stores = {**stores, **self._rolling}

    def ops(
        self, lowerings: Mapping[int, tuple[LayerContext, Lowering]], *, again: bool
    ) -> Iterator[Op]:
        """Yield all commands.

        Parameters
        ----------
        lowerings : mapping of int to (LayerContext, Lowering)
            Of each layer, made with :attr:`stores`.
        again : bool
            Whether constants that do not stay were loaded before.
        """
        grains = {x.name: x.grain for x in self._rolling.values() if x.spec is not None}
        steps = plan_steps(self._graph, self._group, grains=grains)
        delays = step_delays(self._graph, self._group.layers, pipelined=self._group.pipelined)
        latest = max(delays.values())
        made: list[list[list[Op]]] = []  # by step and delay
        for time in range(len(steps) + latest):
            if time < len(steps):
                made.append([[] for _ in range(latest + 1)])
                following = steps[time + 1] if time + 1 < len(steps) else None
                for op in self._step(lowerings, steps[time], following, again=again or time > 0):
                    made[time][delays[op.layer]].append(op._replace(slice=time))
            # What is behind goes first: it must not wait for what is computed at the same time.
            for delay in range(latest, -1, -1):
                if 0 <= time - delay < len(steps):
                    yield from made[time - delay][delay]

    def _step(
        self,
        lowerings: Mapping[int, tuple[LayerContext, Lowering]],
        step: Step,
        following: Step | None,
        *,
        again: bool,
    ) -> Iterator[Op]:
        """Yield the commands of a slice."""
        moved = set(self._computed)
        for i, (context, lowering) in lowerings.items():
            layer = self._layers[i]
            for name in (*layer.inputs, layer.output):
                if name in self._rolling and (name == layer.output or name not in moved):
                    moved.add(name)
                    yield from self._advance(name, layer, step, context)
            if isinstance(layer, Pool) and following is not None:
                # The matrix unit would wait for copies behind all these windows.
                yield from self._prepare(i, following, context)
            if rows := step[layer.output].new:
                yield from lowering.ops(rows, again=again)

    def _advance(self, name: str, layer: Layer, step: Step, context: LayerContext) -> Iterator[Op]:
        over = []
        if name == layer.output and layer.in_place:
            sources = (self._rolling[x] for x in layer.inputs if x in self._rolling)
            over = [source.view for source in sources if source.view is not None]
        yield from self._rolling[name].advance(step[name], context, over)

    def _prepare(self, index: int, step: Step, context: LayerContext) -> Iterator[Op]:
        """Move on with all images that this layer and those before it read."""
        before = (layer for i, layer in self._layers.items() if i <= index)
        for name in dict.fromkeys(name for layer in before for name in layer.inputs):
            if name in self._rolling:
                yield from self._rolling[name].prepare(step[name], context)


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
