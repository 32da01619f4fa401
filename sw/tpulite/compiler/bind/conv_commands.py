"""The commands of a convolution of known extents."""

from collections.abc import Mapping

import numpy as np

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.isa import Drain, Engine, Opcode
from tpulite.compiler.bind.conv_plan import ConvFacts, Extents, Slots
from tpulite.compiler.bind.conv_regions import clip_image, cut_regions
from tpulite.compiler.bind.operator import Resident, Site
from tpulite.compiler.bind.steps import Computes, Loads, Needs, Step, Stores, no_stores
from tpulite.compiler.bind.transfer import DramTensor, load_constants
from tpulite.compiler.bind.words import Batch, Origin, commands
from tpulite.compiler.plan.closed_forms import cuts, grain
from tpulite.compiler.plan.slabs import slab_bounds
from tpulite.compiler.plan.strategy import Room, Strategy

__all__ = ["conv_step"]


def conv_step(
    facts: ConvFacts,
    extents: Extents,
    strategy: Strategy,
    site: Site,
    fields: Mapping[str, int],
    drain: Drain,
) -> Step:
    """Return the commands of a convolution.

    Parameters
    ----------
    facts : ConvFacts
        The convolution.
    extents : Extents
        Extents of its tensors.
    strategy : Strategy
        How to cut them up.
    site : Site
        Where everything is.
    fields : mapping of str to int
        Fields that are the same for all shapes.
    drain : Drain
        What becomes of complete sums.
    """
    return _Commands(facts, extents, strategy, site).step(fields, drain)


