"""How much a bench draws: in full in its first size on Verilator, a part in all other runs."""

import os

from tpulite_testing.regress import REGRESS

__all__ = ["EFFORT", "PART", "repeats"]

EFFORT, PART = "TPULITE_EFFORT", "part"
"""Environment variable, and its value in a run that draws a part."""


def repeats(count: int) -> int:
    """Return how often a bench repeats something that it draws.

    Four-state logic, and another size, show in the first few what they have to show; the full
    count, which finds rare coincidences, runs on Verilator, which takes a tenth of the time of
    Icarus, and everywhere in ``make regress``.

    Parameters
    ----------
    count : int
        How often in full.
    """
    part = os.environ.get("SIM") == "icarus" or os.environ.get(EFFORT) == PART
    return -(-count // 4) if part and not REGRESS else count
