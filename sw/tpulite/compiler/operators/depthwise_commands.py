"""The commands of depthwise convolutions of known extents: those of all layers at once."""

from collections.abc import Sequence

import numpy as np

from tpulite.arch.isa import CONV, Axis, Drain, Engine, Opcode
from tpulite.compiler.geometry.axis import Number, ceil_div, pick
from tpulite.compiler.operators.conv_regions import cut_slabs
from tpulite.compiler.operators.depthwise_table import FilterWork, filter_numbers
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
from tpulite.compiler.plan.depthwise import Taps
from tpulite.compiler.plan.depthwise_plan import even_parts
from tpulite.compiler.plan.segments import Indices, Segments, Table, cut_parts

_SIZE = CONV.limit("width")


def _cut_clipped(
    begin: Indices, stop: Indices, first: Indices, last: Indices
) -> tuple[Indices, Indices, Indices]:
    """Cut ranges of outputs so that each one before ``first`` and from ``last`` on is alone.

    Returns
    -------
    owner, begin, stop : array of int
        The range of each part, and where it begins and ends.
    """
    if (begin >= first).all() and (stop <= last).all():
        return np.arange(len(begin)), begin, stop
    before = np.maximum(np.minimum(stop, first) - begin, 0)
    inside = np.maximum(begin, first), np.minimum(stop, last)
    middle = inside[1] > inside[0]
    behind = np.maximum(begin, last)
    parts = Segments.of(before + middle + np.maximum(stop - behind, 0))
    i, number = parts.owner, parts.number
    whole = middle[i] & (number == before[i])
    alone = np.where(
        number < before[i], begin[i] + number, behind[i] + number - (before + middle)[i]
    )
    start = np.where(whole, inside[0][i], alone)
    return i, start, np.where(whole, inside[1][i], start + 1)


def depthwise_steps(works: Sequence[FilterWork]) -> list[Step]:
    """Return the commands of depthwise convolutions, of each by itself."""
    return _Commands(works).steps()


