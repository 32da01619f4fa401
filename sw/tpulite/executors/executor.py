"""What an executor is: it applies one function to many tasks, and no task harms another."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

ATTEMPTS = 3
"""How often a task is tried before its failure is reported."""

Work = Callable[[Shared, Task], Result]
"""A function of a module: what all tasks share comes first, and goes to each worker only once."""


@dataclass(frozen=True)
class Done(Generic[Task, Result]):
    """A task that is finished."""

    task: Task  #: The task.
    result: Result | None = None  #: What the function returned; None if it failed.
    failure: str = ""  #: Why it failed :data:`ATTEMPTS` times, in a line; else empty.


class Executor(Protocol[Task, Result]):
    """Something that does tasks, until it is left as a context manager."""

    def __enter__(self) -> "Executor[Task, Result]":
        """Start."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop; tasks that have not begun never do."""
        ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, Result]]:
        """Do tasks and yield each when it is finished, in any order; it may be called again."""
        ...


def reason_of(error: BaseException) -> str:
    """Return an error in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