class _Commands:
    def __init__(self, facts: ConvFacts, extents: Extents, strategy: Strategy, site: Site) -> None:
        self._facts, self._extents, self._sizes = facts, extents, strategy.sizes
        self._source, self._target = site.sources[0], site.target
        self._kind, _, mode = strategy.name.partition("/")
        self._by_block = self._kind not in ("resident", "streamed")
        self._cut = self._kind.endswith("panels")
        self._slots: Slots = strategy.sizes["slots"]
        self._units = facts.weights.small if self._by_block else facts.weights.large
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        room = Room(0, (sourced,), stored)
        sizes, rows = strategy.sizes, facts.rows(extents, room)
        self._bounds = slab_bounds(mode, sizes["parts"], rows)
        self._panels = sizes["panels"]
        unit = BEAT_BYTES // min(BEAT_BYTES, facts.config.row_bytes)
        self._across = cuts(extents.out_width, self._panels, unit)
        if self._cut:
            self._left, self._right = facts.x.reads(self._across, extents.width, unit)
        else:
            self._left, self._right = np.array([0]), np.array([extents.width])
        self._regions = cut_regions(facts, extents, sizes, self._bounds, self._across)
        # Places: inputs, then outputs, then weights.
        self._in_pitch = sizes["in_columns"]
        self._in_slot = sizes["in_slot"]
        self._top, self._bottom = facts.y.reads(self._bounds, extents.height, grain(rows.in_bytes))
        if isinstance(self._source, Resident):
            self._in_block = self._source.block_rows
            self._top = np.zeros_like(self._top)
        else:
            self._in_block = sizes["in_rows"] * self._in_pitch
        self._out_base = self._slots.inputs * self._in_slot
        self._out_pitch = sizes["out_columns"] * facts.vector_rows
        self._out_slot = sizes["out_slot"]
        self._weight_base = sizes["weights_at"]
        self._order_steps()

    def _order_steps(self) -> None:
        """Order commands: tiles, n-blocks, groups, units, regions."""
        regions, units = self._regions, self._units
        groups = int(regions.group.max()) + 1
        key = (regions.tile[:, None] * self._facts.weights.outputs + units.output) * groups
        key = (key + regions.group[:, None]) * units.most + units.number
        order = np.argsort(key, axis=None, kind="stable")
        self._region, self._unit = np.divmod(order, len(units.output))
        key = key.ravel()[order]
        # A use is a unit, used by the regions of a group.
        begins = np.empty(len(key), bool)
        begins[0] = True
        np.not_equal(key[1:], key[:-1], out=begins[1:])
        self._use = np.cumsum(begins) - 1
        self._use_first = np.flatnonzero(begins)
        self._use_last = np.append(self._use_first[1:], len(key)) - 1
        self._tile = regions.tile[self._region]
        # A result is an n-block of a tile.
        self._result = self._tile * self._facts.weights.outputs + units.output[self._unit]
        ends = np.append(self._result[1:] != self._result[:-1], True)
        self._result_last = np.flatnonzero(ends)

    def step(self, fields: Mapping[str, int], drain: Drain) -> Step:
        """Return all commands."""
        weights, weight_row, early = self._load_weights()
        loads, in_row = (weights,), 0
        reads, freed = {}, None
        if isinstance(self._source, DramTensor):
            inputs, in_row = self._load_inputs(self._source)
            loads = weights, inputs
        else:
            slab = self._tile // self._panels
            reads[0] = Needs((self._bottom * self._extents.width)[slab])
        begins = self._bounds[:-1] * self._extents.out_width
        if isinstance(self._target, DramTensor):
            freed = np.where(
                self._result >= self._slots.outputs, self._result - self._slots.outputs, -1
            )
            stores = Stores(self._store(self._target), self._result_last)
            tile, blocks = np.divmod(np.arange(len(self._result_last)), self._facts.weights.outputs)
            begins = begins[tile // self._panels]
        else:
            stores, begins = no_stores(), begins[self._tile // self._panels]
            blocks = self._units.output[self._unit]
        words = self._convolve(in_row, weight_row, fields, drain)
        computes = Computes(Engine.MXU, words, freed=freed, early=early, reads=reads)
        return Step(loads, computes, stores, begins, blocks)

    def _load_weights(self) -> tuple[Loads, np.ndarray, np.ndarray]:
        """Return LOADs of weights, and for each step the row and the LOAD of its unit."""
        units = self._units
        if self._kind == "resident":
            place = self._weight_base + np.cumsum(units.buffer_rows) - units.buffer_rows
            words = load_constants(units.offset, units.buffer_rows, place)
            first = np.empty(len(place), np.int64)
            first[self._unit[::-1]] = np.arange(len(self._unit))[::-1]
            return Loads(words, first, first), place[self._unit], self._unit
        unit = self._unit[self._use_first]
        number = np.arange(len(unit))
        place = self._weight_base + number % self._slots.weights * units.largest
        words = load_constants(units.offset[unit], units.buffer_rows[unit], place)
        loads = Loads(words, self._use_first, self._use_first, self._freed(self._slots.weights))
        return loads, place[self._use], self._use

    def _freed(self, slots: int) -> np.ndarray:
        """Return for each use the last step of that which had its place before."""
        freed = np.full(len(self._use_first), -1)
        freed[slots:] = self._use_last[:-slots]
        return freed

    def _load_inputs(self, source: DramTensor) -> tuple[Loads, np.ndarray]:
        """Return LOADs of the input, and for each step the row of the first vector loaded."""
        top, bottom, width = self._top, self._bottom, self._extents.width
        if self._by_block:
            number = np.arange(len(self._use_first))
            row = number % self._slots.inputs * self._in_slot
            tile = self._tile[self._use_first]
            block = self._units.block[self._unit[self._use_first]]
            slab, panel = np.divmod(tile, self._panels)
            if self._cut:
                words = source.rectangles(
                    Opcode.LOAD,
                    block,
                    top[slab] * width + self._left[panel],
                    ((bottom - top)[slab], (self._right - self._left)[panel]),
                    width,
                    row,
                    self._in_pitch,
                )
            else:
                region = top[slab] * width, (bottom - top)[slab] * width
                words = source.transfer(Opcode.LOAD, (block, 1), region, row, 0)
            freed, needs = self._freed(self._slots.inputs), Needs((bottom * width)[slab], block)
            return Loads(words, self._use_first, self._use_first, freed, 0, needs), row[self._use]
        count = len(top)
        number = np.arange(count)
        row = number % self._slots.inputs * self._in_slot
        length = (bottom - top) * width
        words = source.transfer(
            Opcode.LOAD,
            (0, self._facts.blocks),
            (top * width, length if count > 1 else int(length[0])),
            row,
            self._in_block,
        )
        first = np.searchsorted(self._tile, number)
        last = np.append(first[1:], len(self._tile)) - 1
        # As soon as there is room, but behind what the step before needs.
        due = np.maximum(np.append(0, last[:-1]), 0)
        freed = np.full(count, -1)
        freed[self._slots.inputs :] = last[: -self._slots.inputs]
        return Loads(words, due, first, freed, 0, Needs(bottom * width)), row[self._tile]

    def _convolve(
        self,
        in_row: np.ndarray | int,
        weight_row: np.ndarray,
        fields: Mapping[str, int],
        drain: Drain,
    ) -> Batch:
        facts, extents, regions, units = self._facts, self._extents, self._regions, self._units
        region, unit = self._region, self._unit
        slab, panel = np.divmod(self._tile, self._panels)
        image, oy = np.divmod(regions.row, extents.out_height)
        rows, columns = regions.rows[region], regions.columns[region]
        pad_top, height, y = clip_image(
            facts.y, oy[region], rows, (units.row[unit], units.rows[unit]), extents.height
        )
        down = np.maximum(image[region] * extents.height + y - self._top[slab], 0)
        if facts.byte_step:
            right = units.column[unit]
            pad_left, seen = 0, extents.width - right
        else:
            column = regions.column[region]
            taps = units.column[unit], units.columns[unit]
            pad_left, seen, x = clip_image(facts.x, column, columns, taps, extents.width)
            right = np.maximum(x - self._left[panel], 0)
        block = 0 if self._by_block else units.block[unit] * self._in_block
        final = units.final[unit]
        recorded = final if drain == Drain.REQUANTIZE else 0 * final
        out = (regions.row[region] - self._bounds[slab]) * self._out_pitch
        out += (regions.column[region] - self._across[panel]) * facts.vector_rows
        if isinstance(self._target, Resident):
            out += self._bounds[slab] * self._out_pitch
            out += units.output[unit] * self._target.block_rows
        else:
            out += self._out_base + self._result % self._slots.outputs * self._out_slot
        sourced, stored = (isinstance(x, DramTensor) for x in (self._source, self._target))
        origins = {
            "act_row": Origin.TILES if sourced else Origin.SOURCE,
            "weight_row": Origin.TILES,
            "record_row": (Origin.TILES, recorded),
            "out_row": (Origin.TILES if stored else Origin.TARGET, final),
            "pad": Origin.INPUT_ZERO,
            "weight_zero_point": Origin.WEIGHT_ZERO,
        }
        return commands(
            Opcode.CONV,
            len(region),
            origins,
            **fields,
            pad=0,
            weight_zero_point=0,
            rows=rows,
            columns=columns,
            act_row=in_row + block + down * self._in_pitch + right,
            act_pitch=self._in_pitch,
            act_block_pitch=self._in_block,
            height=height,
            width=seen,
            pad_top=pad_top,
            pad_left=pad_left,
            blocks=units.blocks[unit],
            kernel_rows=units.rows[unit],
            kernel_columns=units.columns[unit],
            weight_row=weight_row,
            acc_row=regions.acc_row[region],
            accumulate=(units.number[unit] > 0).astype(np.int64),
            drain=final * int(drain),
            record_row=recorded * (weight_row + units.weight_rows[unit]),
            out_row=final * out,
            out_pitch=self._out_pitch,
            out_step=facts.vector_rows,
        )

    def _store(self, target: DramTensor) -> Batch:
        bounds, columns = self._bounds, self._extents.out_width
        number = np.arange(len(self._result_last))
        tile, output = np.divmod(number, self._facts.weights.outputs)
        slab, panel = np.divmod(tile, self._panels)
        row = self._out_base + number % self._slots.outputs * self._out_slot
        if self._cut:
            return target.rectangles(
                Opcode.STORE,
                output,
                bounds[slab] * columns + self._across[panel],
                (np.diff(bounds)[slab], np.diff(self._across)[panel]),
                columns,
                row,
                self._out_pitch,
            )
        region = bounds[slab] * columns, np.diff(bounds)[slab] * columns
        return target.transfer(Opcode.STORE, (output, 1), region, row, 0)
