"""The cycle model's DRAM: the data path that bursts take in turns, and what its readers see."""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.timing import row_cycles


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


class Rate(NamedTuple):
    """How fast beats come to LOAD, which takes one only when there is room for its rows.

    Attributes
    ----------
    beat, row : int
        Cycles from a beat, and from a row, to the next.
    first : int
        Cycles from the first beat to the first row.
    """

    beat: int
    row: int
    first: int

    @classmethod
    def of(cls, beat_cycles: int, config: Config) -> "Rate":
        """Return the rate of a memory with so many cycles for a beat; 0 if beats are ready."""
        rows, beats = max(BEAT_BYTES // config.row_bytes, 1), row_cycles(config)
        beat = max(rows, beat_cycles)
        first = 2 if rows > 1 else (beats - 1) * beat + 1
        return cls(beat, beats * max(beat // rows, 1), first)


class Source:
    """A memory that LOAD and command fetch read.

    Attributes
    ----------
    latency : int
        Cycles from an address to the first beat, if the path is free.
    rate : Rate
        How fast beats come to LOAD.
    fetch : int
        Cycles from a beat to the next of command fetch.
    """

    __slots__ = ("fetch", "latency", "path", "rate")

    def __init__(self, memory: MemoryTiming, path: DataPath, config: Config) -> None:
        self.latency, self.path = memory.read_latency, path
        self.rate = Rate.of(memory.beat_cycles, config)
        self.fetch = max(memory.beat_cycles, 1)
