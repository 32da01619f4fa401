"""Files that others made, damaged or hostile."""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tpulite_testing.hostile.trials import Guard, guarded, try_mutant

__all__ = ["hostile_file"]


def hostile_file(seed: int) -> dict[str, int]:
    """Let a command read a mutant of a file; it is taken, or refused in one line."""
    trial = try_mutant(seed, _guard())
    assert not trial.problem, str(trial)
    return {"taken" if trial.taken else "refused": 1}


@cache
def _guard() -> Guard:
    """Return the guard of this process; it lives as long."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(TemporaryDirectory())
    return stack.enter_context(guarded(Path(folder)))
