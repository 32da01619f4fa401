"""The lowering of a layer: commands for some rows of its output at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.ops import Op
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.layer_plan import LayerPlan
from tpulite.graph.layers import Layer

L = TypeVar("L", bound=Layer)
P = TypeVar("P", bound=LayerPlan)


class Lowering(ABC, Generic[L, P]):
    """A layer on its way to commands.

    A layer alone is cut as its plan says; in a group the group says which rows come next. Either
    way :meth:`strip` computes them.

    Parameters
    ----------
    layer : Layer
        The layer.
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
