"""Points of a study: a machine, what each network takes on it, and which points are best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.explore.area import gates
from tpulite.explore.energy import TABLES, Energy, energy
from tpulite.explore.families import FAMILIES, family_area, measured_mhz
from tpulite.explore.measure import Counts, Outcome
from tpulite.parts import Part

OBJECTIVES = {
    "cycles": "cycles",
    "ms": "ms",
    "area": "LUT",
    "gates": "gates",
    "bram": "BRAM",
    "dsp": "DSP",
    "energy": "uJ",
    "traffic": "DRAM bytes",
    "buffer": "buffer bytes",
    "multipliers": "multipliers",
}
"""What can be made small, and the unit that tables show. Cycles, ms, energy and traffic are
those of one run of each network, added up."""

_ESTIMATES = ("area", "gates", "energy")
"""Objectives of which no more than two digits are true."""


@dataclass(frozen=True)
class Point:
    """A machine of a study."""

    values: Mapping[str, Any]  #: What it differs in from the others.
    config: Config | None  #: The machine; None if there is none with these values.
    outcomes: Mapping[str, Outcome]  #: What became of each network.
    reason: str = ""  #: Why there is no such machine.
    process: str = "45nm"  #: Of :data:`tpulite.explore.energy.TABLES`: whose energies count.
    build: Build = field(default_factory=Build)  #: How the machine is written.
    family: str = FAMILIES[0]  #: Of :data:`tpulite.explore.families.FAMILIES`: whose area counts.
    #: The clock; by default the measured one of the machine, if there is one.
    mhz: float | None = None

    @property
    def trouble(self) -> str:
        """Why not all networks run, the first of them; empty if they do."""
        reasons = (f"{name}: {x.reason}" for name, x in self.outcomes.items() if x.reason)
        return self.reason or next(reasons, "")

    @property
    def counts(self) -> Mapping[str, Counts]:
        """Counts of those networks that run, by name."""
        return {name: x.counts for name, x in self.outcomes.items() if x.counts is not None}

    @cached_property
    def size(self) -> Part:
        """What the machine takes of its family, as estimated; there is a machine."""
        assert self.config is not None
        return family_area(self.config, self.build, self.family)

    @cached_property
    def clock(self) -> float | None:
        """Its frequency in MHz: as given, or as measured; None if it is not known."""
        if self.mhz is not None or self.config is None:
            return self.mhz
        return measured_mhz(self.config, self.build, self.family)

    @cached_property
    def energy(self) -> Energy:
        """Energy of one run of each network that runs; there is a machine."""
        assert self.config is not None
        return energy(self.config, self.counts.values(), TABLES[self.process])

    def objective(self, name: str) -> float:
        """Return one of :data:`OBJECTIVES`; the point has no trouble, and for ms a clock."""
        assert self.config is not None
        counts = self.counts.values()
        match name:
            case "cycles":
                return sum(each.cycles for each in counts)
            case "ms":
                assert self.clock is not None
                return sum(each.cycles for each in counts) / self.clock / 1e3
            case "area":
                return self.size.lut
            case "gates":
                return gates(self.config)
            case "bram" | "dsp":
                return getattr(self.size, name)
            case "energy":
                return self.energy.total / 1000
            case "traffic":
                return sum(each.read_bytes + each.written_bytes for each in counts)
            case "buffer":
                return self.config.ub_bytes
        return self.config.array_size**2

    @property
    def sizes(self) -> dict[str, Part]:
        """What the machine takes of each family; there is a machine."""
        assert self.config is not None
        return {family: family_area(self.config, self.build, family) for family in FAMILIES}

    @property
    def scores(self) -> dict[str, float]:
        """All objectives that are known; none if the point has trouble."""
        known = [name for name in OBJECTIVES if name != "ms" or self.clock is not None]
        return {} if self.trouble else {name: self.objective(name) for name in known}

    def shown(self, name: str) -> str:
        """Return a value that varies, or an objective, as people write it."""
        if name in self.values:
            value = self.values[name]
            return "+".join(value) if isinstance(value, tuple) else str(value)
        value = self.objective(name)
        if name == "ms":
            return f"{value:.3g}"
        return two_digits(value) if name in _ESTIMATES else f"{value:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        sizes = {} if self.config is None else self.sizes
        return {
            "values": dict(self.values),
            "config": None if self.config is None else self.config.as_dict(),
            "trouble": self.trouble,
            "objectives": self.scores,
            "mhz": self.clock,
            "size": None if self.config is None else asdict(self.size),
            "sizes": {family: asdict(size) for family, size in sizes.items()},
            "energy_nj": None if self.trouble else asdict(self.energy),
            "networks": {name: asdict(x) for name, x in self.outcomes.items()},
        }


def pareto(points: Sequence[Point], objectives: Sequence[str]) -> list[Point]:
    """Return the points to which no other is better in one objective and as good in the others.

    All points are free of trouble. Equal ones are all there, in the order given.
    """
    scores = [tuple(point.objective(name) for name in objectives) for point in points]
    return [
        point
        for point, score in zip(points, scores, strict=True)
        if not any(other != score and _no_worse(other, score) for other in scores)
    ]


def _no_worse(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(first, second, strict=True))


def two_digits(value: float) -> str:
    """Return a positive number with two digits that say something.

    Examples
    --------
    >>> [two_digits(x) for x in (82_348, 997, 73.4, 0.0456)]
    ['82,000', '1,000', '73', '0.046']
    """
    places = 1 - math.floor(math.log10(value))
    return f"{round(value, places):,.{max(0, places)}f}"
