"""Running a group slice by slice: every layer computes its rows of a step, then the next step.

Layers around a softmax are a software pipeline: while the vector path computes shares of a step,
the array computes products of the next step, and of the step before.
"""

from collections.abc import Iterator, Mapping

from tpulite.compiler.geometry.group import Group, Step
from tpulite.compiler.geometry.slices import plan_steps, step_delays
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.rolling import RollingStore
from tpulite.compiler.ops import Op
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.pointwise import POINTWISE
from tpulite.graph.layers import Conv, Layer, LayerGraph, Pool


class SlicedGroup:
    """The slices of a group.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    group : Group
        Layers that run together.
    stores : mapping of str to Store
        Images that they read and write. Of those that are not resident only strips are on chip.
    parted : bool
        Whether what the first step loads comes in parts.
    """

    def __init__(
        self, layers: LayerGraph, group: Group, stores: Mapping[str, Store], *, parted: bool = True
    ) -> None:
        self._group, self._graph = group, layers
        self._layers = {i: layers.layers[i] for i in group.layers}
        self._computed = {layer.output for layer in self._layers.values()}
        read = {name for layer in self._layers.values() for name in layer.inputs}
        # What a convolution stores, and nobody reads here, leaves part by part.
        parts = {x.output for x in self._layers.values() if isinstance(x, Conv)} - read
        self._rolling = {
            name: RollingStore.rolling(store, loaded=name not in self._computed, parted=parted)
            for name, store in stores.items()
            if not store.resident and (name not in parts or store.grain > 1)
        }
        self.stores = {**stores, **self._rolling}

    def ops(
        self, lowerings: Mapping[int, tuple[LayerContext, Lowering]], *, again: bool
    ) -> Iterator[Op]:
        """Yield all commands.

        Parameters
        ----------
        lowerings : mapping of int to (LayerContext, Lowering)
            Of each layer, made with :attr:`stores`.
        again : bool
            Whether constants that do not stay were loaded before.
        """
        grains = {x.name: x.grain for x in self._rolling.values() if x.spec is not None}
        steps = plan_steps(self._graph, self._group, grains=grains)
        delays = step_delays(self._graph, self._group.layers, pipelined=self._group.pipelined)
        latest = max(delays.values())
        made: list[list[list[Op]]] = []  # by step and delay
        for time in range(len(steps) + latest):
            if time < len(steps):
                made.append([[] for _ in range(latest + 1)])
                following = steps[time + 1] if time + 1 < len(steps) else None
                for op in self._step(lowerings, steps[time], following, again=again or time > 0):
                    made[time][delays[op.layer]].append(op._replace(slice=time))
            # What is behind goes first: it must not wait for what is computed at the same time.
            for delay in range(latest, -1, -1):
                if 0 <= time - delay < len(steps):
                    yield from made[time - delay][delay]

    def _step(
        self,
        lowerings: Mapping[int, tuple[LayerContext, Lowering]],
        step: Step,
        following: Step | None,
        *,
        again: bool,
    ) -> Iterator[Op]:
        """Yield the commands of a slice."""
        moved = set(self._computed)
        for i, (context, lowering) in lowerings.items():
            layer = self._layers[i]
            for name in (*layer.inputs, layer.output):
                if name in self._rolling and (name == layer.output or name not in moved):
                    moved.add(name)
                    yield from self._advance(name, layer, step, context)
            if isinstance(layer, Pool) and following is not None:
                # The matrix unit would wait for copies behind all these windows.
                yield from self._prepare(i, following, context)
            if rows := step[layer.output].new:
                yield from lowering.ops(rows, again=again)

    def _advance(self, name: str, layer: Layer, step: Step, context: LayerContext) -> Iterator[Op]:
        over = []
        if name == layer.output and isinstance(layer, POINTWISE):
            sources = (self._rolling[x] for x in layer.inputs if x in self._rolling)
            over = [source.view for source in sources if source.view is not None]
        yield from self._rolling[name].advance(step[name], context, over)

    def _prepare(self, index: int, step: Step, context: LayerContext) -> Iterator[Op]:
        """Move on with all images that this layer and those before it read."""
        before = (layer for i, layer in self._layers.items() if i <= index)
        for name in dict.fromkeys(name for layer in before for name in layer.inputs):
            if name in self._rolling:
                yield from self._rolling[name].prepare(step[name], context)
