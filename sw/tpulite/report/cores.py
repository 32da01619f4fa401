"""What each core does of a shape that is split among several, and what that gains."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich import box
from rich.table import Table

from tpulite.compiler.bind import CoreProgram
from tpulite.program import Program
from tpulite.report.traced_run import TracedRun


@dataclass(frozen=True)
class CoresReport:
    """A shape on several cores."""

    cores: tuple[CoreProgram, ...]  #: The program of each.
    alone: Program  #: The program of one core that computes all.
    names: Sequence[str]  #: Files of the programs.

    @cached_property
    def each(self) -> list[int]:
        """Cycles of each core, by the cycle model."""
        return [TracedRun.predicted(core.program).cycles for core in self.cores]

    @cached_property
    def of_one(self) -> int:
        """Cycles of one core that computes all, by the cycle model."""
        return TracedRun.predicted(self.alone).cycles

    @property
    def speedup(self) -> float:
        """How much faster the slowest core is than one core alone."""
        return self.of_one / max(self.each)

    def line(self) -> str:
        """Return the cycles of all cores together and of one alone, in a line."""
        cores = "1 core" if len(self.cores) == 1 else f"{len(self.cores)} cores"
        return (
            f"{cores}: {max(self.each):,} cycles; one core: {self.of_one:,}; "
            f"speedup {self.speedup:.2f}"
        )

    def table(self) -> Table:
        """Return a row for each core, in 80 columns."""
        table = Table(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("program", overflow="fold")
        for name in ("images", "channels read", "computed", "cycles"):
            table.add_column(name, justify="right")
        for core, name, cycles in zip(self.cores, self.names, self.each, strict=True):
            parts = map(_text, (core.images, core.read, core.channels))
            table.add_row(name, *parts, f"{cycles:,}")
        return table

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; ranges are [first, behind the last]."""
        return {
            "cycles": max(self.each),
            "cycles_of_one_core": self.of_one,
            "cores": [
                {
                    "program": name,
                    "images": [core.images.start, core.images.stop],
                    "channels_read": [core.read.start, core.read.stop],
                    "channels": [core.channels.start, core.channels.stop],
                    "cycles": cycles,
                }
                for core, name, cycles in zip(self.cores, self.names, self.each, strict=True)
            ],
        }


def _text(part: range) -> str:
    return f"[{part.start}, {part.stop})"
