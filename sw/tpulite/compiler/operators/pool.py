"""Pooling, bound to shapes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Engine, Opcode
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.axis import Axis1D, Number, axes_of, ceil_div, cuts, grain
from tpulite.compiler.operators.operator import (
    Buffers,
    Constants,
    Cut,
    Extents,
    Operator,
    Resident,
    Shape,
    Site,
    Task,
    Tiling,
    block_cut,
    even_cut,
)
from tpulite.compiler.operators.transfer import DramTensor, load_constants
from tpulite.compiler.operators.words import (
    Batch,
    Computes,
    Loads,
    Needs,
    Origin,
    Step,
    Stores,
    commands,
    no_stores,
)
from tpulite.compiler.place.constants import common_record
from tpulite.compiler.plan.pool import PoolFacts, pool_rows, pool_strategies
from tpulite.compiler.plan.pool_windows import LARGEST_WINDOW
from tpulite.compiler.plan.requantizations import pool_requantization
from tpulite.compiler.plan.slabs import Room, Strategy, slab_bounds
from tpulite.graph.layers import Pool


class Pooling(Operator):
    """Pooling layer; follows :class:`tpulite.compiler.operators.operator.Operator`.

    Parameters
    ----------
    whole : bool
        Whether its window is the whole tensor, whatever that is.

    Attributes
    ----------
    facts : PoolFacts
        What its strategies depend on.
    fields : mapping of str to int
        Fields of all of its commands.

    Raises
    ------
    ValueError
        If a window is too large or may lie in the padding, or if the machine lacks the rounding.
    """

    def __init__(self, layer: Pool, config: Config, *, whole: bool = False) -> None:
        self.config, self.layer, self._whole = config, layer, whole
        if max(layer.window) > LARGEST_WINDOW and not whole:
            raise ValueError(
                f"{layer.title}: a window must cover {LARGEST_WINDOW} positions of an axis "
                f"or less, not {layer.window}"
            )
        if any(pad >= layer.window[i % 2] for i, pad in enumerate(layer.padding)):
            raise ValueError(
                f"{layer.title}: a window {layer.window} must not lie in padding {layer.padding}"
            )
        y, x = axes_of(layer.windows)
        maximum = layer.op == "max"
        self._records: dict[int, bytes] = {}
        rows = 0 if maximum else len(self.record(1)) // config.row_bytes
        if layer.op == "average" and not whole:  # as many as there are sizes of windows
            rows *= min(y.kernel, y.clipped + 1) * min(x.kernel, x.clipped + 1)
        self.facts = PoolFacts(config, y, x, rows, layer.vector_op)
        self.constants, self.zero_points = b"", (0, 0)
        self.key: Hashable | None = None
        summed = layer.op == "sum"
        self.fields = {
            "operation": layer.vector_op,
            "low": INT8[0] if summed else layer.low,
            "high": INT8[-1] if summed else layer.high,
        }

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries along height and width."""
        if self._whole:
            return Axis1D(height), Axis1D(width)
        return self.facts.y, self.facts.x

    def _facts_of(self, height: Number, width: Number) -> PoolFacts:
        if not self._whole:
            return self.facts
        y, x = self.axes_of(height, width)
        return replace(self.facts, y=y, x=x)

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        return self.facts.record_rows

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`pool_strategies`."""
        blocks = ceil_div(extents[3], self.config.array_size)
        return pool_strategies(self._facts_of(*extents[1:3]), extents[:3], blocks, room)

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy: slabs of rows, and panels of their columns."""
        facts, sizes = self._facts_of(shape.height, shape.width), strategy.sizes
        rows = pool_rows(facts, shape.batch, shape.height, shape.width, room)
        bounds = slab_bounds(strategy.mode, sizes["parts"], rows)
        unit = BEAT_BYTES // min(BEAT_BYTES, self.config.row_bytes)
        columns = even_cut("columns", facts.x.outputs(shape.width), sizes["panels"], unit)
        blocks = np.arange(sizes["groups"] + 1) * sizes["tile_blocks"]
        channels = block_cut(shape.channels, blocks, self.config.array_size)
        cut = Cut("rows", tuple(bounds.tolist())), columns, channels
        slots, first, input_rows = sizes["slots"], facts.record_rows, sizes["in_slot"]
        used = min(slots, prod(map(len, cut)))
        inputs = Buffers("input", used, first, input_rows)
        outputs = Buffers("output", used, first + slots * input_rows, sizes["out_slot"])
        return Tiling.of(cut, (inputs, outputs))

    @classmethod
    def steps(cls, tasks: Sequence[Task["Pooling"]], constants: Constants) -> list[Step]:
        """Return the steps of all pooling layers."""
        return [task.operator._step(task, constants) for task in tasks]

    def _step(self, task: Task["Pooling"], constants: Constants) -> Step:
        shape, strategy, site = task.shape, task.strategy, task.site
        commands = PoolCommands(self._facts_of(shape.height, shape.width), shape, strategy, site)
        records, param_row = self._parameters(*commands.sizes)
        rows = len(records) // self.config.row_bytes
        first = constants.add(records) - task.offset if rows else 0
        return commands.step(self.fields, param_row, first, rows)

    def _parameters(self, y: np.ndarray, x: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return the records that windows of some sizes need, and the row of each one's."""
        if self.layer.op != "average":
            records = b"" if self.layer.op == "max" else self.record(1)
            return records, np.zeros((len(y), len(x)), np.int64)
        counts, index = np.unique(y[:, None] * x, return_inverse=True)
        records = [self.record(count) for count in counts.tolist()]
        rows = len(records[0]) // self.config.row_bytes
        return b"".join(records), index.reshape(len(y), len(x)) * rows

    def record(self, count: int) -> bytes:
        """Return the record of windows of ``count`` vectors."""
        if count not in self._records:
            requantization = pool_requantization(self.layer, count)
            self._records[count] = common_record(requantization, self.config).tobytes()
        return self._records[count]


class PoolCommands:
    """Commands of one shape.

    Parameters
    ----------
    shape : Shape
        Shape of its input.
    strategy : Strategy
        How to cut it up.
    site : Site
        Where everything is.

    Attributes
    ----------
    sizes : tuple of two arrays of int
        Rows of the windows of each part of the height, and columns of those of the width: in a
        region of two parts all windows are alike.
    """

    def __init__(self, facts: PoolFacts, shape: Shape, strategy: Strategy, site: Site) -> None:
        self._facts, self._shape, sizes = facts, shape, strategy.sizes
        self._source, self._target = site.sources[0], site.target
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        room = Room(0, (sourced,), stored)
        self._rows = rows = pool_rows(facts, *shape[:3], room)
        self._columns = facts.x.outputs(shape.width)
        self._groups, self._blocks, self._panels = (
            sizes[name] for name in ("groups", "tile_blocks", "panels")
        )
        # What each slab and each panel computes, and what it reads.
        self._cut = strategy.kind.endswith("panel")
        self._slots = slots = sizes["slots"]
        self._bounds = slab_bounds(strategy.mode, sizes["parts"], rows)
        self._top, self._bottom = facts.y.reads(
            self._bounds[:-1], self._bounds[1:], shape.height, grain(rows.in_bytes)
        )
        unit = BEAT_BYTES // min(BEAT_BYTES, facts.config.row_bytes)
        self._across = cuts(self._columns, self._panels, unit)
        self._left, self._right = facts.x.reads(
            self._across[:-1], self._across[1:], shape.width, unit
        )
        # Tiles: slabs, then panels, then groups of blocks.
        counts = len(self._top), self._panels, self._groups
        self._tile = tile = np.arange(counts[0] * counts[1] * counts[2])
        self._slab, self._panel, group = np.unravel_index(tile, counts)
        self._first_block = group * self._blocks
        # Places: records, inputs, outputs.
        self._in_pitch, self._out_pitch = sizes["in_columns"], sizes["out_columns"]
        self._in_block = sizes["in_rows"] * self._in_pitch
        self._out_block = sizes["slab_rows"] * self._out_pitch
        in_slot, out_slot = sizes["in_slot"], sizes["out_slot"]
        first = facts.record_rows
        self._in_row = first + tile % slots * in_slot
        self._out_row = first + slots * in_slot + tile % slots * out_slot
        self._seen, self._done = self._top, self._bounds[:-1]
        if isinstance(self._source, Resident):
            self._in_block = self._source.block_rows
            self._in_row = self._first_block * self._in_block
            self._seen = np.zeros_like(self._top)
        if isinstance(self._target, Resident):
            self._out_block = self._target.block_rows
            self._out_row = self._first_block * self._out_block
            self._done = np.zeros_like(self._done)
        self._cut_axes()

    def _cut_axes(self) -> None:
        """Cut both axes where slabs, panels and images begin, and where windows change."""
        facts, shape = self._facts, self._shape
        images = np.arange(shape.batch)[:, None] * self._rows.out_height
        runs = (images + facts.y.runs(shape.height)).ravel()
        y = np.union1d(self._bounds, runs)
        x = np.union1d(self._across, facts.x.runs(shape.width))
        self._y, self._y_count = y[:-1], np.diff(y)
        self._x, self._x_count = x[:-1], np.diff(x)
        image, row = np.divmod(self._y, self._rows.out_height)
        first, stop = facts.y.clip(row, shape.height)
        self._y_from = image * shape.height + first
        self._x_from, right = facts.x.clip(self._x, shape.width)
        self.sizes = stop - first, right - self._x_from

    def step(
        self, fields: Mapping[str, int], param_row: np.ndarray, records: int, rows: int
    ) -> Step:
        """Return all commands.

        Parameters
        ----------
        fields : mapping of str to int
            Fields that are the same for all shapes.
        param_row : array of int
            Row of the record of each pair of parts, from the first one on.
        records, rows : int
            Where the records begin, counted from the layer's constants, and their rows.
        """
        words, owner = self._pool(fields, param_row)
        count = len(self._tile)
        starts = np.searchsorted(owner, np.arange(count + 1))
        first, last = starts[:-1], starts[1:] - 1
        loads = []
        if rows:
            zero = np.zeros(1, np.int64)
            place = load_constants(records, rows, zero)
            loads.append(Loads(place, zero, zero))
        stop = (self._bottom * self._shape.width)[self._slab]
        reads, slot_freed = {}, None
        if isinstance(self._source, DramTensor):
            freed = np.full(count, -1)
            freed[self._slots :] = last[: -self._slots]
            loads.append(Loads(self._load(self._source), first, first, freed, 0, Needs(stop)))
        else:
            reads[0] = Needs(stop[owner])
        begins = (self._bounds[:-1] * self._columns)[self._slab]
        stores = no_stores()
        if isinstance(self._target, DramTensor):
            stores = Stores(self._store(self._target), last)
            slot_freed = np.maximum(owner - self._slots, -1)
        else:
            begins = begins[owner]
        computes = Computes(Engine.VPU, words, freed=slot_freed, reads=reads)
        return Step(tuple(loads), computes, stores, begins)

    def _pool(self, fields: Mapping[str, int], param_row: np.ndarray) -> tuple[Batch, np.ndarray]:
        """Return VECTORs in order, and the tile of each."""
        slab = np.searchsorted(self._bounds, self._y, "right") - 1
        panel = np.searchsorted(self._across, self._x, "right") - 1
        # If no part has two rows, the rows of a command are the blocks of a tile.
        whole = int(self._y_count.max()) == 1
        each = (slab[:, None] * self._panels + panel) * self._groups
        each = each[:, :, None, None] + np.arange(self._groups)[:, None]
        each = np.broadcast_to(each, (*each.shape[:3], 1 if whole else self._blocks))
        order = np.argsort(each, axis=None, kind="stable")
        i, j, _, block = np.unravel_index(order, each.shape)
        tile = each.ravel()[order]

        down, right = self._y_from - self._seen[slab], self._x_from - self._left[panel]
        a_row = self._in_row[tile] + block * self._in_block
        a_row += down[i] * self._in_pitch + right[j]
        down, right = self._y - self._done[slab], self._x - self._across[panel]
        out_row = self._out_row[tile] + block * self._out_block
        out_row += down[i] * self._out_pitch + right[j]
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        origins = {
            "a_row": Origin.TILES if sourced else Origin.SOURCE,
            "out_row": Origin.TILES if stored else Origin.TARGET,
            "param_row": Origin.TILES,
        }
        words = commands(
            Opcode.VECTOR,
            len(order),
            origins,
            **fields,
            rows=self._blocks if whole else self._y_count[i],
            columns=self._x_count[j],
            a_row=a_row,
            a_pitch=self._in_block if whole else self._in_pitch * self._facts.y.stride,
            a_step=self._facts.x.stride,
            window_rows=self.sizes[0][i],
            window_columns=self.sizes[1][j],
            window_pitch=self._in_pitch,
            out_row=out_row,
            out_pitch=self._out_block if whole else self._out_pitch,
            out_step=1,
            param_row=param_row[i, j],
        )
        return words, tile

    def _load(self, source: DramTensor) -> Batch:
        width, height = self._shape.width, self._bottom - self._top
        if self._cut:
            return source.rectangles(
                Opcode.LOAD,
                self._first_block,
                self._top[self._slab] * width + self._left[self._panel],
                (height[self._slab], (self._right - self._left)[self._panel]),
                width,
                self._in_row,
                self._in_pitch,
            )
        return self._slabs(
            Opcode.LOAD, source, self._top * width, height * width, self._in_row, self._in_block
        )

    def _store(self, target: DramTensor) -> Batch:
        height = np.diff(self._bounds)
        if self._cut:
            return target.rectangles(
                Opcode.STORE,
                self._first_block,
                self._bounds[self._slab] * self._columns + self._across[self._panel],
                (height[self._slab], np.diff(self._across)[self._panel]),
                self._columns,
                self._out_row,
                self._out_pitch,
            )
        first = self._bounds[:-1] * self._columns
        return self._slabs(
            Opcode.STORE, target, first, height * self._columns, self._out_row, self._out_block
        )

    def _slabs(
        self,
        opcode: Opcode,
        tensor: DramTensor,
        first: np.ndarray,
        length: np.ndarray,
        row: np.ndarray,
        pitch: int,
    ) -> Batch:
        """Encode transfers of whole rows of the blocks of each tile."""
        # A number, if it is the only one, tells whether blocks lie without a gap.
        size = length[self._slab] if len(length) > 1 else int(length[0])
        blocks = self._first_block, self._blocks
        return tensor.transfer(opcode, blocks, (first[self._slab], size), row, pitch)
