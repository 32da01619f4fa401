"""Tasks in processes of this machine."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, Self

from tpulite.executors.executor import ATTEMPTS, Done, Result, Shared, Task, Work, reason_of

_AHEAD = 2
"""Tasks in the pool for each worker: one that runs, and one that begins when it is done."""


class LocalExecutor(Generic[Shared, Task, Result]):
    """Processes that each hold what all tasks share.

    A task that raises, or runs while a process dies, is tried again when all others are done, and
    then alone: so one that kills its process fails, and those that ran beside it do not.

    Parameters
    ----------
    function : callable
        A function of a module, of what is shared and a task.
    shared : object
        What all tasks share; it can be pickled.
    workers : int, optional
        Processes; by default one for each core that this process may use.
    """

    def __init__(
        self, function: Work[Shared, Task, Result], shared: Shared, workers: int | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"There must be at least 1 worker, not {workers}")
        self.workers = workers or _cores()
        self._work = function, shared
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, Result]]:
        """Do tasks and yield each when it is finished, in any order."""
        waiting, again = iter(tasks), deque[Task]()
        running: dict[Future[Result], Task] = {}
        while True:
            for task in waiting:
                running[self._submit(task)] = task
                if len(running) >= _AHEAD * self.workers:
                    break
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                error = future.exception()
                if error is None:
                    yield Done(task, future.result())
                else:
                    again.append(task)
                if isinstance(error, BrokenProcessPool):
                    self._stop()
        for task in again:
            yield self._alone(task)

    def _alone(self, task: Task) -> Done[Task, Result]:
        failure = ""
        for _ in range(ATTEMPTS - 1):
            try:
                return Done(task, self._submit(task).result())
            except BrokenProcessPool:
                self._stop()
                failure = "its process died: out of memory, or killed"
            except Exception as error:  # whatever it is, the other tasks go on
                failure = reason_of(error)
        return Done(task, failure=failure)

    def _submit(self, task: Task) -> Future[Result]:
        if self._pool is None:
            # A fork would copy the locks of threads that draw progress.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=_hold, initargs=self._work
            )
        try:
            return self._pool.submit(_apply, task)
        except BrokenProcessPool as error:
            broken: Future[Result] = Future()
            broken.set_exception(error)
            return broken

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None


def _cores() -> int:
    """Return the cores that this process may use, where the system tells; else those there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_held: Any = None
"""In a worker: the function, and what all tasks share."""


def _hold(*work: Any) -> None:
    global _held
    _held = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client is told, and stops the workers


def _apply(task: Any) -> Any:
    function, shared = _held
    return function(shared, task)
