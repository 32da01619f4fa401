"""How much a bench draws: in full in its first size on Verilator, a part in all other runs."""

import os

from tpulite_testing.regress import REGRESS

__all__ = ["EFFORT", "repeats"]

EFFORT = "TPULITE_EFFORT"
"""Environment variable: of how many parts of its draws a run makes one (default: 1)."""


def repeats(count: int) -> int:
    """Return how often a bench repeats something that it draws.

    Four-state logic, and another size, show in the first few what they have to show; the full
    count, which finds rare coincidences, runs on Verilator, and everywhere in ``make regress``.
    ``tpulite_tb.simulators`` says how large the parts are.

    Parameters
    ----------
    count : int
        How often in full.
    """
    parts = 1 if REGRESS else int(os.environ.get(EFFORT, "1"))
    return -(-count // parts)