class _Commands:
    """Arrays of the commands of all layers, one layer after the other.

    Slabs, tiles, regions and commands are numbered through. What a :class:`Step` says counts from
    its layer. Places of a layer are those of inputs, outputs, weights and zeros.
    """

    def __init__(self, works: Sequence[FilterWork]) -> None:
        self._layers = layers = Table([filter_numbers(work) for work in works])
        self._config, self._at_once = works[0].facts.config, works[0].facts.at_once
        taps = [w.facts.weights.patterns[w.strategy.sizes["pattern"]].taps for w in works]
        self._taps = Taps(*np.concatenate([each.table for each in taps], axis=1))
        self._taps_start = Segments.of(layers["kernel_parts"]).starts
        self._divisors = [work.facts.weights.divisors for work in works]
        self._slabs = slabs = cut_slabs(layers)
        # Tiles: slabs, then blocks.
        self._tiles = tiles = Segments.of(slabs.segments.counts * layers["blocks"])
        mine = layers.spread(tiles.owner)
        slab, self._block = np.divmod(tiles.number, mine["blocks"])
        self._slab = slab + slabs.segments.starts[tiles.owner]
        slot = tiles.number % mine["slots"]
        self._in_row = slot * mine["in_slot"] + self._block * mine["in_block"]
        stored = mine["slots"] * mine["in_slot"] + slot * mine["out_slot"]
        self._out_row = stored * mine["stored"] + self._block * mine["out_block"]
        self._cut_regions()
        # Commands: tiles, regions, parts of the kernel.
        kernel_parts = layers["kernel_parts"] + (not self._at_once)
        members = Segments.owned(self._r_slab, len(slabs.begin))
        counts = members.counts[self._slab] * kernel_parts[tiles.owner]
        self._members = Segments.of(counts)
        self._tile = tile = self._members.owner
        self._layer = tiles.owner[tile]
        region, self._kernel_part = np.divmod(self._members.number, kernel_parts[self._layer])
        self._region = members.starts[self._slab[tile]] + region
        self._starts = self._members.starts[tiles.starts]

    def _cut_regions(self) -> None:
        """Cut slabs at images and clipped windows, and into what one stream computes."""
        layers, slabs = self._layers, self._slabs
        down = layers["inner"] == Axis.Y
        columns, x, x_stop = self._cut_columns(down)
        widest = np.maximum.reduceat(x_stop - x, columns.starts[:-1])
        lines = np.maximum(self._config.acc_rows // widest, 1)
        layer, first, stop = slabs.cut(layers, np.zeros_like(widest), lines)
        image = first // layers["out_height"][layer] * layers["out_height"][layer]
        whole = (layers[name][layer] for name in ("whole_row", "whole_rows_stop"))
        i, first, stop = _cut_clipped(first - image, stop - image, *whole)
        layer, first, stop = layer[i], first + image[i], stop + image[i]
        rows = stop - first
        even = self._parts(rows, lines[layer], layer)
        parts = Segments.of(np.where(down[layer], even, ceil_div(rows, lines[layer])))
        i, layer = parts.owner, layer[parts.owner]
        begin, end = cut_parts(parts, rows[i], parts.counts[i], 1)
        y, y_stop = first[i] + begin, first[i] + end
        regions = Segments.of(columns.counts[layer])
        i, layer = regions.owner, layer[regions.owner]
        j = columns.starts[layer] + regions.number
        self._r_layer, self._r_slab = layer, slabs.find(layer, y[i])
        self._r_row, self._r_rows = y[i], (y_stop - y)[i]
        self._r_column, self._r_columns = x[j], (x_stop - x)[j]
        self._r_record = self._records()

    def _cut_columns(self, down: Indices) -> tuple[Segments, Indices, Indices]:
        """Return ranges of columns of each layer: where they begin and end."""
        layers = self._layers
        x = layers.spread(np.arange(len(down))).axis("x")
        most = np.minimum((_SIZE - x.reach) // x.stride + 1, self._config.acc_rows)
        most = np.broadcast_to(most, down.shape)
        whole = layers["whole_column"], layers["whole_columns_stop"]
        layer, begin, stop = _cut_clipped(np.zeros_like(whole[0]), layers["out_width"], *whole)
        count = stop - begin
        even = self._parts(count, most[layer], layer)
        parts = Segments.of(np.where(down[layer], ceil_div(count, most[layer]), even))
        i = parts.owner
        first, last = cut_parts(parts, count[i], parts.counts[i], 1)
        return Segments.owned(layer[i], len(down)), begin[i] + first, begin[i] + last

    def _records(self) -> Indices:
        """Return for each region the row of its record, from the first one of a block."""
        mine, found = self._layers.spread(self._r_layer), np.zeros_like(self._r_row)
        if any(self._divisors):
            row = self._r_row % mine["out_height"]
            top, bottom = mine.axis("y").reads_of(row, row, mine["height"])
            left, right = mine.axis("x").reads_of(self._r_column, self._r_column, mine["width"])
            count = (bottom - top) * (right - left)
            for i, divisors in enumerate(self._divisors):
                if divisors:
                    here = self._r_layer == i
                    found[here] = np.searchsorted(divisors, count[here])
        return found * mine["record_step"]

    def _parts(self, outputs: Indices, limit: Indices, layer: Indices | slice) -> Indices:
        """Return into how many parts outputs along the inner axis of layers are cut."""
        most, few, many = (self._layers[name][layer] for name in ("most", "few", "many"))
        return even_parts(outputs, np.minimum(limit, most), few, many)

    def steps(self) -> list[Step]:
        """Return all commands, layer by layer."""
        layers, slabs, tiles, tile = self._layers, self._slabs, self._tiles, self._tile
        starts = self._members.starts - self._starts[np.append(tiles.owner, -1)]
        self._first, last = starts[:-1], starts[:-1] + self._members.counts - 1
        self._freed = tiles.back(last, layers["slots"][tiles.owner])
        by_block, by_tile, early = self._load_weights()
        width = layers["width"][slabs.segments.owner]
        needs = Needs((slabs.bottom * width)[self._slab], self._block)
        inputs, words, stores = self._load_inputs(needs), self._convolve(), self._store()
        freed = np.maximum(tile - tiles.starts[self._layer] - layers["slots"][self._layer], -1)
        begins = (slabs.begin * layers["out_width"][slabs.segments.owner])[self._slab]
        commands = Segments.owned(self._layer, len(self._starts) - 1)
        steps = []
        flags = (layers[name].tolist() for name in ("stays", "sourced", "stored", "blocks"))
        for i, (stays, sourced, stored, blocks) in enumerate(zip(*flags, strict=True)):
            mine, some = tiles.at(i), commands.at(i)
            held = slice(mine.start, mine.start + blocks)
            loads = [
                each.part(held if stays else mine) for each in (by_block if stays else by_tile)
            ]
            reads: dict[int, Needs] = {}
            if sourced:
                loads.append(inputs.part(mine))
            else:
                reads[0] = Needs(needs.stop[tile[some]], self._block[tile[some]])
            if not self._at_once:
                loads.append(self._load_zeros(i))
            computes = Computes(
                Engine.MXU,
                words.part(some),
                freed=freed[some] if stored else None,
                early=early[some],
                reads=reads,
            )
            written, out = tile[some], no_stores()
            if stored:
                written, out = mine, Stores(stores.part(mine), last[mine])
            steps.append(Step(tuple(loads), computes, out, begins[written], self._block[written]))
        return steps

    def _load_zeros(self, layer: int) -> Loads:
        zero, size = np.zeros(1, np.int64), self._config.array_size
        at, rows = (int(self._layers[name][layer]) for name in ("zeros", "tile_rows"))
        return Loads(load_constants(at, size, zero + rows - size), zero, zero)

    def _load_weights(self) -> tuple[list[Loads], list[Loads], Indices]:
        """Return LOADs by block, and by tile; for each command the number of its own."""
        layers, tiles, block, config = self._layers, self._tiles, self._block, self._config
        mine = layers.spread(tiles.owner)
        down = layers.spread(self._r_layer)["inner"] == Axis.Y
        inner = pick(down, self._r_rows, self._r_columns)
        inner = np.minimum(inner, layers["numbers"][self._r_layer])
        many = layers["numbers"] > 1
        starts = np.searchsorted(self._r_layer, np.arange(len(many)))
        low = np.where(many, np.minimum.reduceat(inner, starts), 1)
        high = np.where(many, np.maximum.reduceat(inner, starts), 1)
        used = ((high - low + 1) * layers["number_rows"])[tiles.owner]
        stays = mine["stays"]
        weights = mine["slots"] * (mine["in_slot"] + mine["out_slot"])
        slot = pick(stays, block, tiles.number % mine["weight_slots"])
        row, records = weights + slot * mine["block_rows"], mine["records"]
        before = (block * mine["numbers"] + low[tiles.owner] - 1) * mine["number_rows"]
        words = (
            load_constants(mine["constants"] + before * config.row_bytes, used, row + records),
            load_constants(block * records * config.row_bytes, records, row),
        )
        # LOADs of one tile are executed one after the other: the records come second.
        by_tile = [Loads(each, self._first, self._first, self._freed) for each in words]
        by_block = [Loads(each, self._first, self._first) for each in words]
        tile, mine = self._tile, layers.spread(self._layer)
        number = (inner[self._region] - low[self._layer]) * many[self._layer]
        kernel_part = np.minimum(self._kernel_part, mine["kernel_parts"] - 1)
        place = (
            (row + records)[tile] + number * mine["number_rows"] + kernel_part * config.array_size
        )
        self._weight_row, self._record_row = place, row[tile] + self._r_record[self._region]
        uses = pick(mine["stays"], mine["blocks"], tiles.counts[self._layer])
        early = uses + pick(stays, block, tiles.number)[tile]
        return by_block, by_tile, early

    def _load_inputs(self, needs: Needs) -> Loads:
        mine, slabs, slab = self._layers.spread(self._tiles.owner), self._slabs, self._slab
        width, height = mine["width"], (slabs.bottom - slabs.top)[slab]
        apart = mine["pitch"] != width
        words = DramTensor.spread(mine, "in").rectangles(
            Opcode.LOAD,
            self._block,
            slabs.top[slab] * width,
            (pick(apart, height, 1), pick(apart, width, height * width)),
            width * apart,
            self._in_row,
            mine["pitch"] * apart,
        )
        return Loads(words, self._first, self._first, self._freed, 0, needs)

    def _convolve(self) -> Batch:
        region, tile, slabs = self._region, self._tile, self._slabs
        mine, slab = self._layers.spread(self._layer), self._r_slab[region]
        tap = self._taps_start[self._layer] + np.minimum(
            self._kernel_part, mine["kernel_parts"] - 1
        )
        taps = Taps(*self._taps.table[:, tap])
        out_width = mine["out_width"]
        image, row = np.divmod(self._r_row[region], mine["out_height"])
        rows, columns = self._r_rows[region], self._r_columns[region]
        step = mine["step"]
        reach_y, reach_x = ((count - 1) * step + 1 for count in (taps.rows, taps.columns))
        y = mine.axis("y").part(taps.row, reach_y, mine["height"])
        x = mine.axis("x").part(taps.column, reach_x, mine["width"])
        column = self._r_column[region]
        pad_top, height, down = y.seen(row, rows)
        pad_left, width, right = x.seen(column, columns)
        down = down + image * mine["height"] - slabs.top[slab] * mine["sourced"]
        out = (self._r_row[region] - slabs.begin[slab] * mine["stored"]) * out_width + column
        final = self._kernel_part == mine["kernel_parts"] - self._at_once
        values: dict[str, Number] = {
            "stride_y": y.stride // step,
            "stride_x": x.stride // step,
            "dilation_y": step,
            "dilation_x": step,
            "rows": rows,
            "columns": columns,
            "act_row": self._in_row[tile] + np.maximum(down, 0) * mine["pitch"] + right,
            "act_pitch": mine["pitch"],
            "height": height,
            "width": width,
            "pad_top": pad_top,
            "pad_left": pad_left,
            "kernel_rows": taps.rows,
            "kernel_columns": taps.columns,
            "weight_row": self._weight_row,
            "depthwise": 1,
            "accumulate": (self._kernel_part > 0).astype(np.int64),
            "drain": final * int(Drain.REQUANTIZE),
        }
        if not self._at_once:  # the last command multiplies anything by zero
            for name, value in values.items():
                one = name in ("height", "width") or name.startswith(("stride", "dil", "kernel"))
                zero = name in ("pad_top", "pad_left", "depthwise")
                if one or zero:
                    values[name] = np.where(final, int(one), value)
            zeros = mine["tile_rows"] - self._config.array_size
            values["weight_row"] = np.where(final, zeros, self._weight_row)
        origins = {
            "act_row": pick(mine["sourced"], Origin.TILES, Origin.SOURCE),
            "weight_row": Origin.TILES,
            "record_row": Origin.TILES,
            "out_row": pick(mine["stored"], Origin.TILES, Origin.TARGET),
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
            record_form=mine["form"],
            inner=mine["inner"],
            blocks=1,
            record_row=self._record_row,
            out_row=self._out_row[tile] + out,
            out_pitch=out_width,
            out_step=1,
        )

    def _store(self) -> Batch:
        mine, slabs, slab = self._layers.spread(self._tiles.owner), self._slabs, self._slab
        width = mine["out_width"]
        first, height = slabs.begin[slab] * width, (slabs.stop - slabs.begin)[slab] * width
        target = DramTensor.spread(mine, "out")
        return target.transfer(Opcode.STORE, (self._block, 1), (first, height), self._out_row, 0)
