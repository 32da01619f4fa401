"""What a workload is: something that runs on a device and knows what is right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpulite.program import Program
from tpulite.runtime.device import Device

__all__ = ["Outcome", "Run"]


@dataclass(frozen=True)
class Outcome:
    """A workload that has run.

    Parameters
    ----------
    programs : tuple of Program
        What ran, for its multiplications and its traffic.
    cycles : int, optional
        Cycles of all of it; None where the device has no clock.
    counters : mapping of str to int
        Counters of the chip, of the last program.
    exact : bool
        Whether the result is the exact one, bit for bit.
    batches : int
        Batches of 16 in it.
    vectors : int, optional
        Output vectors, if cycles of a vector are of interest.
    """

    programs: tuple[Program, ...]
    cycles: int | None
    counters: Mapping[str, int]
    exact: bool
    batches: int = 1
    vectors: int | None = None


Run = Callable[[Device], Outcome]
"""Compiles and runs a workload."""
