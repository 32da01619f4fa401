"""Where rows of an image are in the unified buffer, and the whole image in DRAM."""

from dataclasses import dataclass
from typing import NamedTuple

from tpulite.compiler.ops import Buffer, Region
from tpulite.program import TensorSpec


class View(NamedTuple):
    """Some rows of an image in the unified buffer."""

    buffer: Buffer  #: Where they are.
    rows: range  #: Which rows of the image.
    row: int  #: Row in the buffer of block 0, first image row, column 0.
    #: Rows of the buffer from image row to image row, and from channel block to channel block.
    pitch: int
    block_pitch: int

    def at(self, y: int, x: int = 0, block: int = 0, *, step: int = 1) -> Region:
        """Return the place of a pixel; ``step`` is the rows of a vector."""
        row = self.row + block * self.block_pitch + (y - self.rows.start) * self.pitch + x * step
        return Region(self.buffer, row)

    def without(self, blocks: int) -> "View":
        """Return the same view of an image of which the first blocks are not there."""
        return self._replace(row=self.row - blocks * self.block_pitch)

    def behind(self, blocks: int) -> "View":
        """Return the view of the same image without its first blocks."""
        return self._replace(row=self.row + blocks * self.block_pitch)


@dataclass(frozen=True)
class InDram:
    """Where an image is in DRAM, if it is."""

    #: Where it is read from and written to; further ones are copies that are stored, too, as
    #: outputs can only be written. None: it is never there.
    specs: tuple[TensorSpec, ...] = ()
    given: bool = False  #: Whether it is there from the start.
    #: Vectors from row to row, if some are not used: so that rows begin at beats.
    line: int | None = None


@dataclass(frozen=True)
class StoreExtents:
    """How large an image is."""

    #: Rows, vectors in a row, and channel blocks.
    height: int
    width: int
    blocks: int
    vector_rows: int = 1  #: Rows of the buffer that a vector takes: 4 for int32.
    batch: int = 1  #: Images; those that are resident lie one below the other, block by block.
