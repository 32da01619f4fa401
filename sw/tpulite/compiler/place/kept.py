"""Facts of an image that is kept somewhere: its size, its rows in the buffer, its place in DRAM."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer
from tpulite.compiler.plan.space import Placed, grain_of
from tpulite.graph.layers import Made
from tpulite.program import TensorSpec


@dataclass(frozen=True, eq=False)
class Kept:
    """Where an image is kept: the whole of it, one image of a batch, or a range of its columns."""

    name: str  #: Name of the image.
    #: See :class:`StoreExtents`; columns and blocks are those that are here.
    height: int
    width: int
    blocks: int
    vector_rows: int
    batch: int
    config: Config  #: The machine.
    specs: tuple[TensorSpec, ...]  #: Where it is in DRAM: see :class:`InDram`.
    given: bool  #: Whether it is in DRAM from the start.
    line: int  #: Vectors in a row in DRAM; more than there are here if this is a range of columns.
    #: Rows of the buffer from image row to image row and from block to block.
    pitch: int
    block_pitch: int
    #: Rows of the buffer between image rows that are not used, so that vectors below each other lie
    #: in different banks.
    skew: int
    buffer: Buffer | None  #: Where it is resident.
    #: Vectors of each channel block that are here, image by image: the tiler's state.
    loaded: list[list[int]]
    resident: bool  #: Whether all of it stays in the unified buffer from its first to its last use.
    first: int = 0  #: First row of the buffer, if the image is resident.
    #: What the part begins with.
    column: int = 0
    image: int = 0
    block: int = 0
    #: Rows of the whole image, and what a view of some rows and columns begins with.
    full: int = 0
    top: int = 0
    left: int = 0
    made: Made = Made.OTHERWISE  #: In which order it is computed.

    @property
    def placed(self) -> Placed:
        """What plans know of it."""
        return Placed(
            self.height,
            self.width,
            self.blocks,
            self.line,
            self.column,
            self.grain,
            self.width * self.vector_rows + self.skew,
            self.vector_rows,
            self.resident,
            self.spec is not None,
            self.spec and self.spec.packed_rows,
            self.made,
        )

    @property
    def spec(self) -> TensorSpec | None:
        """Where it is in DRAM, if it is."""
        return self.specs[0] if self.specs else None

    @property
    def grain(self) -> int:
        """After how many rows of the image one begins at a beat in DRAM."""
        return grain_of(self.line * self.vector_rows, self.config)

    @property
    def rows(self) -> int:
        """Rows of the unified buffer that one whole image takes."""
        return self.blocks * self.height * self.pitch

    @property
    def packed_rows(self) -> bool:
        """Whether it lies in packed rows: see dense mode."""
        return self.spec is not None and self.spec.packed_rows is not None

    @property
    def whole(self) -> bool:
        """Whether it is no view of some rows or columns of a larger image."""
        return self.height == self.full and self.width == self.line

    @property
    def skewed(self) -> bool:
        """Whether rows of the buffer between image rows are not used."""
        return self.skew > 0

    @property
    def stored(self) -> bool:
        """Whether what is computed goes to DRAM."""
        return bool(self.specs) and not self.given
