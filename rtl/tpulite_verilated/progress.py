"""What a build of a simulator is doing, on a terminal."""

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["object_files", "show_build", "show_step", "tell"]

_PERIOD = 0.5
"""Seconds between two looks."""


def tell(line: str) -> None:
    """Print a line to stderr."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(line)


def show_step(text: str) -> AbstractContextManager[object]:
    """Show meanwhile what is done, if stderr is a terminal."""
    return Console(stderr=True).status(text)


def object_files(folder: Path) -> int | None:
    """Return how many object files a build will make; None before Verilator has said so."""
    for path in folder.glob("*_classes.mk"):
        text = path.read_text()
        sets = dict(re.findall(r"^(VM_\w+) \+= \\\n((?:\t.*\n|  .*\n)*)", text, re.MULTILINE))
        counts = {name: len(lines.split("\\\n")) - 1 for name, lines in sets.items()}
        runtime = counts.get("VM_GLOBAL_FAST", 0) + counts.get("VM_GLOBAL_SLOW", 0)
        model = sum(counts.values()) - runtime
        # Small models are compiled as one file; what calls the model is one, too.
        return 1 + runtime + (model if "VM_PARALLEL_BUILDS = 1" in text else 1)
    return None


@contextmanager
def show_build(folder: Path, title: str) -> Iterator[None]:
    """Show meanwhile which C++ file of a build is compiled, and how long it will take.

    Nothing is shown if stderr is no terminal.

    Parameters
    ----------
    folder : Path
        Where Verilator and the compiler put their files.
    title : str
        What is built.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    done = threading.Event()

    def look() -> None:
        task = bar.add_task(f"{title}: Verilator", total=None)
        while not done.wait(_PERIOD):
            if total := object_files(folder):
                made = min(len(list(folder.glob("*.o"))), total)
                bar.update(task, description=f"{title}: C++ files", total=total, completed=made)

    if not console.is_terminal:
        yield
        return
    watcher = threading.Thread(target=look)
    with bar:
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
