"""BatchNorm, elementwise arithmetic and tables, bound to shapes."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import Engine, Opcode, VectorOp
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.axis import Axis1D, Number, ceil_div, cuts, grain
from tpulite.compiler.operators.operator import (
    Buffers,
    Constants,
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
from tpulite.compiler.place.constants import operand_records
from tpulite.compiler.place.weights import layer_records
from tpulite.compiler.plan.pointwise import SLOTS, PointwiseFacts, pointwise_facts, pointwise_plans
from tpulite.compiler.plan.slabs import Room, Strategy
from tpulite.graph.layers import Affine, Elementwise, LayerGraph, Lut

_SOURCES = Origin.SOURCE, Origin.SECOND_SOURCE

_POINT = Axis1D(1)


class Pointwise(Operator):
    """Affine, elementwise or table layer.

    Follows :class:`tpulite.compiler.operators.operator.Operator`.

    All images of a batch are one plane a channel block, because no vector needs another one.

    Parameters
    ----------
    layer : Affine, Elementwise or Lut
        The layer.
    layers : LayerGraph
        The network that it belongs to.

    Attributes
    ----------
    facts : PointwiseFacts
        What its strategies depend on.
    parameters : bytes
        Parameters: of all channels, one after the other, or of the whole layer.
    spare : bytes
        The record of a channel that is none, if each channel has one.

    Raises
    ------
    ValueError
        If the machine lacks the rounding.
    """

    def __init__(
        self, layer: Affine | Elementwise | Lut, layers: LayerGraph, config: Config
    ) -> None:
        self.config = config
        self.spare = b""
        match layer:
            case Affine():
                self.parameters, self.spare = _affine_constants(layer, config)
            case Elementwise():
                self.parameters = operand_records(layer, config).tobytes()
            case Lut():
                self.parameters = layer.table.tobytes()
        shapes = [layers.activations[name].shape for name in layer.inputs]
        self.facts = pointwise_facts(layer, shapes, config, kept=False)
        self._operation = self.facts.operation
        self.constants = b"" if self.spare else self.parameters
        self._grain = grain(config.row_bytes)
        self.key: Hashable | None = None if self.spare else self.facts
        self.zero_points: tuple[int, int] = (0, 0)

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries along height and width."""
        return _POINT, _POINT

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        return self.facts.common_rows

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`pointwise_plans`."""
        batch, height, width, channels = extents
        blocks, pixels = ceil_div(channels, self.config.array_size), batch * height * width
        plans = pointwise_plans(self.facts, pixels, blocks, self._grain, room)
        return tuple(plan.strategy for plan in plans)

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy: planes, or parts of them."""
        sizes, size = strategy.sizes, self.config.array_size
        blocks = ceil_div(shape.channels, size)
        begins = cuts(blocks, sizes["tiles"] // sizes["parts"], 1)
        plane = shape.batch * shape.height * shape.width
        pixels = even_cut("pixels", plane, sizes["parts"], self._grain)
        used, row = min(SLOTS, sizes["tiles"]), self.facts.common_rows
        buffers = Buffers("tile", used, row, sizes["slot_rows"])
        return Tiling.of((pixels, block_cut(shape.channels, begins, size)), (buffers,))

    @classmethod
    def steps(cls, tasks: Sequence[Task["Pointwise"]], constants: Constants) -> list[Step]:
        """Return the steps of all layers; equal ones have the same one."""
        known: dict[Hashable, Step] = {}
        steps = []
        for task in tasks:
            operator, strategy = task.operator, task.strategy
            key = operator.key, task.shape, task.site, strategy.name, *strategy.sizes.values()
            step = None if operator.key is None else known.get(key)
            step = known[key] = step or operator._step(task, constants)
            steps.append(step)
        return steps

    def _step(self, task: Task["Pointwise"], constants: Constants) -> Step:
        shape, strategy, site, offset = task.shape, task.strategy, task.site, task.offset
        facts, tiles = self.facts, _Tiles(self.facts, shape, strategy, self._grain, site)
        stored = isinstance(site.target, DramTensor)
        loads = [self._load_parameters(tiles, shape.channels, constants, offset)]
        reads: dict[int, Needs] = {}
        stop = tiles.first_pixel + tiles.pixels + np.zeros(tiles.count, np.int64)
        for number, place in enumerate(site.sources):
            spread = facts.broadcast and number == 1
            if isinstance(place, Resident):
                reads[number] = Needs(np.ones_like(tiles.owner) if spread else stop[tiles.owner])
            elif spread:
                blocks = tiles.first_block, tiles.blocks
                words = place.transfer(
                    Opcode.LOAD, blocks, (0, 1), tiles.operands[1][0], 1, _SOURCES[number]
                )
                loads.append(tiles.loads(words, number, Needs(tiles.none + 1), stored))
            else:
                region = (tiles.first_block, tiles.blocks), (tiles.first_pixel, tiles.pixels)
                row, pitch = tiles.operands[number]
                words = place.transfer(Opcode.LOAD, *region, row, pitch, _SOURCES[number])
                loads.append(tiles.loads(words, number, Needs(stop), stored))
        stores, begins, freed = no_stores(), tiles.first_pixel + tiles.none, None
        if isinstance(site.target, DramTensor):
            region = (tiles.first_block, tiles.blocks), (tiles.first_pixel, tiles.pixels)
            words = site.target.transfer(Opcode.STORE, *region, *tiles.out)
            stores = Stores(words, tiles.last)
            if len(loads) == 1 and not facts.block_rows:  # else LOADs of the tile wait
                freed = np.maximum(tiles.owner - SLOTS, -1)
        else:
            begins = begins[tiles.owner]
        computes = Computes(Engine.VPU, self._compute(tiles), freed=freed, reads=reads)
        return Step(tuple(loads), computes, stores, begins, freed_by_store=stored)

    def _load_parameters(
        self, tiles: "_Tiles", channels: int, constants: Constants, offset: int
    ) -> Loads:
        if not self.facts.block_rows:
            zero = np.zeros(1, np.int64)
            words = load_constants(0, self.facts.common_rows, zero)
            return Loads(words, zero, zero)
        size = RECORD_BYTES * self.config.array_size
        rows = tiles.blocks * self.facts.block_rows
        first = constants.add(self._bound_constants(channels)) - offset
        words = load_constants(first + tiles.first_block * size, rows, tiles.slot + tiles.none)
        return tiles.loads(words, CONSTANT, None, tiles.stored)

    def _compute(self, tiles: "_Tiles") -> Batch:
        low, high = INT8[0], INT8[-1]
        fields: dict[str, Any] = {"operation": self._operation, "low": low, "high": high}
        fields |= {"window_rows": 1, "window_columns": 1, "a_step": 1, "out_step": 1}
        (a_row, a_pitch), (out_row, out_pitch) = tiles.operands[0], tiles.out
        if self._operation == VectorOp.AFFINE:
            tile, block = tiles.owner, tiles.block
            return commands(
                Opcode.VECTOR,
                len(tile),
                tiles.origins,
                **fields,
                rows=1,
                columns=_each(tiles.pixels, tile),
                a_row=a_row[tile] + block * _each(a_pitch, tile),
                out_row=out_row[tile] + block * _each(out_pitch, tile),
                param_row=tiles.slot[tile] + block * self.facts.block_rows,
            )
        if self._operation != VectorOp.LUT:
            fields["b_row"], fields["b_pitch"] = tiles.operands[-1]
            fields["b_step"] = int(not self.facts.broadcast)
        return commands(
            Opcode.VECTOR,
            tiles.count,
            tiles.origins,
            **fields,
            rows=tiles.blocks,
            columns=tiles.pixels,
            a_row=a_row,
            a_pitch=a_pitch,
            out_row=out_row,
            out_pitch=out_pitch,
            param_row=0,
        )

    def _bound_constants(self, channels: int) -> bytes:
        """Return parameters of the first channels; what is beyond computes zeros."""
        used = RECORD_BYTES * channels
        return self.parameters[:used] + self.spare * (-channels % self.config.array_size)


class _Tiles:
    """All tiles of a shape in order, as arrays, or as numbers where they are alike.

    ``slot`` is the first row of the tile's place, ``operands`` and ``out`` are pairs: the first row
    of each tile, and the rows from block to block. ``owner`` is the tile of each VECTOR, ``block``
    its block there.
    """

    def __init__(
        self, facts: PointwiseFacts, shape: Shape, strategy: Strategy, grain: int, site: Site
    ) -> None:
        sizes = strategy.sizes
        self.origins: dict[str, Origin] = {"param_row": Origin.TILES, "out_row": Origin.TILES}
        self.stored = isinstance(site.target, DramTensor)
        self.count = count = sizes["tiles"]
        self.none = np.zeros(count, np.int64)
        blocks = ceil_div(shape.channels, facts.config.array_size)
        plane = shape.batch * shape.height * shape.width
        index = np.arange(count)
        self.blocks: int | np.ndarray
        self.pixels: int | np.ndarray
        if strategy.name == "planes":
            bounds = cuts(blocks, count, 1)
            self.first_block, self.first_pixel = bounds[:-1], 0
            self.blocks, self.pixels = np.diff(bounds), plane
            if count == 1:
                self.blocks = blocks
        else:
            bounds = cuts(plane, sizes["parts"], grain)
            self.first_block, part = np.divmod(index, sizes["parts"])
            self.first_pixel, self.blocks = bounds[part], sizes["tile_blocks"]
            self.pixels = np.diff(bounds)[part]
            if count == 1:
                self.pixels = plane
        self.slot = facts.common_rows + index % SLOTS * sizes["slot_rows"]
        free = self.slot + self.blocks * facts.block_rows
        self.operands: list[tuple[np.ndarray, int | np.ndarray]] = []
        place = None
        for number, source in enumerate(site.sources):
            self.origins["ab"[number] + "_row"] = Origin.TILES
            if isinstance(source, Resident):
                first = 0 if facts.broadcast and number else self.first_pixel
                pitch = source.block_rows
                row = self.first_block * pitch + first + self.none
                self.origins["ab"[number] + "_row"] = _SOURCES[number]
            elif facts.broadcast and number == 1:
                row, pitch, free = free, 1, free + self.blocks
            else:
                row, pitch, free = free, self.pixels, free + self.blocks * self.pixels
                place = place or (row, pitch)
            self.operands.append((row, pitch))
        if isinstance(site.target, Resident):
            pitch = site.target.block_rows
            row = self.first_block * pitch + self.first_pixel + self.none
            self.origins["out_row"] = Origin.TARGET
            self.out: tuple[np.ndarray, int | np.ndarray] = (row, pitch)
        else:
            self.out = place or (free, self.pixels)
        # VECTORs: one a tile, or one a block of it.
        self.owner, self.block = index, self.none
        self.first, self.last = index, index
        if facts.block_rows:
            each = np.broadcast_to(self.blocks, count)
            ends = np.cumsum(each)
            self.owner = np.repeat(index, each)
            self.block = np.arange(len(self.owner)) - (ends - each)[self.owner]
            self.first, self.last = ends - each, ends - 1

    def loads(self, words: Batch, operand: int, needs: Needs | None, by_store: bool) -> Loads:
        """Return LOADs, one a tile."""
        freed = np.full(self.count, -1)
        freed[SLOTS:] = np.arange(self.count - SLOTS) if by_store else self.last[:-SLOTS]
        return Loads(words, self.first, self.first, freed, operand, needs)


def _each(value: int | np.ndarray, tile: np.ndarray) -> int | np.ndarray:
    """Return the value of some tiles."""
    return value[tile] if isinstance(value, np.ndarray) else value


def _affine_constants(layer: Affine, config: Config) -> tuple[bytes, bytes]:
    """Return the records of all channels, and one that computes zeros."""
    _, blocks = layer_records(layer, config)
    data = b"".join(block.tobytes() for block in blocks)[: RECORD_BYTES * len(layer.gain)]
    record = isa.RECORD.unpack(int.from_bytes(data[:RECORD_BYTES], "little"))
    spare = dict.fromkeys(record, 0) | {"rounding": record["rounding"]}
    return data, isa.RECORD.pack(**spare).to_bytes(RECORD_BYTES, "little")
