"""Tasks on a Dask cluster, whoever has started it."""

import platform
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, Self

from tpulite.executors.executor import ATTEMPTS, Done, Result, Shared, Task, Work, reason_of
from tpulite.needs import require_package

_AHEAD = 4
"""Tasks with the scheduler for each thread of a worker, at most; half of them at least."""

_ADDRESS = re.compile(r"(tcp|tls)://(\[[^]/]+\]|[^]/:]+):\d+")
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[::1\]")

_CONNECT_S, _WORKERS_S = 10, 30
"""Seconds to wait for a scheduler, and for its first worker."""


class ClusterExecutor(Generic[Shared, Task, Result]):
    """The workers of a scheduler of Dask.

    A task that raises is tried again; one whose worker dies goes to another worker, until it has
    seen as many die as the scheduler allows (``distributed.scheduler.allowed-failures``).

    Parameters
    ----------
    function : callable
        A function of a module, of what is shared and a task.
    shared : object
        What all tasks share; it goes to each worker once.
    address : str
        The scheduler: ``tcp://HOST:PORT``.
    identity : callable
        A function of a module that says what results depend on besides the tasks: it must say on
        every worker what it says here.

    Attributes
    ----------
    open_to_others : bool
        Whether whoever reaches the scheduler can run code on the workers, and here: another host
        without TLS.

    Raises
    ------
    ValueError
        If that is no address or the extra is missing, or when it is entered: there is no such
        scheduler, it has no workers, or they are not like us.
    """

    def __init__(
        self,
        function: Work[Shared, Task, Result],
        shared: Shared,
        address: str,
        identity: Callable[[], str],
    ) -> None:
        if (match := _ADDRESS.fullmatch(address)) is None:
            form = "tcp://HOST:PORT or tls://HOST:PORT"
            raise ValueError(f"Scheduler must be {form}, not {address!r}")
        require_package("distributed", "cluster", "--scheduler")
        self._function, self._shared = function, shared
        self._address, self._identity = address, identity
        self.open_to_others = match[1] == "tcp" and not _LOCAL.fullmatch(match[2])
        self._client: Any = None
        self._held: Any = None

    def __enter__(self) -> Self:
        from distributed import Client  # takes a second

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions, which we check ourselves
                self._client = Client(self._address, timeout=_CONNECT_S, set_as_default=False)
        except OSError as error:
            raise ValueError(f"no scheduler answers at {self._address}: {error}") from error
        try:
            self._check_workers()
            self._held = self._client.scatter(self._shared, broadcast=True, hash=False)
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, Result]]:
        """Do tasks and yield each when it is finished, in any order.

        Tasks are asked for when workers are about to run out of them, not all at once.
        """
        from distributed import as_completed

        waiting, futures = iter(tasks), dict[Any, Task]()
        completed = as_completed(loop=self._client.loop)

        def fill() -> None:
            """Top up the tasks of the workers, of which there may be more than before."""
            ahead = max(_AHEAD * sum(self._client.nthreads().values()), _AHEAD)
            more = list(islice(waiting, ahead - len(futures)))
            held = [self._held] * len(more)
            found = self._client.map(self._function, held, more, pure=False, retries=ATTEMPTS - 1)
            futures.update(zip(found, more, strict=True))
            completed.update(found)
            nonlocal low
            low = ahead // 2

        low = 0
        fill()
        for future in completed:
            error = future.exception()
            task = futures.pop(future)
            if len(futures) <= low:
                fill()
            if error is None:
                yield Done(task, future.result())
            else:
                yield Done(task, failure=reason_of(error))

    def _check_versions(self, versions: Any) -> None:
        """Raise ValueError if the scheduler or a worker has another Python or another Dask."""
        here = versions["client"]
        python = platform.python_version_tuple()[:2]
        sides = {f"The scheduler at {self._address}": versions["scheduler"], **versions["workers"]}
        for side, found in sides.items():
            there = found["host"]["python"]
            if tuple(there.split(".")[:2]) != python:
                raise ValueError(f"{side} has Python {there}, not {'.'.join(python)}")
            ours, theirs = (x["packages"].get("distributed") for x in (here, found))
            if ours != theirs:
                raise ValueError(f"{side} has distributed {theirs}, not {ours}")

    def _check_workers(self) -> None:
        """Raise ValueError if there are no workers, or one would give other results."""
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS_S)
        except OSError as error:
            raise ValueError(f"The scheduler at {self._address} has no workers") from error
        self._check_versions(self._client.get_versions())
        said = self._client.run(self._identity, on_error="return")
        for worker, identity in said.items():
            if isinstance(identity, ImportError):
                raise ValueError(f"{worker} has a different tpulite, or none: {identity}")
            if isinstance(identity, BaseException):
                raise ValueError(f"{worker}: {identity}")
            if identity != self._identity():
                raise ValueError(f"{worker} has a different version of tpulite")
