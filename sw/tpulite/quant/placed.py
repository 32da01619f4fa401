"""A network, each of its nodes in its place."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext


@dataclass(frozen=True)
class NodePlacement:
    """Where a node runs."""

    engine: str  #: ``MXU``, ``VPU``, ``none`` for a change of shape alone, or ``host``.
    reason: str = ""  #: Why the host must run it; empty for the others.
    #: Whether it is an operator of :data:`NATURAL_HOST`, which at the ends of a network needs
    #: nobody's permission.
    natural: bool = False
    follows: bool = False  #: Whether it runs on the CPU only because others do.


@dataclass(frozen=True, eq=False)
class Placed:
    """A network, each of its nodes in its place."""

    graph: Graph  #: The network.
    exactness: Exactness  #: The numerics.
    placements: Mapping[str, NodePlacement]  #: Of each node by name.
    #: Number of each node's segment: those of the host are even, those of the machine odd.
    levels: Mapping[str, int]
    contexts: Mapping[int, GraphContext]  #: Layers of each segment of the machine.
    #: For each node of the host, the format of the part in which a library runs it; empty if that
    #: is numpy.
    runners: Mapping[str, str]
    along: Mapping[str, str]  #: Nodes that the machine could run and the host takes along, and why.

    @property
    def libraries(self) -> frozenset[int]:
        """Segments of the host with nodes that a library runs."""
        return frozenset(self.levels[name] for name, library in self.runners.items() if library)
