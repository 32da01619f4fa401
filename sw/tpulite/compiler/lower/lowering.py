"""The lowering of a layer: commands for some rows of its output at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Generic, TypeVar

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.numerics import INT8
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.ops import Op, Region, Side
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import Constant, ConstantPool
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.layer_plan import LayerPlan
from tpulite.compiler.plan.pool_windows import MOST_VECTORS
from tpulite.compiler.plan.space import Space
from tpulite.graph.layers import Layer


@dataclass(frozen=True)
class LayerContext:
    """Surroundings of one layer."""

    index: int  #: Index of the layer.
    name: str  #: Its name.
    config: Config  #: The machine.
    pool: ConstantPool  #: Where constants are kept.
    stores: Mapping[str, Store]  #: Images that the layer reads and writes, by name.
    channels: Mapping[str, int]  #: Their channels, padding not counted.
    strip_rows: int  #: Rows of the unified buffer that a strip of an image may take.
    free_rows: int  #: Rows that no resident image takes while the layer runs.
    options: Options  #: Choices of the compilation.
    #: Part of their usual size that strips may have; ``strip_rows`` and ``free_rows`` are so much
    #: smaller than they would be.
    share: float = 1.0
    #: Whether constants stay from slice to slice; without a group, the layer decides.
    keep: bool | None = None
    fleeting: bool = False  #: Whether constants do not stay at all: each command loads its own.
    #: Constants of the group by what they are: images of a batch, and columns of an image, share
    #: them.
    constants: dict[tuple[object, ...], Constant] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        """What plans know of the room that the layer has."""
        return Space(
            self.config,
            self.strip_rows,
            self.free_rows,
            self.share,
            self.keep,
            self.fleeting,
            self.options.block_start,
            self.options.interleaved,
            self.options.prefetch,
        )

    def constant(self, what: str, data: np.ndarray, *, bank: int | None = None) -> Constant:
        """Keep rows of constants of the layer."""
        rows = np.ascontiguousarray(data).view(np.uint8).reshape(-1, self.config.row_bytes)
        # What stays for many slices lies with what lives long.
        side = Side.BOTTOM if self.keep else Side.TOP
        name, stays = f"{what} of {self.name}", not self.fleeting
        made = Constant(name, rows, self.pool, self.index, bank, side, stays=stays)
        return self.constants.setdefault((self.index, bank, made.rows, made.offset), made)


L = TypeVar("L", bound=Layer)
P = TypeVar("P", bound=LayerPlan)


class Lowering(ABC, Generic[L, P]):
    """A layer on its way to commands.

    A layer alone is cut as its plan says; in a group the group says which rows come next. Either
    way :meth:`strip` computes them.

    Parameters
    ----------
    context : LayerContext
        Its surroundings.
    plan : LayerPlan
        How it is cut.
    """

    def __init__(self, layer: L, context: LayerContext, plan: P) -> None:
        self._plan = plan
        self._layer, self._context, self._config = layer, context, context.config
        self._sources = [context.stores[name] for name in layer.inputs]
        self._source = self._sources[0]
        self._target = context.stores[layer.output]

    def ops(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        """Yield what :meth:`strip` does; errors name the layer."""
        try:
            yield from self.strip(rows, again=again)
        except ValueError as error:
            raise ValueError(f"Layer {self._layer.name!r}: {error}") from error

    def alone(self, *, again: bool = False) -> Iterator[Op]:
        """Yield the commands that compute all of the output, as the layer alone is cut."""
        assert not isinstance(self._plan, ConvPlan)
        for number, rows in enumerate(self._plan.strips):
            yield from self.ops(rows, again=again or number > 0)

    @abstractmethod
    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:
        """Yield the commands that compute output rows.

        Parameters
        ----------
        rows : range
            Rows of the output.
        again : bool
            Whether constants that do not stay on chip must be loaded another time.
        """


_PLAIN = {"low": INT8[0], "high": INT8[-1], "window_rows": 1, "window_columns": 1}
"""Fields of a command without a window that clamps nothing."""


def vector_op(
    context: LayerContext, operation: VectorOp, fields: dict[str, int], places: dict[str, Region]
) -> Op:
    """Return a VECTOR; fields that are not named have no effect."""
    return Op(Opcode.VECTOR, context.index, {**_PLAIN, "operation": operation, **fields}, places)


def copy_ops(
    context: LayerContext,
    places: tuple[Region, Region],
    extents: tuple[int, int],
    read: tuple[int, int],
    write: tuple[int, int],
) -> Iterator[Op]:
    """Return COPYs of rows and columns, as many as necessary; pairs are pitch and step."""
    pieces = (split(extent, -(-extent // MOST_VECTORS), 1) for extent in extents)
    for rows, columns in product(*pieces):
        fields = {
            "rows": len(rows),
            "columns": len(columns),
            "a_pitch": read[0],
            "a_step": read[1],
            "out_pitch": write[0],
            "out_step": write[1],
        }
        a, out = (
            Region(place.buffer, place.row + rows.start * pitch + columns.start * step)
            for place, (pitch, step) in zip(places, (read, write), strict=True)
        )
        yield vector_op(context, VectorOp.COPY, fields, {"a_row": a, "out_row": out})
