"""The commands of a depthwise convolution of known extents."""

from collections.abc import Mapping

import numpy as np

from tpulite.arch.isa import CONV, Axis, Drain, Engine, Opcode
from tpulite.compiler.bind.conv_regions import clip_image
from tpulite.compiler.bind.depthwise_plan import FilterFacts, filter_rows, pitch_of
from tpulite.compiler.bind.operator import Resident, Site
from tpulite.compiler.bind.steps import Computes, Indices, Loads, Needs, Step, Stores, no_stores
from tpulite.compiler.bind.transfer import DramTensor, load_constants
from tpulite.compiler.bind.words import Batch, Origin, commands
from tpulite.compiler.plan.closed_forms import grain
from tpulite.compiler.plan.slabs import slab_bounds
from tpulite.compiler.plan.strategy import Room, Strategy
from tpulite.compiler.plan.windows import join_bounds

__all__ = ["depthwise_step"]

_SIZE = CONV.limit("width")


def depthwise_step(
    facts: FilterFacts,
    extents: tuple[int, int, int],
    strategy: Strategy,
    site: Site,
    fields: Mapping[str, int],
) -> Step:
    """Return the commands of a depthwise convolution.

    Parameters
    ----------
    facts : FilterFacts
        The layer.
    extents : tuple of int
        Batch, height and width of its input.
    strategy : Strategy
        How to cut it up.
    site : Site
        Where everything is.
    fields : mapping of str to int
        Fields that are the same for all shapes.
    """
    return _Commands(facts, extents, strategy, site).step(fields)


