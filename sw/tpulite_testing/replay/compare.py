"""Differences between two records of the corpus, the worst first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpulite_testing.replay.record import Record

__all__ = ["Change", "changes", "table"]


@dataclass(frozen=True)
class Change:
    """A case whose record differs."""

    case: str  #: Its name.
    #: Its records; None where there is no such case.
    before: Record | None
    after: Record | None

    @property
    def loss(self) -> float:
        """Cycles after as a part of those before, less 1; infinite if it is refused or gone.

        0 of a case that is new, -1 of one that was refused before.
        """
        after = self.after.cycles if self.after else None
        if self.before is None:
            return 0.0
        if self.before.cycles is None:
            return 0.0 if after is None else -1.0
        return float("inf") if after is None else after / self.before.cycles - 1

    @property
    def lost(self) -> bool:
        """Whether it takes more cycles, or is not compiled any more."""
        return self.loss > 0

    def line(self) -> str:
        """Return the change in a line."""
        if self.before is None:
            return f"{self.case}: new, {_brief(self.after)}"
        if self.after is None:
            return f"{self.case}: gone, was {_brief(self.before)}"
        before, after = self.before, self.after
        if before.cycles is None or after.cycles is None:
            return f"{self.case}: {_brief(before)} → {_brief(after)}"
        what = f"{before.cycles:,} → {after.cycles:,} cycles ({self.loss:+.2%})"
        for name in ("read", "written"):
            was, now = getattr(before, name), getattr(after, name)
            if was != now:
                what += f", {was:,} → {now:,} bytes {name}"
        return f"{self.case}: {what}"

    @property
    def bits_only(self) -> bool:
        """Whether only the bits of the programs differ."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and before.cycles is not None
            and (before.cycles, before.read, before.written)
            == (after.cycles, after.read, after.written)
        )


def changes(before: Mapping[str, Record], after: Iterable[Record]) -> list[Change]:
    """Return the cases whose records differ, the largest loss first.

    Parameters
    ----------
    before : mapping of str to Record
        The old records of the same cases.
    after : iterable of Record
        The new ones.
    """
    new = {record.case: record for record in after}
    found = [
        Change(name, before.get(name), new.get(name))
        for name in before.keys() | new.keys()
        if before.get(name) != new.get(name)
    ]
    return sorted(found, key=lambda change: (-change.loss, change.case))


def table(found: list[Change]) -> str:
    """Return the changes as lines, and a summary; losses are marked."""
    lines = [
        f"{'LOSS ' if change.lost else '     '}{change.line()}"
        for change in found
        if not change.bits_only
    ]
    same = [change.case for change in found if change.bits_only]
    if same:
        lines.append(f"     other bits, equal cycles and bytes: {', '.join(same)}")
    lost = sum(change.lost for change in found)
    gained = sum(change.loss < 0 for change in found)
    lines.append(f"{lost} slower or refused, {gained} faster, {len(found) - lost - gained} others")
    return "\n".join(lines)


def _brief(record: Record | None) -> str:
    if record is None:
        return "no case"
    if record.cycles is None:
        return f"refused: {record.refusal}"
    return f"{record.cycles:,} cycles"
