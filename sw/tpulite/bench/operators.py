"""Single operators at shapes of published networks: cycles beside the bound of each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Protocol

from tpulite.bench.bounds import Bound, bound_of
from tpulite.bench.file_cycles import measure_file
from tpulite.bench.patterns import matching
from tpulite.configs import named_config
from tpulite.needs import require_package

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
