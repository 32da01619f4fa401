"""The cycle model's memories as those who read them see them."""

from typing import NamedTuple

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import MemoryTiming
from tpulite.arch.timing import row_cycles
from tpulite.golden.timing.data_path import DataPath


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
