"""The commands of convolutions of known extents: those of all layers at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpulite.arch.isa import BYTE_STEPS, Drain, Engine, Opcode
from tpulite.compiler.geometry.axis import Number, pick
from tpulite.compiler.operators.conv_regions import cut_regions, cut_slabs
from tpulite.compiler.operators.conv_table import ConvWork, conv_numbers, units_of
from tpulite.compiler.operators.transfer import DramTensor, load_constants
from tpulite.compiler.operators.words import (
    CONSTANT,
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
from tpulite.compiler.plan.conv_facts import Units
from tpulite.compiler.plan.segments import Indices, Segments, Table, runs


def conv_steps(works: Sequence[ConvWork]) -> list[Step]:
    """Return the commands of convolutions, of each by itself."""
    return _Commands(works).steps()


_Either = tuple[tuple[Loads, Segments] | None, tuple[Loads, Segments] | None]
"""LOADs of all layers, and which are those of each; of two kinds, each if some layer has it."""


class _Uses(NamedTuple):
    """Runs of commands that use what is loaded once."""

    layers: Segments  #: The uses of each layer.
    #: Their first and last commands.
    first: Indices
    last: Indices


class _Commands:
    """Arrays of the commands of all layers, one layer after the other.

    Everything is numbered through: slabs, tiles, units of weights, uses of a unit by the regions of
    a group, uses of its input by the n-blocks beside each other, results (n-blocks of tiles),
    commands. What a :class:`Step` says counts from its layer.
    """

    def __init__(self, works: Sequence[ConvWork]) -> None:
        self._layers = layers = Table([conv_numbers(work) for work in works])
        self._slabs = slabs = cut_slabs(layers)
        self._tiles = tiles = Segments.of(slabs.segments.counts * layers["panels"])
        mine = layers.spread(tiles.owner)
        slab, panel = np.divmod(tiles.number, mine["panels"])
        self._tile_slab = slabs.segments.starts[tiles.owner] + slab
        accumulators = works[0].facts.config.acc_rows
        self._panels, self._regions = cut_regions(layers, slabs, tiles, accumulators)
        self._tile_panel = self._panels.segments.starts[tiles.owner] + panel
        tables = [units_of(work).table for work in works]
        self._units = Units(*np.concatenate(tables, axis=1))
        self._members = Segments.of(np.array([table.shape[1] for table in tables]))
        self._order_commands()

    def _order_commands(self) -> None:
        """Order commands: tiles, n-blocks, groups, units, n-blocks beside each other, regions."""
        layers, regions, units = self._layers, self._regions, self._units
        results = Segments.of(self._tiles.counts * layers["outputs"])
        pairs = Segments.of(self._members.counts[regions.layer])
        layer, tile = regions.layer[pairs.owner], regions.tile[pairs.owner]
        unit = self._members.starts[layer] + pairs.number
        beside, output = layers["beside"][layer], units.output[unit]
        first = output // beside * beside
        result = (tile - self._tiles.starts[layer]) * layers["outputs"][layer]
        result += results.starts[layer]
        groups, numbers = int(regions.group.max()) + 1, int(units.number.max()) + 1
        key = (result + first) * groups + regions.group[pairs.owner]
        input_key = key * numbers + units.number[unit]
        key = input_key * int(layers["beside"].max()) + output - first
        result += output
        order = np.argsort(key, kind="stable")
        self._region, self._unit = pairs.owner[order], unit[order]
        self._result, self._layer, self._tile = result[order], layer[order], tile[order]
        self._results, self._mine = results, layers.spread(self._layer)
        tile, self._result_output = np.divmod(
            results.number, layers.spread(results.owner)["outputs"]
        )
        self._result_tile = self._tiles.starts[results.owner] + tile
        self._commands = Segments.owned(self._layer, len(self._tiles.counts))
        # A use is a unit, used by the regions of a group.
        self._use, self._uses = self._find_uses(key[order])
        self._input_use, self._input_uses = self._find_uses(input_key[order])
        _, self._tile_first, self._tile_last = runs(self._tile)
        self._result_last = np.empty(len(results.owner), np.int64)
        self._result_last[self._result] = np.arange(len(self._result))

    def _find_uses(self, key: Indices) -> tuple[Indices, "_Uses"]:
        """Return the use of each command, and all uses: commands of one key."""
        use, first, last = runs(key)
        layers = Segments.owned(self._layer[first], len(self._tiles.counts))
        return use, _Uses(layers, first, last)

    def steps(self) -> list[Step]:
        """Return all commands, layer by layer."""
        layers, slabs, results = self._layers, self._slabs, self._results
        weights, early = self._load_weights()
        inputs = self._load_inputs()
        words, stores = self._convolve(), self._store()
        mine = layers.spread(slabs.segments.owner)
        begin, needed = slabs.begin * mine["out_width"], slabs.bottom * mine["width"]
        slab = self._tile_slab[self._tile]
        reads = needed[slab]
        result = self._result - results.starts[self._layer]
        final = self._units.final[self._unit] > 0
        freed = np.where(final, np.maximum(result - self._mine["out_slots"], -1), -1)
        after = self._result_last - self._commands.starts[results.owner]
        result_begin, begin = begin[self._tile_slab[self._result_tile]], begin[slab]
        output = self._units.output[self._unit]
        steps = []
        flags = (layers[name].tolist() for name in ("resident", "by_block", "sourced", "stored"))
        for i, (resident, by_block, sourced, stored) in enumerate(zip(*flags, strict=True)):
            some, done = self._commands.at(i), results.at(i)
            loads = [_part(weights[resident], i)]
            if sourced:
                loads.append(_part(inputs[by_block], i))
            computes = Computes(
                Engine.MXU,
                words.part(some),
                freed=freed[some] if stored else None,
                early=early[some],
                reads={} if sourced else {0: Needs(reads[some])},
            )
            writes = no_stores(), begin[some], output[some]
            if stored:
                out = Stores(stores.part(done), after[done])
                writes = out, result_begin[done], self._result_output[done]
            steps.append(Step(tuple(loads), computes, *writes))
        return steps

    def _load_weights(self) -> tuple[_Either, Indices]:
        """Return LOADs of weights by use, and by unit; for each command the number of its own."""
        resident = self._layers["resident"]
        units, members, uses = self._units, self._members, self._uses
        by_use = by_unit = None
        use_row: Number = 0
        unit_row: Number = 0
        if not resident.all():
            unit, mine = self._unit[uses.first], self._layers.spread(uses.layers.owner)
            number = uses.layers.number % mine["weight_slots"]
            row = mine["weights_at"] + number * mine["largest"]
            words = load_constants(units.offset[unit], units.buffer_rows[unit], row)
            by_use, use_row = self._used(uses, words, mine["weight_slots"]), row[self._use]
        if resident.any():
            mine = self._layers.spread(members.owner)
            before = np.cumsum(units.buffer_rows) - units.buffer_rows
            row = mine["weights_at"] + before - before[members.starts[members.owner]]
            first = np.empty(len(row), np.int64)
            first[self._unit[::-1]] = np.arange(len(self._unit))[::-1]
            first -= self._commands.starts[members.owner]
            words = load_constants(units.offset, units.buffer_rows, row)
            by_unit, unit_row = (Loads(words, first, first), members), row[self._unit]
        there = self._mine["resident"]
        self._weight_row = pick(there, unit_row, use_row)
        early = pick(there, members.number[self._unit], uses.layers.number[self._use])
        return (by_use, by_unit), early

    def _used(
        self,
        uses: "_Uses",
        words: Batch,
        slots: Number,
        operand: int = CONSTANT,
        needs: Needs | None = None,
    ) -> tuple[Loads, Segments]:
        """Return LOADs of each use; the one that had its place before must be complete."""
        start = self._commands.starts[uses.layers.owner]
        first, last = uses.first - start, uses.last - start
        freed = uses.layers.back(last, slots)
        return Loads(words, first, first, freed, operand, needs), uses.layers

    def _load_inputs(self) -> _Either:
        """Return LOADs of all blocks of the input by tile, and of single blocks by use."""
        by_block, slabs = self._layers["by_block"], self._slabs
        by_tile = by_use = None
        tile_row: Number = 0
        use_row: Number = 0
        self._left: Number = np.zeros(len(self._panels.begin), np.int64)
        if not by_block.all():
            tiles, slab = self._tiles, self._tile_slab
            mine = self._layers.spread(tiles.owner)
            top, height, width = slabs.top, slabs.bottom - slabs.top, mine["width"]
            row = tiles.number % mine["in_slots"] * mine["in_slot"]
            region = top[slab] * width, height[slab] * width
            tensor, blocks = DramTensor.spread(mine, "in"), (0, mine["blocks"])
            words = tensor.transfer(Opcode.LOAD, blocks, region, row, mine["in_block"])
            start = self._commands.starts[tiles.owner]
            first, last = self._tile_first - start, self._tile_last - start
            # As soon as there is room, but behind what the step before needs.
            due = np.maximum(tiles.back(last, 1), 0)
            freed, needs = tiles.back(last, mine["in_slots"]), Needs(slabs.bottom[slab] * width)
            by_tile = Loads(words, due, first, freed, 0, needs), tiles
            tile_row = row[self._tile]
        if by_block.any():
            words, row, needs = self._load_blocks()
            uses, mine = self._input_uses, self._layers.spread(self._input_uses.layers.owner)
            by_use = self._used(uses, words, mine["in_slots"], 0, needs)
            use_row = row[self._input_use]
        self._in_row = pick(self._mine["by_block"], use_row, tile_row)
        return by_tile, by_use

    def _load_blocks(self) -> tuple[Batch, Indices, Needs]:
        """Return LOADs of blocks of a slab, or of some columns of one, their rows, and needs."""
        slabs, panels, uses = self._slabs, self._panels, self._input_uses
        mine = self._layers.spread(panels.segments.owner)
        left, right = mine.axis("x").reads(
            panels.begin, panels.stop, mine["width"], mine["column_unit"]
        )
        self._left = left * mine["cut"]
        columns = pick(mine["cut"], right, mine["width"]) - self._left
        mine, tile = self._layers.spread(uses.layers.owner), self._tile[uses.first]
        slab, panel = self._tile_slab[tile], self._tile_panel[tile]
        unit = self._unit[uses.first]
        block, blocks = self._units.block[unit], self._units.blocks[unit]
        row = uses.layers.number % mine["in_slots"] * mine["in_slot"]
        cut, width, columns = mine["cut"], mine["width"], columns[panel]
        lines, tensor = (slabs.bottom - slabs.top)[slab], DramTensor.spread(mine, "in")
        # Lines are rows of one block, or blocks.
        apart = pick(blocks > 1, tensor.block_vectors, width * cut)
        words = tensor.rectangles(
            Opcode.LOAD,
            block,
            slabs.top[slab] * width + self._left[panel],
            (pick(cut, lines, blocks), pick(cut, columns, lines * columns)),
            apart,
            row,
            pick(cut, mine["in_columns"], mine["in_block"] * (blocks > 1)),
        )
        return words, row, Needs(slabs.bottom[slab] * width, block + blocks - 1, block)

    def _convolve(self) -> Batch:
        regions, region, units, unit = self._regions, self._region, self._units, self._unit
        mine, slabs, number = self._mine, self._slabs, self._result
        slab, panel = regions.slab[region], regions.panel[region]
        across = units.column[unit], units.columns[unit]
        y = mine.axis("y").part(units.row[unit], units.rows[unit], mine["height"])
        x = mine.axis("x").part(*across, mine["width"])
        image, row = np.divmod(regions.row[region], mine["out_height"])
        rows, columns, column = (
            regions.rows[region],
            regions.columns[region],
            regions.column[region],
        )
        pad_top, height, down = y.seen(row, rows)
        down = down + image * mine["height"] - slabs.top[slab] * mine["sourced"]
        pad_left, seen, right = x.seen(column, columns)
        dense = mine["byte_step"] > 0
        right = pick(dense, across[0], np.maximum(right - self._left[panel], 0))
        block = units.block[unit] * mine["in_block"] * (1 - mine["by_block"])
        final, stored = units.final[unit] > 0, mine["stored"]
        recorded = final & (mine["drain"] == Drain.REQUANTIZE)
        # What stays in the buffer has all columns there, panels of it or not.
        out_pitch = pick(stored, mine["out_columns"], mine["out_width"]) * mine["vector_rows"]
        out = (regions.row[region] - slabs.begin[slab] * stored) * out_pitch
        out += (column - self._panels.origin[panel] * stored) * mine["vector_rows"]
        out += units.output[unit] * mine["out_block"] + mine["in_slots"] * mine["in_slot"] * stored
        beside = units.output[unit] % mine["beside"] * mine["slab_vectors"]
        number = number - self._results.starts[self._layer]
        out += number % mine["out_slots"] * mine["out_slot"]
        origins = {
            "act_row": pick(mine["sourced"], Origin.TILES, Origin.SOURCE),
            "weight_row": Origin.TILES,
            "record_row": np.where(recorded, Origin.TILES, -1),
            "out_row": np.where(final, pick(stored, Origin.TILES, Origin.TARGET), -1),
            "pad": Origin.INPUT_ZERO,
            "weight_zero_point": Origin.WEIGHT_ZERO,
        }
        return commands(
            Opcode.CONV,
            len(region),
            origins,
            stride_y=y.stride,
            stride_x=x.stride,
            dilation_y=y.dilation,
            dilation_x=x.dilation,
            byte_step=mine["byte_step"] % BYTE_STEPS,
            int4=mine["int4"],
            record_form=mine["form"],
            pad=0,
            weight_zero_point=0,
            rows=rows,
            columns=columns,
            act_row=self._in_row + block + np.maximum(down, 0) * mine["in_columns"] + right,
            act_pitch=mine["in_columns"],
            act_block_pitch=mine["in_block"],
            height=height,
            width=pick(dense, mine["width"] - right, seen),
            pad_top=pad_top,
            pad_left=pick(dense, 0, pad_left),
            blocks=units.blocks[unit],
            kernel_rows=y.kernel,
            kernel_columns=x.kernel,
            weight_row=self._weight_row,
            acc_row=regions.acc_row[region] + beside,
            accumulate=(units.number[unit] > 0).astype(np.int64),
            drain=final * mine["drain"],
            record_row=recorded * (self._weight_row + units.weight_rows[unit]),
            out_row=final * out,
            out_pitch=out_pitch,
            out_step=mine["vector_rows"],
        )

    def _store(self) -> Batch:
        results, slabs, panels = self._results, self._slabs, self._panels
        mine, tile = self._layers.spread(results.owner), self._result_tile
        slab, panel = self._tile_slab[tile], self._tile_panel[tile]
        cut, width = mine["cut"], mine["out_width"]
        row = results.number % mine["out_slots"] * mine["out_slot"]
        row += mine["in_slots"] * mine["in_slot"]
        lines, columns = (slabs.stop - slabs.begin)[slab], (panels.stop - panels.begin)[panel]
        return DramTensor.spread(mine, "out").rectangles(
            Opcode.STORE,
            self._result_output,
            slabs.begin[slab] * width + panels.begin[panel] * cut,
            (pick(cut, lines, 1), pick(cut, columns, lines * width)),
            width * cut,
            row,
            mine["out_columns"] * mine["vector_rows"] * cut,
        )


def _part(loads: tuple[Loads, Segments] | None, layer: int) -> Loads:
    """Return the LOADs of a layer."""
    assert loads is not None
    return loads[0].part(loads[1].at(layer))
