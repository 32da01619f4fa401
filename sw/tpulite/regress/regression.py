"""A regression: ranges of seeds of some jobs, results from the store or from workers, added up."""

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tpulite.executors import Executor
from tpulite.executors.executor import reason_of
from tpulite.executors.kept import Records, run_kept
from tpulite.regress.jobs import JOBS
from tpulite.runtime.identity import identity


@dataclass(frozen=True)
class Seeds:
    """A range of seeds."""

    job: str  #: Whose.
    #: The first one, and the first one behind them.
    start: int
    stop: int
    identity: str  #: What results depend on besides.

    @property
    def key(self) -> str:
        """A name for all that the result depends on."""
        text = f"{self.identity} {self.job} {self.start} {self.stop}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def jobs_identity(names: tuple[str, ...]) -> str:
    """Return what results of jobs depend on besides seeds.

    ValueError if something is missing that they need, with what to install.
    """
    found = " ".join(map(job_identity, names))
    for name in names:
        if ready := JOBS[name].ready:
            try:
                _function(ready)()
            except (ImportError, RuntimeError) as error:
                raise ValueError(str(error)) from error
    return found


def job_identity(name: str) -> str:
    """Return what results of a job depend on; ValueError if a package or a library is missing."""
    job = JOBS[name]
    return identity(("tpulite", *job.packages), job.libraries)


def run_seeds(_: None, seeds: Seeds) -> dict[str, Any]:
    """Check seeds.

    Returns
    -------
    dict
        ``counts`` of the checks, added up, and ``failures``: by seed, the reason in a line, and
        behind further lines where it happened.
    """
    check: Callable[[int], Mapping[str, int]] = _function(JOBS[seeds.job].check)
    counts: Counter[str] = Counter()
    failures: dict[str, str] = {}
    for seed in range(seeds.start, seeds.stop):
        try:
            counts.update(check(seed))
        except Exception as error:  # whatever it is, the other seeds go on
            failures[str(seed)] = f"{_told(error)}\n{traceback.format_exc()}"
    return {"counts": dict(counts), "failures": failures}


def smallest_case(job: str, seed: int, folder: Path) -> Path | None:
    """Write the smallest case that fails as a seed of a job does.

    Returns
    -------
    Path or None
        The file; None if the job has no smaller cases than its seeds.

    Raises
    ------
    ValueError
        If the seed does not fail.
    OSError
        If the file cannot be written.
    """
    name = JOBS[job].smallest
    return _function(name)(seed, folder) if name else None


def _told(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    notes = " ".join(getattr(error, "__notes__", ()))
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return " ".join(f"{reason_of(error)} {notes}".split()) + f" ({where})"


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


Tell = Callable[[int, int], None]
"""Called with how many seeds are done, and how many there are."""


@dataclass
class Outcome:
    """What became of a job.

    Attributes
    ----------
    seeds : int
        How many were checked.
    counts : Counter
        What checks counted; ``NAME of PART`` counts for the NAME, too, see :attr:`totals`.
    failures : dict of (int, int) to str
        Ranges of seeds, ends included, that failed: one seed whose check failed, or all of a task
        that could not be done. The reason is the first line.
    """

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def totals(self) -> Counter[str]:
        """Counts by name, those of parts added up."""
        totals: Counter[str] = Counter()
        for what, count in self.counts.items():
            totals[what.partition(" of ")[0]] += count
        return totals

    def add(self, seeds: Seeds, result: dict[str, Any] | None, failure: str) -> None:
        """Add the result of a task, or why there is none."""
        if result is None:
            self.failures[seeds.start, seeds.stop - 1] = failure
            return
        self.seeds += seeds.stop - seeds.start
        self.counts.update(result["counts"])
        for seed, reason in result["failures"].items():
            self.failures[int(seed), int(seed)] = reason


def run_regression(
    tasks: Sequence[Seeds],
    executor: Executor[Seeds, dict[str, Any]],
    records: Records,
    *,
    fresh: bool = False,
    tell: Tell = lambda *_: None,
) -> dict[str, Outcome]:
    """Check seeds of some jobs; what is known already is not checked again.

    Returns
    -------
    dict of str to Outcome
        By job.

    Raises
    ------
    OSError
        If a result cannot be kept.
    """
    by_key = {task.key: task for task in tasks}
    outcomes = {task.job: Outcome() for task in tasks}
    total, known = sum(task.stop - task.start for task in tasks), 0
    tell(known, total)
    for done in run_kept(tasks, executor, records, fresh=fresh):
        task = by_key[done.task]
        outcomes[task.job].add(task, done.result, done.failure)
        known += task.stop - task.start
        tell(known, total)
    for outcome in outcomes.values():
        outcome.failures = dict(sorted(outcome.failures.items()))
    return outcomes


def seed_ranges(jobs: Sequence[str], seeds: range) -> Iterator[Seeds]:
    """Yield the tasks of jobs, in turn; a longer range of seeds has those of a shorter one."""
    for job in jobs:
        step, identity = JOBS[job].seeds, job_identity(job)
        for start in range(seeds.start // step * step, seeds.stop, step):
            yield Seeds(job, max(start, seeds.start), min(start + step, seeds.stop), identity)
