"""How far a study is, how fast it goes, and what is left."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tpulite.explore.study import Tell


@contextmanager
def study_progress() -> Iterator[Tell]:
    """Show a bar on stderr with counts, rate and time left, if that is a terminal."""
    console = Console(stderr=True)
    counts = (BarColumn(), MofNCompleteColumn(), _Rate())
    left = (TimeRemainingColumn(), TextColumn("left"))
    hidden = not console.is_terminal
    with Progress(*counts, *left, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _Rate(ProgressColumn):
    """Tasks a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")
