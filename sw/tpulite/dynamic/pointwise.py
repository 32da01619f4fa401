"""BatchNorm, elementwise arithmetic and tables, bound to shapes."""

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import Engine, Opcode, VectorOp
from tpulite.arch.memory import Window
from tpulite.arch.numerics import INT8
from tpulite.compiler.plan.closed_forms import Number, ceil_div, cuts, grain
from tpulite.compiler.plan.pointwise import SLOTS, PointwiseFacts, pointwise_facts, pointwise_plans
from tpulite.compiler.tiling.constants import channel_records, common_record, pad_to_rows
from tpulite.dynamic.operator import Bound, tensor_spec
from tpulite.dynamic.order import Computes, Loads, Stores, order_commands
from tpulite.dynamic.selector import Strategy
from tpulite.dynamic.shapes import Shape
from tpulite.dynamic.transfer import DramTensor, load_constants
from tpulite.dynamic.windows import Axis
from tpulite.dynamic.words import Words, pack_words
from tpulite.graph.layers import Affine, Elementwise, LayerGraph, Lut
from tpulite.program import TensorSpec

__all__ = ["Pointwise"]


class Pointwise:
    """Affine, elementwise or table layer; follows :class:`tpulite.dynamic.operator.Operator`.

    All images of a batch are one plane a channel block, because no vector needs another one.

    Parameters
    ----------
    layers : LayerGraph
        A network of this one layer. Its channels are the most that can be bound.
    config : Config
        The machine.

    Raises
    ------
    ValueError
        If the machine lacks the rounding.
    """

    def __init__(self, layers: LayerGraph, config: Config) -> None:
        (layer,) = layers.layers
        self._layers, self._config, self._layer = layers, config, layer
        self._spare = b""
        match layer:
            case Affine():
                self._operation = VectorOp.AFFINE
                self._constants, self._spare = _affine_constants(layer, config)
            case Elementwise():
                self._operation = VectorOp[layer.op.upper()]
                self._constants = _elementwise_constants(layer, config)
            case Lut():
                self._operation = VectorOp.LUT
                self._constants = layer.table.tobytes()
            case _:
                raise ValueError(f"{layer.title} is not computed vector by vector")
        shapes = [layers.images[name].shape for name in layer.inputs]
        self._facts = pointwise_facts(layer, shapes, config, kept=False)
        self._grain = grain(config.row_bytes)
        self.axes = Axis(1, 1, 1, 0, 0), Axis(1, 1, 1, 0, 0)

    def depth(self) -> int:
        """Return the multiplications of an output element: none on the systolic array."""
        return 0

    def strategies(
        self, batch: Number, height: Number, width: Number, channels: Number
    ) -> tuple[Strategy, ...]:
        """Return all strategies: those of :func:`pointwise_plans`."""
        blocks = ceil_div(channels, self._config.array_size)
        plans = pointwise_plans(self._facts, batch * height * width, blocks, self._grain)
        names = ("tiles", "parts", "tile_blocks", "tile_pixels", "slot_rows", "needed_rows")
        return tuple(
            Strategy(
                plan.name,
                plan.feasible,
                plan.cycles,
                plan.traffic,
                {name: getattr(plan, name) for name in names},
            )
            for plan in plans
        )

    def bind(self, shape: Shape, strategy: Strategy) -> Bound:
        """Fill in a shape and its strategy."""
        inputs, output = self._tensors(shape)
        tiles = _Tiles(self._facts, shape, strategy, self._grain)
        source, target = DramTensor.of(inputs[0], self._config), DramTensor.of(output, self._config)
        loads = [self._load(tiles, source, tiles.data)]
        if self._facts.operands == 2:
            loads.append(self._load(tiles, DramTensor.of(inputs[-1], self._config), tiles.other))
        if self._facts.broadcast:
            tensor = DramTensor.of(inputs[1], self._config)
            words = tensor.transfer(
                Opcode.LOAD, (tiles.first_block, tiles.blocks), (0, 1), tiles.other, 1
            )
            loads.append(tiles.loads(words))
        if self._facts.block_rows:
            size = RECORD_BYTES * self._config.array_size
            rows = tiles.blocks * self._facts.block_rows
            loads.insert(0, tiles.loads(load_constants(tiles.first_block * size, rows, tiles.slot)))
        else:
            words = load_constants(0, self._facts.common_rows, np.zeros(1, np.int64))
            zero = np.zeros(1, np.int64)
            loads.insert(0, Loads(words, zero, zero, zero - 1))
        region = (tiles.first_block, tiles.blocks), (tiles.first_pixel, tiles.pixels)
        stores = target.transfer(Opcode.STORE, *region, tiles.data, tiles.pixels)
        words, positions = order_commands(
            Loads.join(*loads),
            Computes(Engine.VPU, self._compute(tiles)),
            Stores(stores, tiles.last),
            lead=self._config.queue_depth,
            freed_by_store=True,
        )
        constants = self._bound_constants(shape.channels)
        return Bound(words, positions, constants, inputs, (output,))

    def _tensors(self, shape: Shape) -> tuple[tuple[TensorSpec, ...], TensorSpec]:
        extents = (shape.batch, shape.height, shape.width)
        names = self._layers.layers[0].inputs
        inputs, offset = [], 0
        for i, name in enumerate(dict.fromkeys(names)):
            each = (1, 1, 1) if i and self._facts.broadcast else extents
            spec = tensor_spec(self._layers, name, Window.INPUT, offset, each, shape.channels)
            inputs.append(spec)
            offset += spec.nbytes(self._config)
        (name,) = self._layers.outputs
        output = tensor_spec(self._layers, name, Window.OUTPUT, 0, extents, shape.channels)
        return tuple(inputs), output

    def _load(self, tiles: "_Tiles", tensor: DramTensor, row: np.ndarray) -> Loads:
        region = (tiles.first_block, tiles.blocks), (tiles.first_pixel, tiles.pixels)
        return tiles.loads(tensor.transfer(Opcode.LOAD, *region, row, tiles.pixels))

    def _compute(self, tiles: "_Tiles") -> Words:
        low, high = INT8[0], INT8[-1]
        fields = {"operation": self._operation, "low": low, "high": high}
        fields |= {"window_rows": 1, "window_columns": 1, "a_step": 1, "out_step": 1}
        if self._operation == VectorOp.AFFINE:
            tile, block = tiles.each_block
            row = tiles.data[tile] + block * tiles.pixels_of(tile)
            return pack_words(
                Opcode.VECTOR,
                len(tile),
                **fields,
                rows=1,
                columns=tiles.pixels_of(tile),
                a_row=row,
                out_row=row,
                param_row=tiles.slot[tile] + block * self._facts.block_rows,
            )
        if self._operation != VectorOp.LUT:
            fields["b_row"] = tiles.other
            fields["b_pitch"] = 1 if self._facts.broadcast else tiles.pixels
            fields["b_step"] = int(not self._facts.broadcast)
        return pack_words(
            Opcode.VECTOR,
            tiles.count,
            **fields,
            rows=tiles.blocks,
            columns=tiles.pixels,
            a_row=tiles.data,
            a_pitch=tiles.pixels,
            out_row=tiles.data,
            out_pitch=tiles.pixels,
            param_row=0,
        )

    def _bound_constants(self, channels: int) -> bytes:
        """Return parameters of the first channels; what is beyond computes zeros."""
        if not self._spare:
            return self._constants
        used = RECORD_BYTES * channels
        return self._constants[:used] + self._spare * (-channels % self._config.array_size)


