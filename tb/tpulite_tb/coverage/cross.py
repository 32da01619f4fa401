"""Cross coverage: which combinations of values a test has seen."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import product

from rich.console import Console
from rich.table import Table

__all__ = ["Cross"]


class Cross:
    """Counts how often each combination of values occurred.

    Parameters
    ----------
    **axes : iterable
        Name and expected values of each axis. Every combination is expected, unless it is excluded.

    Examples
    --------
    >>> cross = Cross(opcode=["LOAD", "STORE"], fault=[False, True])
    >>> cross.hit(opcode="LOAD", fault=True)
    >>> cross.hits(opcode="LOAD", fault=True), len(cross.holes())
    (1, 3)
    """

    def __init__(self, **axes: Iterable[Hashable]) -> None:
        self.axes: dict[str, Sequence[Hashable]] = {name: tuple(x) for name, x in axes.items()}
        self._counts: Counter[tuple[Hashable, ...]] = Counter()
        self._excluded: set[tuple[Hashable, ...]] = set()

    def exclude(self, **values: Hashable) -> None:
        """Do not expect the combinations with these values."""
        self._check(values)
        for point in product(*self.axes.values()):
            found = dict(zip(self.axes, point, strict=True))
            if all(found[name] == value for name, value in values.items()):
                self._excluded.add(point)

    def hit(self, *, times: int = 1, **values: Hashable) -> None:
        """Count occurrences of a combination, a value for each axis.

        Raises
        ------
        ValueError
            If the combination is none of the expected ones.
        """
        if values.keys() != self.axes.keys():
            raise ValueError(f"Coverage needs the axes {sorted(self.axes)}, not {sorted(values)}")
        self._check(values)
        point = self._point(values)
        if point in self._excluded:
            raise ValueError(f"Coverage was told that {values} cannot happen")
        self._counts[point] += times

    def hits(self, **values: Hashable) -> int:
        """Return how often combinations with these values occurred."""
        self._check(values)
        positions = {list(self.axes).index(name): value for name, value in values.items()}
        return sum(
            count
            for point, count in self._counts.items()
            if all(point[i] == value for i, value in positions.items())
        )

    def merge(self, other: "Cross") -> None:
        """Add the counts of another cross of the same axes."""
        if other.axes != self.axes:
            raise ValueError(f"Coverage of {list(other.axes)} does not fit {list(self.axes)}")
        self._counts.update(other._counts)

    def counts(self) -> list[tuple[tuple[Hashable, ...], int]]:
        """Return the combinations that occurred, and how often each."""
        return sorted(self._counts.items(), key=lambda item: tuple(map(_text, item[0])))

    def expected(self) -> int:
        """Return how many combinations are expected."""
        return len(list(product(*self.axes.values()))) - len(self._excluded)

    def holes(self) -> list[tuple[Hashable, ...]]:
        """Return the expected combinations that never occurred."""
        expected = product(*self.axes.values())
        return [x for x in expected if x not in self._excluded and not self._counts[x]]

    def table(self, title: str) -> Table:
        """Return the counts, with a column for each value of the last axis.

        A hole is 0, what is not expected a dash.
        """
        *rows, last = self.axes
        table = Table(title=title)
        for name in rows:
            table.add_column(name)
        for value in self.axes[last]:
            table.add_column(f"{last} {_text(value)}", justify="right")
        for row in product(*(self.axes[name] for name in rows)):
            points = [(*row, value) for value in self.axes[last]]
            if all(point in self._excluded for point in points):
                continue
            cells = ["-" if x in self._excluded else str(self._counts[x]) for x in points]
            table.add_row(*map(_text, row), *cells)
        return table

    def report(self, title: str, console: Console | None = None) -> None:
        """Print the table and how much of what is expected occurred."""
        console = console or Console()
        console.print(self.table(title))
        expected = self.expected()
        console.print(f"{expected - len(self.holes())} of {expected} combinations occurred")

    def _point(self, values: dict[str, Hashable]) -> tuple[Hashable, ...]:
        return tuple(values[name] for name in self.axes)

    def _check(self, values: dict[str, Hashable]) -> None:
        for name, value in values.items():
            if name not in self.axes:
                raise ValueError(f"Coverage has the axes {sorted(self.axes)}, not {name!r}")
            if value not in self.axes[name]:
                raise ValueError(f"Coverage of {name} expects {self.axes[name]}, not {value!r}")


def _text(value: Hashable) -> str:
    return str(getattr(value, "name", value))