class _Commands:
    def __init__(
        self,
        facts: FilterFacts,
        extents: tuple[int, int, int],
        strategy: Strategy,
        site: Site,
    ) -> None:
        self._facts, self._sizes = facts, strategy.sizes
        self._batch, self._height, self._width = extents
        self._source, self._target = site.sources[0], site.target
        self._pattern = facts.weights.patterns[strategy.sizes["pattern"]]
        kind, _, mode = strategy.name.partition("/")
        self._stays = kind.startswith("resident")
        sizes, self._size = strategy.sizes, facts.config.array_size
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        self._rows = rows = filter_rows(facts, extents, Room(0, (sourced,), stored))
        self._columns = facts.x.outputs(self._width)
        self._bounds = slab_bounds(mode, sizes["parts"], rows)
        self._top, self._bottom = facts.y.reads(self._bounds, self._height, grain(rows.in_bytes))
        self._slots = sizes["slots"]
        # Tiles: slabs, then blocks. Places: inputs, outputs, weights, zeros.
        slabs = len(self._bounds) - 1
        self._tile = np.arange(slabs * facts.blocks)
        self._slab, self._block = np.divmod(self._tile, facts.blocks)
        self._pitch = pitch_of(self._width, facts.config)
        self._in_row = self._tile % self._slots * sizes["in_slot"]
        first = self._slots * sizes["in_slot"]
        self._out_row = first + self._tile % self._slots * sizes["out_slot"]
        self._weights = first + self._slots * sizes["out_slot"]
        self._zeros = sizes["tile_rows"] - self._size
        self._seen, self._done = self._top, self._bounds[:-1]
        if isinstance(self._source, Resident):
            self._pitch = self._width
            self._in_row = self._block * self._source.block_rows
            self._seen = np.zeros_like(self._top)
        if isinstance(self._target, Resident):
            self._out_row = self._block * self._target.block_rows
            self._done = np.zeros_like(self._done)
        self._cut_regions()
        self._order()

    def _cut_regions(self) -> None:
        """Cut slabs at images, and into what one stream computes."""
        facts, pattern = self._facts, self._pattern
        images = np.arange(self._batch + 1) * self._rows.out_height
        edges = join_bounds(self._bounds, images)
        widest = (_SIZE - facts.x.extent) // facts.x.stride + 1
        accumulators = facts.config.acc_rows
        if pattern.inner == Axis.Y:
            columns = min(self._columns, widest, accumulators)
            lines = min(pattern.most, max(1, accumulators // columns))
        else:
            columns = min(pattern.most, self._columns)
            lines = max(1, accumulators // columns)
        y = _cut(edges, lines)
        x = np.append(np.arange(0, self._columns, columns), self._columns)
        slab = np.searchsorted(self._bounds, y[:-1], "right") - 1
        across = len(x) - 1
        self._r_slab = np.repeat(slab, across)
        self._r_row, self._r_rows = np.repeat(y[:-1], across), np.repeat(np.diff(y), across)
        self._r_column = np.tile(x[:-1], len(y) - 1)
        self._r_columns = np.tile(np.diff(x), len(y) - 1)

    def _order(self) -> None:
        """Order commands: tiles, regions, pieces of the kernel."""
        regions, blocks = len(self._r_slab), self._facts.blocks
        pieces = len(self._pattern.taps) + (not self._facts.at_once)
        block = np.repeat(np.arange(blocks), regions * pieces)
        region = np.tile(np.repeat(np.arange(regions), pieces), blocks)
        piece = np.tile(np.arange(pieces), regions * blocks)
        if len(self._bounds) > 2:
            order = np.argsort(self._r_slab[region], kind="stable")
            block, region, piece = block[order], region[order], piece[order]
        self._c_region, self._c_piece = region, piece
        self._c_tile = self._r_slab[region] * blocks + block
        self._first = np.searchsorted(self._c_tile, self._tile)
        self._last = np.append(self._first[1:], len(self._c_tile)) - 1

    def step(self, fields: Mapping[str, int]) -> Step:
        """Return all commands."""
        loads, weight_row, record_row, early = self._load_weights()
        reads, freed = {}, None
        needs = Needs((self._bottom * self._width)[self._slab], self._block)
        blocks = self._block
        if isinstance(self._source, DramTensor):
            loads.append(self._load_inputs(self._source, needs))
        else:
            reads[0] = Needs(needs.stop[self._c_tile], self._block[self._c_tile])
        begins, stores = (self._bounds[:-1] * self._columns)[self._slab], no_stores()
        if isinstance(self._target, DramTensor):
            stores = Stores(self._store(self._target), self._last)
            freed = np.maximum(self._c_tile - self._slots, -1)
        else:
            begins, blocks = begins[self._c_tile], blocks[self._c_tile]
        words = self._convolve(weight_row, record_row, fields)
        if not self._facts.at_once:
            zero = np.zeros(1, np.int64)
            at = self._facts.weights.zeros
            place = load_constants(at, self._size, zero + self._zeros)
            loads.append(Loads(place, zero, zero))
        computes = Computes(Engine.MXU, words, freed=freed, early=early, reads=reads)
        return Step(tuple(loads), computes, stores, begins, blocks)

    def _load_weights(self) -> tuple[list[Loads], Indices, Indices, Indices]:
        """Return LOADs, and for each command the rows of its tile and records, and the LOAD."""
        facts, pattern = self._facts, self._pattern
        inner = self._r_rows if pattern.inner == Axis.Y else self._r_columns
        low, high = 1, 1
        if pattern.numbers > 1:
            low, high = int(inner.min()), int(inner.max())
        each, records = pattern.tile_rows(self._size), facts.weights.record_rows
        slot = facts.block_rows(pattern)
        use = self._tile if not self._stays else np.arange(facts.blocks)
        block = self._block[use]
        row = self._weights + use % self._sizes["weight_slots"] * slot
        tiles = pattern.offset + (block * pattern.numbers + low - 1) * each * self._row_bytes
        words = (
            load_constants(tiles, (high - low + 1) * each, row + records),
            load_constants(block * records * self._row_bytes, records, row),
        )
        first = self._first[use]
        freed = None
        if not self._stays:
            freed = np.full(len(use), -1)
            freed[self._slots :] = self._last[: -self._slots]
        mine = self._c_tile if not self._stays else self._block[self._c_tile]
        number = inner[self._c_region] - low if pattern.numbers > 1 else 0
        place = row[mine] + records + number * each
        place = place + np.minimum(self._c_piece, len(pattern.taps) - 1) * self._size
        # LOADs of one tile are executed one after the other: the records come second.
        loads = [Loads(each, first, first, freed) for each in words]
        return loads, place, row[mine], mine + len(use)

    @property
    def _row_bytes(self) -> int:
        return self._facts.config.row_bytes

    def _load_inputs(self, source: DramTensor, needs: Needs) -> Loads:
        freed = np.full(len(self._tile), -1)
        freed[self._slots :] = self._last[: -self._slots]
        top, height = self._top[self._slab], (self._bottom - self._top)[self._slab]
        if self._pitch == self._width:
            region = top * self._width, height * self._width
            words = source.transfer(Opcode.LOAD, (self._block, 1), region, self._in_row, 0)
        else:
            words = source.rectangles(
                Opcode.LOAD,
                self._block,
                top * self._width,
                (height, np.full_like(height, self._width)),
                self._width,
                self._in_row,
                self._pitch,
            )
        return Loads(words, self._first, self._first, freed, 0, needs)

    def _convolve(
        self, weight_row: Indices, record_row: Indices, fields: Mapping[str, int]
    ) -> Batch:
        facts, taps, region = self._facts, self._pattern.taps, self._c_region
        pieces, tile = len(taps), self._c_tile
        piece = np.minimum(self._c_piece, pieces - 1)
        image, oy = np.divmod(self._r_row, self._rows.out_height)
        rows, columns = self._r_rows[region], self._r_columns[region]
        pad_top, height, y = clip_image(
            facts.y, oy[region], rows, (taps.row[piece], taps.rows[piece]), self._height
        )
        pad_left, width, x = clip_image(
            facts.x,
            self._r_column[region],
            columns,
            (taps.column[piece], taps.columns[piece]),
            self._width,
        )
        slab = self._r_slab[region]
        down = np.maximum(image[region] * self._height + y - self._seen[slab], 0)
        out = (self._r_row[region] - self._done[slab]) * self._columns + self._r_column[region]
        final = self._c_piece == self._c_piece.max()
        values: dict[str, np.ndarray | int] = {
            **fields,
            "rows": rows,
            "columns": columns,
            "act_row": self._in_row[tile] + down * self._pitch + x,
            "act_pitch": self._pitch,
            "height": height,
            "width": width,
            "pad_top": pad_top,
            "pad_left": pad_left,
            "kernel_rows": taps.rows[piece],
            "kernel_columns": taps.columns[piece],
            "weight_row": weight_row,
            "depthwise": 1,
            "accumulate": (self._c_piece > 0).astype(np.int64),
            "drain": final * int(Drain.REQUANTIZE),
        }
        if not facts.at_once:  # the last command multiplies anything by zero
            alone = final.astype(np.int64)
            for name, value in values.items():
                one = name in ("stride_y", "stride_x", "height", "width") or "kernel" in name
                zero = name in ("pad_top", "pad_left", "depthwise")
                if one or zero:
                    values[name] = np.where(alone, int(one), value)
            values["weight_row"] = np.where(alone, self._zeros, weight_row)
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        origins = {
            "act_row": Origin.TILES if sourced else Origin.SOURCE,
            "weight_row": Origin.TILES,
            "record_row": Origin.TILES,
            "out_row": Origin.TILES if stored else Origin.TARGET,
            "pad": Origin.INPUT_ZERO,
            "weight_zero_point": Origin.WEIGHT_ZERO,
        }
        return commands(
            Opcode.CONV,
            len(region),
            origins,
            **values,
            pad=0,
            weight_zero_point=0,
            inner=int(self._pattern.inner),
            blocks=1,
            record_row=record_row,
            out_row=self._out_row[tile] + out,
            out_pitch=self._columns,
            out_step=1,
        )

    def _store(self, target: DramTensor) -> Batch:
        height = np.diff(self._bounds)[self._slab] * self._columns
        first = (self._bounds[:-1] * self._columns)[self._slab]
        return target.transfer(Opcode.STORE, (self._block, 1), (first, height), self._out_row, 0)


def _cut(edges: Indices, length: int) -> Indices:
    """Cut pieces into parts of ``length``; the last one of each may be shorter."""
    counts = -(-np.diff(edges) // length)
    piece = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(piece)) - (np.cumsum(counts) - counts)[piece]
    return np.append(edges[:-1][piece] + part * length, edges[-1])
