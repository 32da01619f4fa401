"""Single operators and published networks, compiled as users' files are: cycles beside bounds."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from tpulite.arch.config import Config
from tpulite.bench.bounds import Bound, bound_of, sum_of_layer_bounds
from tpulite.configs import named_config
from tpulite.frontend.files import load_graph
from tpulite.golden.timing import program_cycles
from tpulite.graph.graph import Graph
from tpulite.graph.macs import macs_of
from tpulite.needs import require_package
from tpulite.runtime.model import Model


def matching(patterns: Sequence[str], names: Iterable[str], nothing: str) -> list[str]:
    """Return names in which a regular expression is found, pattern by pattern; all without one.

    Parameters
    ----------
    nothing : str
        What to say of an expression that matches none.

    Raises
    ------
    ValueError
        If an expression is wrong or matches nothing.
    """
    every = list(names)
    chosen: dict[str, None] = {}
    for pattern in patterns or [""]:
        try:
            found = [name for name in every if re.search(pattern, name)]
        except re.error as error:
            raise ValueError(f"{pattern}: not a regular expression: {error}") from error
        if not found:
            raise ValueError(f"{pattern}: {nothing}")
        chosen |= dict.fromkeys(found)
    return list(chosen)


@dataclass(frozen=True)
class FileCycles:
    """A TFLite file on a machine."""

    graph: Graph  #: The network as it is in the file.
    cycles: int  #: Of its programs, by the cycle model.
    host: str  #: Operators that run on the CPU; then cycles are those of the rest.


def measure_file(data: bytes, config: Config) -> FileCycles:
    """Compile a TFLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(data)
        graph = load_graph(path)
        model = Model.load(path, config=config)
        programs = model.programs
    host = {x.operator for x in model.summary() if x.where == "host"}
    cycles = sum(map(program_cycles, programs))
    return FileCycles(graph, cycles, " ".join(sorted(host)))


_CASES = "tpulite_testing.sweep.cases"
"""Where the cases are, which need LiteRT to write their files."""


class OperatorCase(Protocol):
    """An operator at a shape: see :class:`tpulite_testing.sweep.case.Case`."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The operator, ``alone`` or ``between`` convolutions, and the shape."""
        ...

    @property
    def build(self) -> Any:
        """Returns the TFLite file."""
        ...


@dataclass(frozen=True)
class OperatorRecord:
    """A case on a machine."""

    #: What tells records apart.
    machine: str
    operator: str
    mode: str
    shape: str
    cycles: int  #: Of its programs, by the cycle model.
    #: See :class:`tpulite.bench.bounds.Bound`.
    multipliers: int
    vectors: int
    dram: int
    host: str = ""  #: Operators that run on the CPU; then cycles are those of the rest.

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells records apart."""
        return self.machine, self.operator, self.mode, self.shape

    @property
    def bound(self) -> int:
        """The fewest cycles."""
        return Bound(self.multipliers, self.vectors, self.dram).cycles

    @property
    def ratio(self) -> float | None:
        """Cycles by the bound; None if a part runs on the CPU."""
        return None if self.host else self.cycles / self.bound

    @property
    def lost(self) -> int:
        """Cycles above the bound."""
        return self.cycles - self.bound

    def line(self) -> str:
        """Return the record in a line."""
        where = f"on the CPU: {self.host}" if self.host else f"{self.ratio:.2f} of the bound"
        return f"{' '.join(self.key)}: {self.cycles:,} cycles, {where}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {**asdict(self), "bound": self.bound, "ratio": self.ratio}


def find_operators(patterns: Sequence[str], *, quick: bool) -> Iterator[OperatorCase]:
    """Yield cases that match a regular expression, all without one; the smallest if ``quick``.

    ValueError if LiteRT is missing, or an expression is wrong or matches nothing.
    """
    require_package("ai_edge_litert", "litert", "The operator sweep")
    module = import_module(_CASES)
    every = module.quick_cases() if quick else module.cases().values()
    cases: dict[str, OperatorCase] = {" ".join(case.key): case for case in every}
    names = matching(patterns, cases, "no operator and shape of the sweep matches")
    return (cases[name] for name in names)


def measure_operator(machine: str, case: OperatorCase) -> OperatorRecord:
    """Compile a case as a user's file is compiled by default."""
    config = named_config(machine)
    file = measure_file(case.build(), config)
    bound = bound_of(file.graph, config)
    return OperatorRecord(
        machine,
        *case.key,
        file.cycles,
        bound.multipliers,
        bound.vectors,
        bound.dram,
        file.host,
    )


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
