"""Commands whose buffers have no address yet: what tiling hands to scheduling."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tpulite.arch.isa import Opcode
from tpulite.program import TensorSpec


class Side(Enum):
    """Where the search for the place of a buffer begins."""

    NEXT = "next"  #: behind the last place given out
    BOTTOM = "bottom"  #: at the first row
    TOP = "top"  #: below the last place given out, from the last row downwards


@dataclass(frozen=True, eq=False)
class Buffer:
    """Consecutive rows of the unified buffer, wanted from the first to the last use."""

    name: str  #: For error messages.
    rows: int  #: How many.
    row: int | None = None  #: Where, if it is resident; then it is never freed.
    #: Bank of the first row. Activations begin in bank 0 and weights half way around, so that both
    #: can be read in the same cycles.
    bank: int | None = None
    side: Side = Side.NEXT  #: Where its place is searched first.
    #: Another buffer of as many rows, in whose place this one may be made: each command that writes
    #: rows of this one writes only what it, or an earlier one, has read last in the same rows of
    #: the other. A hint: allocation decides (:mod:`tpulite.compiler.schedule.uses`).
    over: "Buffer | None" = None


class Region(NamedTuple):
    """Rows of a buffer, from ``row`` on."""

    buffer: Buffer
    row: int = 0

    def behind(self, rows: int) -> "Region":
        """Return the place some rows behind this one."""
        return Region(self.buffer, self.row + rows)


class Op(NamedTuple):
    """A command without addresses and tokens."""

    opcode: Opcode  #: LOAD, CONV, VECTOR or STORE.
    layer: int  #: Index of its layer.
    fields: dict[str, int]  #: Fields that are known.
    rows: dict[str, Region]  #: Fields that are rows of a buffer.
    #: Buffers that must be there before this command, though later ones are the first to use them.
    reserve: tuple[Buffer, ...] = ()
    #: Whether it loads what earlier commands store: it stays behind all that store to its bytes.
    barrier: bool = False
    slice: int = 0  #: Which slice of its group it is for.
    #: Whether nothing goes ahead of the command before it: it is a LOAD to rows just read.
    stays: bool = False


@dataclass(frozen=True)
class Tiling:
    """All commands of a network, in an order in which they could run one after the other."""

    ops: tuple[Op, ...]  #: The commands, without END.
    #: What the host writes and reads.
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scratch_bytes: int  #: Bytes of the SCRATCH window.
    first_row: int = 0  #: First row of the unified buffer that is not taken by resident constants.
    resident: tuple[tuple[int, int], ...] = ()  #: Rows that an earlier program has left there.
