"""Files that others made, damaged or hostile."""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tpulite_testing.hostile.language import LANGUAGE
from tpulite_testing.hostile.trials import Guard, guarded, try_mutant

__all__ = ["hostile_file", "hostile_language"]


def hostile_file(seed: int) -> dict[str, int]:
    """Let a command read a mutant of a file; it is taken, or refused in one line."""
    trial = try_mutant(seed, _guard())
    assert not trial.problem, str(trial)
    return {"taken" if trial.taken else "refused": 1}


def hostile_language(seed: int) -> dict[str, int]:
    """Let a command read a mutant of one kind of file after the other; as :func:`hostile_file`."""
    number, kind = divmod(seed, len(LANGUAGE))
    trial = try_mutant(number, _guard(), LANGUAGE[kind])
    assert not trial.problem, str(trial)
    return {"taken" if trial.taken else "refused": 1}


@cache
def _guard() -> Guard:
    """Return the guard of this process; it lives as long."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(TemporaryDirectory())
    return stack.enter_context(guarded(Path(folder)))
