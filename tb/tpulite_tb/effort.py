"""How much a bench draws: on Icarus, which takes ten times as long, a part of it."""

import os

from tpulite_testing.regress import REGRESS

__all__ = ["repeats"]


def repeats(count: int) -> int:
    """Return how often a bench repeats something that it draws.

    Four-state logic shows what nobody drives in the first few; the full count, which finds rare
    coincidences, runs on Verilator, and on Icarus in ``make regress``.

    Parameters
    ----------
    count : int
        How often on Verilator.
    """
    thin = os.environ.get("SIM") == "icarus" and not REGRESS
    return -(-count // 4) if thin else count