class _Tiles:
    """All tiles of a shape in order, as arrays, or as numbers where they are alike.

    ``slot`` is the first row of the tile's place, ``data`` and ``other`` those of its operands.
    """

    def __init__(self, facts: PointwiseFacts, shape: Shape, strategy: Strategy, grain: int) -> None:
        sizes = strategy.sizes
        self.count = count = sizes["tiles"]
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
            self.first_pixel, self.blocks = bounds[part], 1
            self.pixels = np.diff(bounds)[part]
        self.slot = facts.common_rows + index % SLOTS * sizes["slot_rows"]
        self.data = self.slot + self.blocks * facts.block_rows
        self.other = self.data + self.blocks * self.pixels
        self.each_block = index, np.zeros(1, np.int64)
        if facts.block_rows and strategy.name == "planes":
            first = bounds[:-1]
            tile = np.repeat(index, self.blocks)
            self.each_block = tile, np.arange(blocks) - first[tile]
        # The first and the last VECTOR of each tile.
        self.first, self.last = index, index
        if facts.block_rows and strategy.name == "planes":
            self.first, self.last = bounds[:-1], bounds[1:] - 1
        self._freed = index - SLOTS

    def pixels_of(self, tile: np.ndarray) -> int | np.ndarray:
        """Return the vectors of a plane of some tiles."""
        return self.pixels[tile] if isinstance(self.pixels, np.ndarray) else self.pixels

    def loads(self, words: Words) -> Loads:
        """Return LOADs, one a tile."""
        return Loads(words, self.first, self.first, np.maximum(self._freed, -1))


def _affine_constants(layer: Affine, config: Config) -> tuple[bytes, bytes]:
    """Return the records of all channels, and one that computes zeros."""
    size = len(layer.gain)
    bias = np.broadcast_to(layer.requantization.bias, size).astype(np.int64)
    _, blocks = channel_records(layer.requantization, bias, config, gain=layer.gain)
    data = b"".join(block.tobytes() for block in blocks)[: RECORD_BYTES * size]
    record = isa.RECORD.unpack(int.from_bytes(data[:RECORD_BYTES], "little"))
    spare = dict.fromkeys(record, 0) | {"rounding": record["rounding"]}
    return data, isa.RECORD.pack(**spare).to_bytes(RECORD_BYTES, "little")


def _elementwise_constants(layer: Elementwise, config: Config) -> bytes:
    operands = isa.OPERANDS.pack(
        a_zero_point=layer.zero_points[0],
        b_zero_point=layer.zero_points[1],
        a_multiplier=layer.multipliers[0],
        b_multiplier=layer.multipliers[1],
        a_shift=layer.shifts[0],
        b_shift=layer.shifts[1],
        scaling=layer.scaling,
    )
    rows = pad_to_rows(operands.to_bytes(RECORD_BYTES, "little"), config)
    return rows.tobytes() + common_record(layer.requantization, config).tobytes()
