"""All cases of the corpus, and how a part of them is recorded and compared."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tpulite_testing.replay.bound import bound_cases
from tpulite_testing.replay.case import Case
from tpulite_testing.replay.compare import Change, changes
from tpulite_testing.replay.draws import drawn_cases
from tpulite_testing.replay.networks import network_cases
from tpulite_testing.replay.record import FOLDER, Record, read_records, record_of

__all__ = ["FULL", "QUICK", "Part", "Replay", "cases"]


def cases() -> tuple[Case, ...]:
    """Return all cases."""
    return (*network_cases(), *bound_cases(), *drawn_cases())


@dataclass(frozen=True)
class Part:
    """Cases whose records share a file."""

    name: str

    @property
    def path(self) -> Path:
        """The file of the records."""
        return FOLDER / f"{self.name}.csv"

    def cases(self) -> tuple[Case, ...]:
        """Return its cases."""
        return tuple(case for case in cases() if case.quick == (self is QUICK))


QUICK = Part("quick")
"""What ``make test`` compares."""

FULL = Part("full")
"""All others, which ``make regress`` compares."""


@dataclass(frozen=True)
class Replay:
    """Records of cases as they are now."""

    records: tuple[Record, ...]  #: One a case that could be had.
    #: Cases that could not be had, and why: networks of the zoo without a way to PyPI.
    skipped: dict[str, str]

    @classmethod
    def of(cls, chosen: Iterable[Case], tell: Callable[[str], object] = lambda _: None) -> "Replay":
        """Compile cases.

        Parameters
        ----------
        chosen : iterable of Case
            The cases.
        tell : callable
            Called with the name of each case before it is compiled.
        """
        records, skipped = [], {}
        for case in chosen:
            tell(case.name)
            try:
                records.append(record_of(case))
            except RuntimeError as error:
                skipped[case.name] = str(error)
        return cls(tuple(records), skipped)

    def changes(self, part: Part, chosen: Iterable[Case] | None = None) -> list[Change]:
        """Compare with the records of a part, or of some of its cases; skipped ones are left out.

        Cases that are recorded and do not exist any more are changes, too, if no cases are chosen.
        """
        before = read_records(part.path)
        names = before.keys() if chosen is None else {case.name for case in chosen}
        kept = {n: r for n, r in before.items() if n in names and n not in self.skipped}
        return changes(kept, self.records)
