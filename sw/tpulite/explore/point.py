"""Points of a study: a machine, what each network takes on it, and which points are best."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpulite.arch.config import Config
from tpulite.explore.measure import Counts, Outcome

__all__ = ["OBJECTIVES", "Point", "pareto"]

OBJECTIVES = {
    "cycles": "cycles of one run of each network, added up",
    "traffic": "bytes from and to DRAM in these runs",
    "buffer": "bytes of the unified buffer",
    "multipliers": "multipliers of the array",
}
"""What can be made small, and what it means."""


@dataclass(frozen=True)
class Point:
    """A machine of a study.

    Parameters
    ----------
    values : mapping of str to object
        What it differs in from the others.
    config : Config, optional
        The machine; None if there is none with these values.
    outcomes : mapping of str to Outcome
        What became of each network.
    reason : str
        Why there is no such machine.
    """

    values: Mapping[str, Any]
    config: Config | None
    outcomes: Mapping[str, Outcome]
    reason: str = ""

    @property
    def trouble(self) -> str:
        """Why not all networks run, the first of them; empty if they do."""
        reasons = (f"{name}: {x.reason}" for name, x in self.outcomes.items() if x.reason)
        return self.reason or next(reasons, "")

    @property
    def counts(self) -> Mapping[str, Counts]:
        """Counts of those networks that run, by name."""
        return {name: x.counts for name, x in self.outcomes.items() if x.counts is not None}

    def objective(self, name: str) -> float:
        """Return one of :data:`OBJECTIVES`; the point has no trouble."""
        assert self.config is not None
        counts = self.counts.values()
        match name:
            case "cycles":
                return sum(each.cycles for each in counts)
            case "traffic":
                return sum(each.read_bytes + each.written_bytes for each in counts)
            case "buffer":
                return self.config.ub_bytes
        return self.config.array_size**2

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        objectives = {} if self.trouble else {name: self.objective(name) for name in OBJECTIVES}
        return {
            "values": dict(self.values),
            "config": None if self.config is None else self.config.as_dict(),
            "trouble": self.trouble,
            "objectives": objectives,
            "networks": {name: asdict(x) for name, x in self.outcomes.items()},
        }


def pareto(points: Sequence[Point], objectives: Sequence[str]) -> list[Point]:
    """Return the points to which no other is better in one objective and as good in the others.

    Points with trouble are never among them. Equal ones are all there, in the order given.
    """
    able = [point for point in points if not point.trouble]
    scores = [tuple(point.objective(name) for name in objectives) for point in able]
    return [
        point
        for point, score in zip(able, scores, strict=True)
        if not any(other != score and _no_worse(other, score) for other in scores)
    ]


def _no_worse(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(first, second, strict=True))
