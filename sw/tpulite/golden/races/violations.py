"""What makes a program illegal."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong."""

    READ_AFTER_WRITE = "reads, not ordered after the write of"
    WRITE_AFTER_READ = "writes, not ordered after the read of"
    WRITE_AFTER_WRITE = "writes, not ordered after the write of"
    UNWRITTEN = "reads what nothing has written"
    OVERLAP = "overwrites what it may not have read yet"
    STRAY = "is depthwise and has weights that are no taps"
    WAIT = "awaits a token that no earlier command gives"
    COUNTER = "gives a token to a full counter"
    LEFTOVER = "leaves tokens at the end"
    END = "does not end in its only END"
    FAULT = "stops the machine"


class Space(StrEnum):
    """Where it is wrong, and what the numbers of the place count."""

    BUFFER = "rows of the unified buffer"
    ACCUMULATOR = "rows of the accumulators"
    DRAM = "bytes of DRAM"
    TOKENS = "tokens"
    PROGRAM = "commands"


@dataclass(frozen=True)
class Violation:
    """One thing that makes a program illegal."""

    kind: Kind  #: What is wrong.
    #: Indices of the commands, in program order; the last one is the one at fault.
    commands: tuple[int, ...]
    space: Space  #: What ``place`` counts.
    #: From the first to the last place that is concerned; in between some may be legal.
    place: range
    text: str  #: All of it in one sentence.

    def __str__(self) -> str:
        return self.text
