"""Results on disk by what they depend on: an interrupted run goes on where it was."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tpulite.atomic import write_whole
from tpulite.executors.executor import Done, Executor

Record = dict[str, Any]


class Keyed(Protocol):
    """A task that has a name for all that its result depends on."""

    @property
    def key(self) -> str:
        """The name, which can be that of a file."""
        ...


Task = TypeVar("Task", bound=Keyed)


@dataclass(frozen=True)
class Records:
    """A folder of records. Each is written whole or not at all, so any number may write at once."""

    folder: Path  #: Where they are; it is made when it is needed.

    def get(self, key: str) -> Record | None:
        """Return a record, None if it is not there or not whole."""
        try:
            record = json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def put(self, key: str, record: Record) -> None:
        """Keep a record; OSError if that is not possible."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, partial(Path.write_text, data=json.dumps(record) + "\n"))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def run_kept(
    tasks: Iterable[Task],
    executor: Executor[Task, Record],
    records: Records,
    *,
    fresh: bool = False,
) -> Iterator[Done[str, Record]]:
    """Do the tasks whose results are not kept, and keep them as soon as they are there.

    Parameters
    ----------
    tasks : iterable of Keyed
        The tasks; they are asked for one by one, and not kept in memory.
    fresh : bool
        Whether to do again what is there, too.

    Yields
    ------
    Done of str
        The key of each task with its result or failure, in any order. Failures are not kept.

    Raises
    ------
    OSError
        If a result cannot be kept.
    """
    known: deque[Done[str, Record]] = deque()

    def missing() -> Iterator[Task]:
        for task in tasks:
            record = None if fresh else records.get(task.key)
            if record is None:
                yield task
            else:
                known.append(Done(task.key, record))

    for done in executor.run(missing()):
        while known:
            yield known.popleft()
        if done.result is not None:
            records.put(done.task.key, done.result)
        yield Done(done.task.key, done.result, done.failure)
    yield from known
