"""The command ``regress``: random checks by seeds, on any number of workers."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.common import is_stdout, json_option, save_json, say
from tpulite.cli.help import command, option
from tpulite.cli.workers import Workers, study_progress, worker_options
from tpulite.near import no_such
from tpulite.regress.jobs import JOBS
from tpulite.regress.regression import (
    Outcome,
    jobs_identity,
    run_regression,
    run_seeds,
    seed_ranges,
    smallest_case,
)

_FAILURES = 10
"""Failures of a job that are printed; all are in the record."""


def _jobs(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(JOBS) if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in JOBS:
            raise ValueError(no_such("job", name, JOBS))
    return names


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> range:
    first, dots, last = text.partition("..")
    if not first.isdecimal() or not (last.isdecimal() or not dots):
        raise ValueError(f"--seeds {text}: must be FIRST..LAST or one number")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise ValueError(f"--seeds {text}: the last seed is smaller than the first")
    return seeds


@command()
@option(
    "--jobs",
    default="all",
    callback=_jobs,
    help=f"Jobs to run: {', '.join(JOBS)}.",
)
@option(
    "--seeds",
    default="0..99",
    callback=_seeds,
    metavar="FIRST..LAST",
    help="Seeds of each job, both ends included; or a single seed.",
)
@worker_options
@option("--no-cache", is_flag=True, help="Run again what has passed before.")
@option(
    "--smallest",
    "folder",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    help="Reduce failing networks, and write the smallest that still fail to this folder.",
)
@json_option
def regress(
    jobs: tuple[str, ...],
    seeds: range,
    work: Workers,
    no_cache: bool,
    folder: Path | None,
    json_path: Path | None,
) -> None:
    """Test tpulite itself on random networks, one per seed.

    Results are cached: an interrupted run resumes, and a longer range runs only the new seeds. For
    each failure the command that repeats it is printed; the exit code is then 1.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    ready = partial(jobs_identity, jobs)
    if work.scheduler is None:
        ready()
    tasks = list(seed_ranges(jobs, seeds))
    with work.executor(run_seeds, None, ready) as executor, study_progress() as tell:
        outcomes = run_regression(
            tasks, executor, work.records("regress"), fresh=no_cache, tell=tell
        )
    save_json(json_path, {name: _record(outcome) for name, outcome in outcomes.items()})
    if not is_stdout(json_path):
        _print(Console(), outcomes, alone=len(seeds) == 1)
    if folder is not None:
        _write_smallest(Console(stderr=True), outcomes, folder)
    if any(outcome.failures for outcome in outcomes.values()):
        raise click.exceptions.Exit(1)


def _write_smallest(console: Console, outcomes: Mapping[str, Outcome], folder: Path) -> None:
    tell = partial(say, console)
    for name, outcome in outcomes.items():
        alone = [first for first, last in outcome.failures if first == last]
        for seed in alone[:_FAILURES]:
            with console.status(f"reducing {name} {seed}"):
                try:
                    path = smallest_case(name, seed, folder)
                except ValueError as error:
                    path = error
            if path is not None:
                tell(f"{name} {seed}, reduced: {path}")


def _record(outcome: Outcome) -> dict[str, object]:
    return {
        "seeds": outcome.seeds,
        "counts": dict(outcome.counts),
        "failures": [
            {"seeds": [first, last], "reason": reason}
            for (first, last), reason in outcome.failures.items()
        ],
    }


def _print(console: Console, outcomes: Mapping[str, Outcome], *, alone: bool) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("job", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    table.add_column("failed", justify="right", no_wrap=True)
    table.add_column("counts")
    for name, outcome in outcomes.items():
        counts = ", ".join(f"{count:,} {what}" for what, count in outcome.totals.items())
        failed = sum(last - first + 1 for first, last in outcome.failures)
        table.add_row(name, f"{outcome.seeds:,}", f"{failed:,}", counts)
    console.print(table)
    tell = partial(say, console)
    for name, outcome in outcomes.items():
        for (first, last), reason in list(outcome.failures.items())[:_FAILURES]:
            told, _, trace = reason.partition("\n")
            span = f"{first}" if first == last else f"{first}..{last}"
            tell(f"{name} {span}: {told}")
            if alone and trace:
                tell(trace.rstrip())
            tell(f"  tpulite regress --jobs {name} --seeds {span} --workers 1 --no-cache")
        if (more := len(outcome.failures) - _FAILURES) > 0:
            tell(f"... and {more:,} more failures of {name}: --json writes all")
