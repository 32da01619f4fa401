"""What a plan knows of the buffer, and of the activations that a layer reads and computes."""

from dataclasses import dataclass

from tpulite.arch.config import Config

__all__ = ["Lies", "Space"]


@dataclass(frozen=True)
class Lies:
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
    resident : bool
        Whether all of it stays in the buffer.
    """

    height: int
    width: int
    blocks: int
    line: int
    column: int
    grain: int
    resident: bool


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
    fleeting : bool
        Whether constants do not stay: each command loads its own.
    block_start : bool
        Whether the next layer may start on complete parts of the output.
    """

    config: Config
    strip_rows: int
    free_rows: int
    share: float
    fleeting: bool
    block_start: bool
