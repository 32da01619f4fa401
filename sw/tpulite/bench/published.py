"""Published networks with drawn weights: cycles beside the bounds of their layers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from tpulite.bench.bounds import bound_of, sum_of_layer_bounds
from tpulite.bench.file_cycles import measure_file
from tpulite.bench.patterns import matching
from tpulite.configs import named_config
from tpulite.graph.macs import macs_of
from tpulite.needs import require_package

_CATALOG = "tpulite_testing.published.catalog"
"""Where the networks are, which need LiteRT to write their files."""


@dataclass(frozen=True)
class NetworkRecord:
    """A published network on a machine."""

    network: str  #: Its name in the catalog.
    macs: int  #: Multiply-accumulates of the file.
    cycles: int  #: Of its programs, by the cycle model.
    layers: int  #: Cycles if its layers ran one after the other, each at its bound.
    bound: int  #: Cycles if all of them overlapped.
    host: str = ""  #: Operators that run on the CPU; then cycles are those of the rest.

    @property
    def ratio(self) -> float:
        """Cycles by those of the layers."""
        return self.cycles / self.layers

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {**asdict(self), "ratio": self.ratio}


def find_networks(patterns: Sequence[str], *, quick: bool = False) -> tuple[str, ...]:
    """Return names that match a regular expression, all without one; small ones if ``quick``.

    ValueError if LiteRT is missing, or an expression is wrong or matches nothing.
    """
    require_package("ai_edge_litert", "litert", "The benchmark of published networks")
    catalog = import_module(_CATALOG)
    every = catalog.SMALL if quick else tuple(catalog.NETWORKS)
    nothing = f"no published network matches; there are: {' '.join(every)}"
    return tuple(matching(patterns, every, nothing))


def measure_network(machine: str, name: str) -> NetworkRecord:
    """Compile a network as a user's file is compiled by default."""
    config = named_config(machine)
    file = measure_file(import_module(_CATALOG).network_file(name), config)
    graph = file.graph
    return NetworkRecord(
        name,
        sum(macs_of(node, graph) for node in graph.nodes),
        file.cycles,
        sum_of_layer_bounds(graph, config),
        bound_of(graph, config).cycles,
        file.host,
    )
