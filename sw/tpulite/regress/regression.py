"""A regression: ranges of seeds of some jobs, results from the store or from workers, added up."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpulite.executors import Executor
from tpulite.executors.kept import Records, run_kept
from tpulite.regress.jobs import JOBS
from tpulite.regress.seeds import Seeds, job_identity

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
