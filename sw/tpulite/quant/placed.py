"""A network, each of its nodes in its place."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext

__all__ = ["NodePlacement", "Placed"]


@dataclass(frozen=True)
class NodePlacement:
    """Where a node runs.

    Parameters
    ----------
    engine : str
        ``MXU``, ``VPU``, ``none`` for a change of shape alone, or ``host``.
    reason : str
        Why the host must run it; empty for the others.
    natural : bool
        Whether it is an operator of :data:`NATURAL_HOST`, which at the ends of a network needs
        nobody's permission.
    follows : bool
        Whether it runs on the CPU only because others do.
    """

    engine: str
    reason: str = ""
    natural: bool = False
    follows: bool = False


@dataclass(frozen=True, eq=False)
class Placed:
    """A network, each of its nodes in its place.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        The numerics.
    placements : mapping of str to NodePlacement
        Of each node by name.
    levels : mapping of str to int
        Number of each node's segment: those of the host are even, those of the machine odd.
    contexts : mapping of int to GraphContext
        Layers of each segment of the machine.
    libraries : frozenset of int
        Segments of the host that a library must run, as numpy lacks an operator of them.
    along : mapping of str to str
        Nodes that the machine could run and the host takes along, and why.
    """

    graph: Graph
    exactness: Exactness
    placements: Mapping[str, NodePlacement]
    levels: Mapping[str, int]
    contexts: Mapping[int, GraphContext]
    libraries: frozenset[int]
    along: Mapping[str, str]
