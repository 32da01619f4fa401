"""Seeds of a job, in a worker: counts, and those that fail."""

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tpulite.executors.executor import reason_of
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
