"""Tiles of a layer that runs alone: a strategy in closed form, as commands without addresses.

All tiles take places in one buffer, as the strategy says. A LOAD to a place that had another tile
stays behind the command that frees the place.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.families import operator_of
from tpulite.compiler.operators.operator import (
    Constants,
    Operator,
    Place,
    Resident,
    Shape,
    ShapeRange,
    Site,
    Task,
)
from tpulite.compiler.operators.transfer import DramTensor
from tpulite.compiler.operators.words import Batch, Origin, Step
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.pool_cuts import suits_array
from tpulite.compiler.plan.slabs import Room, Strategy, TilePlan, cost
from tpulite.graph.layers import Layer, LayerGraph, Pool


@dataclass(frozen=True)
class TiledLayer:
    """A layer that has strategies in closed form."""

    #: The layer, compiled but for its extents, in each way that computes it.
    operators: tuple[Operator, ...]
    index: int  #: Index of the layer.
    #: Its input and its output, of one image.
    source: Store
    target: Store
    #: Whether tiles come from DRAM, and go there.
    sourced: bool
    stored: bool
    channels: int  #: Channels of the input.
    pool: ConstantPool  #: Takes weights and records.

    @classmethod
    def of(
        cls,
        layers: LayerGraph,
        index: int,
        tensors: tuple[Store, Store],
        pool: ConstantPool,
    ) -> "TiledLayer | None":
        """Return a layer, or None if strategies cannot express it or where its tensors are.

        Parameters
        ----------
        index : int
            Index of the layer.
        tensors : tuple of Store
            Input and output, of one image.
        pool : ConstantPool
            Takes weights and records.
        """
        (source, target), layer = tensors, layers.layers[index]
        channels = layers.activations[layer.inputs[0]].shape[2]
        if layer.windows is None or layer.int16 or pool.pins is not None:
            return None
        if any(
            not store.whole or store.packed_rows or store.column or store.block or store.specs[1:]
            for store in tensors
        ):
            return None
        sourced = source.given or not source.resident
        stored = not target.resident or (target.stored and not layers.readers[layer.output])
        if not sourced and source.skewed:
            return None
        if not stored and (target.skewed or target.stored or target.vector_rows > 1):
            return None
        extents, config = (source.height, source.width), source.config
        outputs = target.height, target.width
        operators = pool.packed(
            ("tiles", index, extents, config),
            lambda: tuple(_operators(layers, layer, extents, outputs, config)),
        )
        if not operators:  # the strips of a plan are more general
            return None
        return cls(operators, index, source, target, sourced, stored, channels, pool)

    @property
    def config(self) -> Config:
        """The machine."""
        return self.source.config

    def plans(self, rows: int) -> list[TilePlan]:
        """Return all ways to cut the layer, the cheapest first; of equal tiles the first name.

        Parameters
        ----------
        rows : int
            Rows of the buffer that tiles may take.
        """
        room = Room(rows, (self.sourced,), self.stored)
        found: dict[tuple[object, ...], tuple[int, Strategy]] = {}
        for way in range(len(self.operators)):
            for each in self._strategies(way, room):
                key = way, each.cycles, each.traffic, *each.sizes.items()
                found.setdefault(key, (way, each))
        ordered = sorted(found.values(), key=lambda x: cost(x[1].cycles, x[1].traffic))
        return [TilePlan(each.name, way, room, int(each.cycles)) for way, each in ordered]

    def ops(self, plan: TilePlan) -> Iterator[Op]:
        """Yield the commands of a plan in an order in which they could run one after the other."""
        operator, strategies = self.operators[plan.way], self._strategies(plan.way, plan.room)
        strategy = next(each for each in strategies if each.name == plan.name)
        places = _place(self.source, dram=self.sourced), _place(self.target, dram=self.stored)
        constants = Constants(operator.constants)
        task = Task(operator, self._shape, strategy, Site(places[:1], places[1]), 0)
        (step,) = operator.steps([task], constants)
        tiles = Buffer(
            f"tiles of {self.target.name}",
            int(strategy.sizes["tile_rows"]),
            bank=0,
            side=Side.TOP,
        )
        return _Placer(self, operator, tiles, constants.image()).ops(step)

    @property
    def _shape(self) -> Shape:
        return Shape(1, self.source.height, self.source.width, self.channels)

    def _strategies(self, way: int, room: Room) -> list[Strategy]:
        found = self.operators[way].strategies(self._shape, room)
        return [each for each in found if each.feasible]


class _Placer:
    """Turns commands that count from origins into those that name buffers."""

    def __init__(
        self, tiled: TiledLayer, operator: Operator, tiles: Buffer, constants: bytes
    ) -> None:
        self._tiled, self._constants = tiled, constants
        self._regions = {int(Origin.TILES): Region(tiles)}
        input_zero, weight_zero = operator.zero_points
        self._numbers = {
            int(Origin.INPUT_ZERO): input_zero,
            int(Origin.WEIGHT_ZERO): weight_zero,
        }
        for origin, store, dram in (
            (Origin.SOURCE, tiled.source, tiled.sourced),
            (Origin.TARGET, tiled.target, tiled.stored),
        ):
            if dram:
                self._numbers[int(origin)] = store.specs[0].offset
            else:
                assert store.buffer is not None
                self._regions[int(origin)] = Region(store.buffer, store.first)

    def ops(self, step: Step) -> Iterator[Op]:
        """Yield the commands of a step; LOADs come as early as their places are free."""
        loads = [op for each in step.loads for op in self._placed(each.words)]
        # A pool whose input is in the buffer loads nothing.
        none = np.zeros(0, np.int64)
        due = np.concatenate([none, *(each.due for each in step.loads)])
        freed = np.concatenate(
            [none, *(np.full(len(x.due), -1) if x.freed is None else x.freed for x in step.loads)]
        )
        if step.freed_by_store:
            freed = np.where(freed >= 0, step.stores.after[freed], -1)
        order = np.argsort(due, kind="stable")
        due, freed = due[order], freed[order]
        # The queue of LOADs must be able to take those that are ahead.
        lead, behind = self._tiled.config.queue_depth, freed.copy()
        behind[lead:] = np.maximum(behind[lead:], due[:-lead] - 1)
        behind = np.maximum.accumulate(behind)
        keyed = [
            (4 * after + 4, loads[i]._replace(stays=place >= 0))
            for i, after, place in zip(order.tolist(), behind.tolist(), freed.tolist(), strict=True)
        ]
        computed, stored = self._placed(step.computes.words), self._placed(step.stores.words)
        keyed += [(4 * i + 2, op) for i, op in enumerate(computed)]
        keyed += zip((4 * step.stores.after + 3).tolist(), stored, strict=True)
        keyed.sort(key=lambda pair: pair[0])
        return (op for _, op in keyed)

    def _placed(self, batch: Batch) -> list[Op]:
        """Return the commands of a batch."""
        fields, origins = _rows(batch, batch.fields), _rows(batch, batch.origins)
        pairs = zip(fields, origins, strict=True)
        return [self._op(batch.opcode, *pair) for pair in pairs]

    def _op(self, opcode: Opcode, fields: dict[str, int], origins: Mapping[str, int]) -> Op:
        """Return a command, its fields counted from origins; -1: from 0."""
        rows = {}
        for name, origin in origins.items():
            if origin in self._regions:
                rows[name] = self._regions[origin].behind(fields.pop(name))
            elif origin == Origin.CONSTANTS:  # only what is loaded is kept
                size = fields["rows"] * self._tiled.config.row_bytes
                data = self._constants[fields[name] : fields[name] + size]
                fields[name] = self._tiled.pool.add(data)
            elif origin >= 0:
                fields[name] += self._numbers[origin]
        barrier = opcode == Opcode.LOAD and fields["window"] == Window.SCRATCH
        return Op(opcode, self._tiled.index, fields, rows, barrier=barrier)


def _rows(batch: Batch, columns: Mapping[str, int | np.ndarray]) -> Iterator[dict[str, int]]:
    """Yield what columns of a batch say of each command."""
    part = slice(batch.start, batch.start + batch.count)
    values = [
        each[part].tolist() if isinstance(each, np.ndarray) else [int(each)] * batch.count
        for each in columns.values()
    ]
    for i in range(batch.count):
        yield {name: column[i] for name, column in zip(columns, values, strict=True)}


def _operators(
    layers: LayerGraph,
    layer: Layer,
    extents: tuple[int, int],
    outputs: tuple[int, int],
    config: Config,
) -> Iterator[Operator]:
    """Yield all ways that the machine can express."""
    (height, width), one = extents, (1, 1)
    shapes = ShapeRange(one, (height, height), (width, width))
    with suppress(ValueError):
        yield operator_of(layer, layers, shapes, config, outputs=outputs)
    with suppress(ValueError):
        if isinstance(layer, Pool) and suits_array(layer) and layer.window != extents:
            channels = layers.activations[layer.output].shape[2]
            yield DepthwiseFilter.averaging(layer, channels, config)


def _place(store: Store, *, dram: bool) -> Place:
    """Return where a tensor is."""
    return DramTensor.of(store.specs[0], store.config) if dram else Resident(store.block_pitch)
