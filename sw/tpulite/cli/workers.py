"""Options of commands whose work comes in many tasks: who does it, and where results are kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
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

from tpulite.cache import cache_home
from tpulite.cli.help import Topic, option
from tpulite.cli.paths import FOLDER
from tpulite.executors import ClusterExecutor, Executor, LocalExecutor
from tpulite.executors.kept import Records
from tpulite.explore.study import Tell

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Workers:
    """What was chosen of :func:`worker_options`."""

    processes: int | None = None  #: Processes of this machine; by default one for each core.
    scheduler: str | None = None  #: A scheduler of Dask, whose workers are to be used.
    store: Path | None = None  #: Where results are kept.

    def executor(
        self, function: Callable[[Any, Any], Any], shared: Any, identity: Callable[[], str]
    ) -> Executor[Any, Any]:
        """Return what does tasks; ``identity`` is asked on workers of other machines."""
        if self.scheduler is None:
            return LocalExecutor(function, shared, self.processes)
        cluster = ClusterExecutor(function, shared, self.scheduler, identity)
        if cluster.open_to_others:
            click.echo(
                f"tpulite: {self.scheduler} has no TLS: access to it is enough to run code on the "
                "workers and here; use tls:// or a tunnel to localhost",
                err=True,
            )
        return cluster

    def records(self, part: str) -> Records:
        """Return where results are, by default a part of the cache."""
        return Records(self.store or cache_home() / part)


_OPTIONS = (
    option(
        "--workers",
        group=Topic.WORK,
        type=click.IntRange(min=1),
        help="Processes.  [default: one per core]",
    ),
    option(
        "--scheduler",
        group=Topic.WORK,
        metavar="tcp://HOST:PORT",
        help="Use the workers of this Dask cluster.",
    ),
    option(
        "--store", group=Topic.WORK, type=FOLDER, help="Folder for results.  [default: the cache]"
    ),
)


def worker_options(command: Command) -> Command:
    """Add the options; the command gets them as :class:`Workers`, ``work``."""

    @wraps(command)
    def collect(workers: int | None, scheduler: str | None, store: Path | None, **rest: Any) -> Any:
        if workers is not None and scheduler is not None:
            raise click.UsageError("--workers and --scheduler cannot be used together.")
        return command(work=Workers(workers, scheduler, store), **rest)

    for add in reversed(_OPTIONS):
        collect = add(collect)
    return collect  # type: ignore[return-value]


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
