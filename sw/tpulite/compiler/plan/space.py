"""What a plan knows of the buffer, and of the activations that a layer reads and computes."""

from dataclasses import dataclass, replace
from math import gcd

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.graph.layers import Made
from tpulite.program import PackedRows

SMALLEST_SHARE = 0.1
"""If strips of this part of their size find no place, everything is tried that needs fewer rows."""


def grain_of(line: int, config: Config) -> int:
    """Return after how many rows of an activation one begins at a beat in DRAM.

    Parameters
    ----------
    line : int
        Rows of the buffer that each of them would take.
    """
    return BEAT_BYTES // gcd(BEAT_BYTES, line * config.row_bytes)


@dataclass(frozen=True)
class Placed:
    """How large an activation is, and where it lies."""

    #: Rows, vectors in a row and channel blocks that are here.
    height: int
    width: int
    blocks: int
    line: int  #: Vectors in a row in DRAM.
    column: int  #: First of the columns that are here.
    grain: int  #: Rows begin at beats in DRAM at multiples of it.
    #: Rows of the buffer that a row of one block takes, and a vector of it.
    pitch: int
    vector_rows: int
    #: Whether all of it stays in the buffer. Else only some of its rows are there at a time.
    resident: bool
    moved: bool  #: Whether it comes from DRAM or goes there.
    packed: PackedRows | None = None  #: How its rows are packed, if they are.
    made: Made = Made.OTHERWISE  #: In which order it is computed.

    def flat(self, config: Config) -> "Placed":
        """Return the same activation as one column of all its pixels."""
        return replace(
            self,
            height=self.height * self.line,
            width=1,
            line=1,
            column=0,
            grain=grain_of(self.vector_rows, config),
            pitch=self.vector_rows,
        )


@dataclass(frozen=True)
class Space:
    """What a layer may take."""

    config: Config  #: The machine.
    strip_rows: int  #: Rows of the buffer that a strip may take.
    free_rows: int  #: Rows that nothing resident takes; less while smaller parts are tried.
    share: float = 1.0  #: Part of their usual size that both have.
    #: In a group, whether weights stay from slice to slice. Alone, the plan decides.
    keep: bool | None = None
    fleeting: bool = False  #: Whether constants do not stay: each command loads its own.
    block_start: bool = True  #: Whether the next layer may start on complete parts of the output.
    interleaved: bool = True  #: Whether rows of depthwise layers may be interleaved.
    prefetch: bool = True  #: Whether tiles may be loaded while others are computed.

    @property
    def most_rows(self) -> int:
        """Rows that nothing resident takes, as long as there are smaller parts to try."""
        return int(self.free_rows / (self.share if self.share > SMALLEST_SHARE else 1.0))
