"""What a plan knows of the buffer, and of the activations that a layer reads and computes."""

from dataclasses import dataclass

from tpulite.arch.config import Config

__all__ = ["SMALLEST_SHARE", "Placed", "Space"]

SMALLEST_SHARE = 0.1
"""If strips of this part of their size find no place, everything is tried that needs fewer rows."""


@dataclass(frozen=True)
class Placed:
    """How large an activation is, and where it lies.

    Parameters
    ----------
    height, width, blocks : int
        Rows, vectors in a row and channel blocks that are here.
    line : int
        Vectors in a row in DRAM.
    column : int
        First of the columns that are here.
    grain : int
        Rows begin at beats in DRAM at multiples of it.
    pitch : int
        Rows of the buffer that a row of one block takes.
    resident : bool
        Whether all of it stays in the buffer. Else only some of its rows are there at a time.
    moved : bool
        Whether it comes from DRAM or goes there.
    """

    height: int
    width: int
    blocks: int
    line: int
    column: int
    grain: int
    pitch: int
    resident: bool
    moved: bool


@dataclass(frozen=True)
class Space:
    """What a layer may take.

    Parameters
    ----------
    config : Config
        The machine.
    strip_rows : int
        Rows of the buffer that a strip may take.
    free_rows : int
        Rows that nothing resident takes; less while smaller parts are tried.
    share : float
        Part of their usual size that both have.
    keep : bool, optional
        In a group, whether weights stay from slice to slice. Alone, the plan decides.
    fleeting : bool
        Whether constants do not stay: each command loads its own.
    block_start : bool
        Whether the next layer may start on complete parts of the output.
    """

    config: Config
    strip_rows: int
    free_rows: int
    share: float = 1.0
    keep: bool | None = None
    fleeting: bool = False
    block_start: bool = True

    @property
    def most_rows(self) -> int:
        """Rows that nothing resident takes, as long as there are smaller parts to try."""
        return int(self.free_rows / (self.share if self.share > SMALLEST_SHARE else 1.0))
