"""Trials: a mutant by its number, the command that reads it, and what was wrong."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tpulite_testing.hostile.corpus import Whole, corpus
from tpulite_testing.hostile.guard import BYTES, GUARDED
from tpulite_testing.hostile.language import language_corpus
from tpulite_testing.hostile.mutants import mutant

__all__ = ["Guard", "Trial", "guarded", "trials", "try_mutant"]

_SIGXCPU = -24
_UNUSED, _SAYING = 1, ("inspect", "compile")
"""Exit code of these commands for a network of which nothing runs on the machine."""

_TELLING = ("chat", "search")
_PRINTED = ("Warning", "Traceback", "panicked", "rror")
_FAULTS = ("internal error", "out of memory", "Unable to allocate")
"""Words of messages that are no refusals of a file."""


@dataclass(frozen=True)
class Trial:
    """A mutant, and what a command made of it."""

    number: int  #: Of the mutant.
    kind: str  #: Kind of the file.
    words: tuple[str, ...]  #: The command.
    taken: bool  #: Whether the command did its work; else it refused the file.
    problem: str  #: What was wrong, if anything.

    def __str__(self) -> str:
        return f"mutant {self.number}, tpulite {' '.join(self.words)}: {self.problem}"


@dataclass(frozen=True)
class Guard:
    """A process that runs commands under limits; see :mod:`tpulite_testing.hostile.guard`."""

    folder: Path  #: Where they run: they may write there alone.
    #: Its ends.
    asks: IO[str]
    answers: IO[str]

    def run(self, *words: str) -> tuple[bool, str]:
        """Run a command; return whether it did its work, and what was wrong."""
        self.asks.write(json.dumps({"words": words, "folder": str(self.folder)}) + "\n")
        self.asks.flush()
        outcome = json.loads(self.answers.readline())
        done = outcome["code"] in (0, _UNUSED if words[0] in _SAYING else 0)
        return done, _problem(outcome, done, told=words[0] in _TELLING)


@contextmanager
def guarded(folder: Path) -> Iterator[Guard]:
    """Start a guard, and stop it."""
    inside = folder / "inside"
    shutil.rmtree(inside, ignore_errors=True)
    (inside / "tmp").mkdir(parents=True)
    (folder / "outside").write_bytes(bytes(4096))
    settings = {
        "TPULITE_CACHE": str(inside / "cache"),
        "TMPDIR": str(inside / "tmp"),
        "COLUMNS": "200",
    }
    settings["OPENBLAS_NUM_THREADS"] = "1"  # each thread takes addresses
    settings["PYTHONDONTWRITEBYTECODE"] = "1"  # of packages that nobody imported before
    with subprocess.Popen(
        [sys.executable, "-m", "tpulite_testing.hostile.guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | settings,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield Guard(inside, process.stdin, process.stdout)


def trials(numbers: Iterable[int], folder: Path, kind: str = "") -> Iterator[Trial]:
    """Try mutants, each by one command in a process of its own.

    Parameters
    ----------
    numbers : iterable of int
        Which; a number always means the same mutant and command.
    folder : Path
        Mutants that something was wrong with stay there, named by their number.
    kind : str
        Files of :func:`tpulite_testing.hostile.language.language_corpus`; by default those of
        :func:`tpulite_testing.hostile.corpus.corpus`.
    """
    with guarded(folder) as guard:
        for number in numbers:
            yield try_mutant(number, guard, kind)


def try_mutant(number: int, guard: Guard, kind: str = "") -> Trial:
    """Try a mutant; it stays in the folder above the guard's if something was wrong."""
    rng = np.random.default_rng(number)
    group: Sequence[Whole] = language_corpus()[kind] if kind else corpus()[number % len(corpus())]
    whole = group[rng.integers(len(group))]
    words = whole.commands[rng.integers(len(whole.commands))]
    for name, data in whole.beside.items():
        _write(guard.folder / name, data)
    path = guard.folder / whole.name
    _write(path, mutant(whole.data, whole.kind, rng))
    np.save(guard.folder / "x.npy", np.zeros((1, 256), np.int8))
    words = tuple(whole.name if word == "@" else word for word in words)
    before = _files(guard.folder)
    taken, problem = guard.run(*words)
    written = sorted(_files(guard.folder) - before)
    if not (taken or problem) and written:
        problem = f"it refused the file, and wrote {', '.join(written)}"
    for name in written:
        (guard.folder / name).unlink()
    if problem:
        path.rename(guard.folder.parent / f"{kind}{number}{path.suffix}")
    return Trial(number, kind or whole.kind, words, taken, problem)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def _files(folder: Path) -> set[str]:
    """Return the names of files; those of the guard and the cache do not count."""
    found = {file.name for file in folder.iterdir() if file.is_file()}
    return found - set(GUARDED)


def _problem(outcome: dict[str, Any], done: bool, told: bool) -> str:
    """Say what is wrong with an outcome, or nothing; some commands tell on stderr what they did."""
    code, err = outcome["code"], outcome["err"].strip()
    if outcome["noted"]:
        return f"it did what nobody asked for: {outcome['noted']}"
    if code == _SIGXCPU:
        return "it did not end within its time"
    if outcome["bytes"] > BYTES:
        return f"it took {outcome['bytes'] >> 20} MiB"
    if done:
        printed = any(words in err for words in _PRINTED) if told else err
        return f"it printed errors: {err}" if printed else ""
    if code != 2:
        return f"it ended with {code}: {err}"
    if len(err.splitlines()) != 1 or not err.startswith("tpulite: "):
        return f"its error is not one line: {err}"
    if any(words in err for words in _FAULTS):
        return err
    return ""
