"""What is chosen when a network is bound to a shape, for reports."""

from dataclasses import dataclass
from functools import cached_property

from tpulite.compiler.bind.network import Node
from tpulite.compiler.operators.operator import Shape, Tiling
from tpulite.compiler.plan.slabs import Room, Strategy


@dataclass(frozen=True)
class LayerPlan:
    """A layer at one shape."""

    node: Node  #: The layer.
    shape: Shape  #: Shape of its first input; the batch is what goes through it at a time.
    strategy: Strategy  #: The cheapest feasible one.
    row: int  #: First row of the unified buffer that it takes.
    room: Room  #: Which rows it may take, and which of its tensors are in DRAM.

    @cached_property
    def tiling(self) -> Tiling:
        """Its tiles, and the rows of the buffer that they take in turn."""
        tiling = self.node.operator.tiling(self.shape, self.strategy, self.room)
        return tiling.behind(self.row)

    @cached_property
    def candidates(self) -> tuple[Strategy, ...]:
        """All strategies that were compared, in closed form."""
        return self.node.operator.strategies(self.shape, self.room)


@dataclass(frozen=True)
class NetworkPlan:
    """A network at one shape."""

    layers: tuple[LayerPlan, ...]  #: Its layers, in the order of the program.
    #: Images that go through the network at a time, and how often that happens.
    together: int
    times: int

    @property
    def cycles(self) -> int:
        """Cycles of all layers in closed form, one after the other."""
        return self.times * sum(layer.strategy.cycles for layer in self.layers)
