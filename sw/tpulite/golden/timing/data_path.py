"""The cycle model's DRAM: the data path that bursts take in turns."""

from collections.abc import Callable
from copy import copy

from tpulite.arch.memory import MemoryTiming


def _nothing(_: int) -> None:
    """Take no reads: there are none."""


class DataPath:
    """When the data path of a memory takes bursts, which must come to it in order of time.

    Attributes
    ----------
    free : int
        First cycle in which it can take a burst.
    take : callable
        Lets it take the reads that have come by a cycle.
    """

    __slots__ = ("_beat", "_rest", "free", "take")

    def __init__(self, memory: MemoryTiming) -> None:
        self._beat, self._rest = memory.beat_cycles, memory.burst_cycles
        self.free = 0
        self.take: Callable[[int], None] = _nothing

    def copy(self) -> "DataPath":
        """Return another one that is as busy."""
        return copy(self)

    def begin(self, time: int, beats: int) -> int:
        """Take a read that comes in a cycle; return when its first beat passes."""
        begin = time if time > self.free else self.free
        self.free = begin + beats * self._beat + self._rest
        return begin

    def end(self, time: int, beats: int) -> int:
        """Take a write whose last beat comes in a cycle; return when that beat has passed."""
        self.take(time)
        end = max(time, self.free + beats * self._beat)
        self.free = end + self._rest
        return end
