"""Convolutions, bound to shapes."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import Any

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.geometry.axis import LARGEST_KERNEL, Axis1D, Number, axes_of, ceil_div
from tpulite.compiler.geometry.extents import int4_tiles
from tpulite.compiler.geometry.passes import Pass
from tpulite.compiler.operators.conv_commands import conv_steps
from tpulite.compiler.operators.conv_table import ConvWork
from tpulite.compiler.operators.operator import (
    Buffers,
    Constants,
    Cut,
    Extents,
    Operator,
    Shape,
    ShapeRange,
    Task,
    Tiling,
    check_window,
    even_cut,
)
from tpulite.compiler.operators.words import Step
from tpulite.compiler.place.weights import layer_records, packed_row_weights, tile_weights
from tpulite.compiler.plan.conv_facts import MOST_BLOCKS, ActivationExtents, ConvFacts
from tpulite.compiler.plan.conv_slabs import BY_TILE, STAYING, Slots, conv_strategies, slab_rows
from tpulite.compiler.plan.slabs import Room, Strategy, slab_bounds
from tpulite.graph.layers import Conv
from tpulite.program import PackedRows, TensorSpec


@dataclass(frozen=True)
class _Dense:
    """Dense mode: the image lies in packed rows."""

    #: Bytes of a pixel, and from an output column to the next.
    channels: int
    step: int
    length: int  #: Bytes that a window covers in a packed row.


@lru_cache
def _facts(**values: Any) -> ConvFacts:
    """Return facts; equal convolutions share them, with all that was computed of them."""
    return ConvFacts(**values)


class Convolution(Operator):
    """Convolution; follows :class:`tpulite.compiler.operators.operator.Operator`.

    Parameters
    ----------
    shapes : ShapeRange
        Shapes of the network's input.
    packed_rows : bool
        Whether it is the only layer that reads that input, so that it may lie in packed rows.

    Attributes
    ----------
    facts : ConvFacts
        What its strategies depend on.
    flat : bool
        Whether a vector needs one vector alone: all pixels of a batch are rows of one column.

    Raises
    ------
    ValueError
        If the machine cannot express the layer, or lacks its rounding.
    """

    def __init__(
        self, layer: Conv, shapes: ShapeRange, config: Config, *, packed_rows: bool
    ) -> None:
        self.layer, self.config = layer, config
        channels = layer.weight.shape[2]
        check_window(layer)
        if channels > MOST_BLOCKS * config.array_size:
            raise ValueError(
                f"{layer.title} must have at most {MOST_BLOCKS * config.array_size} channels, "
                f"not {channels}"
            )
        if layer.requantization is None and layer.input_zero_point:
            raise ValueError(
                f"{layer.title}: raw sums of any shape need input_zero_point 0, "
                f"not {layer.input_zero_point}"
            )
        self._y, self._x = axes_of(layer.windows)
        self._dense = self._packed_rows(shapes) if packed_rows else None
        weight, x = layer.weight, self._x
        if self._dense is not None:
            weight = packed_row_weights(layer, config.array_size, transposed=False)
            x = Axis1D(weight.shape[1])
        form, records = layer_records(layer, config)
        blocks, n_blocks = (ceil_div(count, config.array_size) for count in weight.shape[2:])
        self.flat = self._dense is None and layer.windows.single
        self.facts = _facts(
            config=config,
            y=self._y,
            x=x,
            byte_step=0 if self._dense is None else self._dense.step,
            blocks=blocks,
            runs=((range(blocks),),) * n_blocks,
            form=form,
            record_rows=len(records[0]) if records else 0,
            int4=int4_tiles(layer, config, packed_rows=self._dense is not None),
        )
        size, zero_point = config.array_size, layer.weight_zero_point
        tiles = tile_weights(weight, size, zero_point, int4=self.facts.int4)
        self.constants = _constants(tiles, records, self.facts.block_passes[0])
        self.zero_points = layer.input_zero_point, layer.weight_zero_point
        geometry = (weight.shape, self._y, self._x, layer.dilation, self._dense)
        self.key: Hashable | None = (Conv, geometry, form, self.weight_rows)

    def _packed_rows(self, shapes: ShapeRange) -> _Dense | None:
        """Return how inputs are packed, if that saves k-tiles and every shape permits it."""
        layer, size = self.layer, self.config.array_size
        kh, kw, channels, _ = layer.weight.shape
        dense = _Dense(channels, layer.stride[1] * channels, kw * channels)
        chunks = ceil_div(dense.length, size)
        saves = chunks < kw * ceil_div(channels, size)
        fits = dense.step <= size and max(kh, chunks) <= LARGEST_KERNEL and max(layer.dilation) == 1
        columns = self._x.outputs(shapes.width[1])
        return dense if saves and fits and columns <= self.config.acc_rows else None

    def axes_of(self, height: Number, width: Number) -> tuple[Axis1D, Axis1D]:
        """Return the geometries along height and width."""
        return self._y, self._x

    @property
    def weight_rows(self) -> int:
        """Return the rows of the buffer for all weights and parameters."""
        return self.facts.large.total

    def _vectors(self, width: Number) -> Number:
        """Return the vectors of an image row."""
        if self._dense is None:
            return width
        size = self.config.array_size
        used = (self._x.outputs(width) - 1) * self._dense.step + self._dense.length
        unit = BEAT_BYTES // gcd(BEAT_BYTES, size)
        return ceil_div(ceil_div(used, size), unit) * unit

    def _extents(self, batch: Number, height: Number, width: Number) -> ActivationExtents:
        if self.flat:
            pixels = batch * height * width
            return ActivationExtents(1, pixels, 1, pixels, 1)
        outputs = self._y.outputs(height), self._x.outputs(width)
        return ActivationExtents(batch, height, self._vectors(width), *outputs)

    def strategies_in(self, extents: Extents, room: Room) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`conv_strategies`."""
        return conv_strategies(self.facts, self._extents(*extents[:3]), room)

    def source_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return how an input that only this layer reads should lie in DRAM."""
        if self._dense is None:
            return spec
        assert spec.image is not None
        fill = self.layer.input_zero_point + (128 if spec.dtype == "uint8" else 0)
        width = spec.image[-1] if spec.patches is None else spec.patches.count[1]
        packed_rows = PackedRows(self._vectors(width), self._x.before, fill)
        return replace(spec, m=spec.m // width, packed_rows=packed_rows)

    def tiling(self, shape: Shape, strategy: Strategy, room: Room) -> Tiling:
        """Return the tiles of a strategy: slabs of rows, and panels of their columns."""
        facts, sizes = self.facts, strategy.sizes
        extents = self._extents(*shape[:3])
        bounds = slab_bounds(strategy.mode, sizes["parts"], slab_rows(facts, extents, room))
        flat = self.flat
        cut = [Cut("pixels" if flat else "rows", tuple(bounds.tolist()))]
        if not flat:
            unit = BEAT_BYTES // min(BEAT_BYTES, self.config.row_bytes)
            cut.append(even_cut("columns", extents.out_width, sizes["panels"], unit))
        tiles = prod(map(len, cut))
        cut.append(Cut("channels", (0, self.layer.weight.shape[3])))
        slots: Slots = sizes["slots"]
        by_tile = strategy.kind in BY_TILE
        weights = 1 if strategy.kind in STAYING else slots.weights
        buffers = (
            Buffers(
                "input", min(slots.inputs, tiles) if by_tile else slots.inputs, 0, sizes["in_slot"]
            ),
            Buffers(
                "output",
                min(slots.outputs, tiles * facts.n_blocks),
                slots.inputs * sizes["in_slot"],
                sizes["out_slot"],
            ),
            Buffers("weights", weights, sizes["weights_at"], sizes["weight_rows"] // weights),
        )
        return Tiling.of(cut, buffers)

    @classmethod
    def steps(cls, tasks: Sequence[Task["Convolution"]], constants: Constants) -> list[Step]:
        """Return the steps of all convolutions."""
        works = []
        for task in tasks:
            operator, shape = task.operator, task.shape
            extents = operator._extents(*shape[:3])
            works.append(ConvWork(operator.facts, extents, task.strategy, task.site))
        return conv_steps(works)


def _constants(tiles: np.ndarray, records: list[np.ndarray], passes: Sequence[Pass]) -> bytes:
    """Return weights by n-block and unit of a channel block, and records behind each n-block.

    Larger units are some of them, one after the other.
    """
    n_blocks, blocks = tiles.shape[:2]
    parts = [
        tiles[:, :, part.rows.start : part.rows.stop, part.columns.start : part.columns.stop]
        for part in passes
        if part.blocks.start == 0
    ]
    units = np.concatenate([part.reshape(n_blocks, blocks, -1) for part in parts], axis=2)
    behind = [each.tobytes() for each in records] or [b""] * n_blocks
    return b"".join(unit.tobytes() + rows for unit, rows in zip(units, behind, strict=True))
