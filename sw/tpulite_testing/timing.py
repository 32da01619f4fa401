"""Time of some work as a ratio to a fixed computation in the same run.

Seconds say little on a machine that others use, too: caches, clocks and hyperthreads are shared. So
the work and a yardstick alternate, the processor's own time of each is taken, and the least of
several tries counts. Limits are about three times what was measured.
"""

import gc
import time
from collections.abc import Callable

import numpy as np

__all__ = ["time_ratio", "yardsticks"]

_TRIES = 7

_LEAST_SECONDS = 2e-3
"""Time of a try; work that takes less is repeated."""

_YARDSTICK_REPEATS = 200


def yardsticks(work: Callable[[], object], *, tries: int = _TRIES) -> float:
    """Return the time of some work in yardsticks, the least of several tries.

    A yardstick is a copy of a command's fields and a short reduction, about 2 us: what compilers in
    Python are made of.
    """
    return time_ratio(work, _yardstick, tries=tries) * _YARDSTICK_REPEATS


def time_ratio(
    work: Callable[[], object], fixed: Callable[[], object], *, tries: int = _TRIES
) -> float:
    """Return the processor's time of some work, as a multiple of that of a fixed computation.

    Parameters
    ----------
    work, fixed : callable
        What to run.
    tries : int
        How often each is measured, after it has run twice.
    """
    least = [float("inf"), float("inf")]
    repeats = [_repeats(each) for each in (work, fixed)]
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(tries):
            for i, each in enumerate((work, fixed)):
                least[i] = min(least[i], _seconds(each, repeats[i]))
    finally:
        if enabled:
            gc.enable()
    return least[0] / least[1]


def _repeats(work: Callable[[], object]) -> int:
    """Return how often to run some work in a try; it runs once to find out."""
    work()  # caches are filled, modules imported
    return max(1, round(_LEAST_SECONDS / max(_seconds(work, 1), 1e-7)))


def _seconds(work: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


_ROWS, _FIELDS = np.zeros((8, 64), np.int32), dict.fromkeys(map(str, range(36)), 1)


def _yardstick() -> None:
    for i in range(_YARDSTICK_REPEATS):
        _ROWS[:, 8:40].max(axis=1).tolist()
        dict(_FIELDS, wait=i)
