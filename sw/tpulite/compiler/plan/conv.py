"""Plans of convolutions: parts of the output, groups of n-blocks, chunks of channel blocks."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows


@dataclass(frozen=True)
class ConvExtents:
    """Extents of a convolution on the machine."""

    #: Rows of the output, and vectors in a row.
    rows: int
    width: int
    source_rows: int  #: Rows of the input.
    source_width: int  #: Vectors in a row of the input.
    #: Input rows from output row to output row, and from the first to the last that one reads.
    stride: int
    reach: int
    taps: int  #: Positions of the kernel.
    #: Channel blocks of the input and of the output.
    blocks: int
    n_blocks: int
    grain: int  #: Output rows begin at beats at multiples of it.
    int4: bool = False  #: Whether weight tiles are int4.

    def read(self, rows: int) -> int:
        """Return the vectors of an input block that output rows read."""
        return min((rows - 1) * self.stride + self.reach, self.source_rows) * self.source_width


@dataclass(frozen=True, kw_only=True)
class ConvPlan:
    """How a convolution is cut into commands.

    The loops are, from outside: parts of the output, groups of n-blocks that accumulate side by
    side, chunks of the input's channel blocks, n-blocks of the group. One CONV does one chunk of
    one n-block.
    """

    parts: tuple[range, ...]  #: Parts of the output's rows.
    group: int  #: n-blocks of a group.
    #: Chunks, in channel blocks, of the first group of the first part: while it runs, its operands
    #: are still arriving.
    head: tuple[int, ...]
    body: tuple[int, ...]  #: Chunks of all other groups.
    #: Rows of the pieces of the very last n-block of the very last part: the earlier ones are
    #: stored while the later ones are computed.
    tail: tuple[int, ...]
    #: Whether the input of a part stays in the buffer for all its groups, with all its channels.
    #: Else it is loaded again for each group, chunk by chunk, and ``head`` equals ``body``.
    whole_k: bool = True
    #: Whether weights stay in the buffer from part to part; needs ``whole_k``.
    keep_weights: bool = True

    def commands(self, extents: ConvExtents) -> int:
        """Return the number of CONV commands, those of the tail not counted."""
        first = min(self.group, extents.n_blocks) * (len(self.head) - len(self.body))
        return len(self.parts) * extents.n_blocks * len(self.body) + first

    def groups(self, extents: ConvExtents) -> tuple[range, ...]:
        """Return the n-blocks of each group."""
        starts = range(0, extents.n_blocks, self.group)
        return tuple(range(a, min(a + self.group, extents.n_blocks)) for a in starts)

    def loaded_rows(self, extents: ConvExtents, config: Config, *, inputs: bool) -> int:
        """Return the rows that are loaded: weights, and ``inputs`` if they come from DRAM."""
        rows = tile_rows(extents.int4, config)
        weights = extents.blocks * extents.taps * extents.n_blocks * rows
        groups = -(-extents.n_blocks // self.group)
        rows = weights * (1 if self.keep_weights else len(self.parts))
        if inputs:
            read = sum(extents.read(len(part)) for part in self.parts) * extents.blocks
            rows += read * (1 if self.whole_k else groups)
        return rows
