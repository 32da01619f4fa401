"""Many commands at once: fields of constants and of arrays, encoded as 256-bit words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, HEADER, Opcode

__all__ = [
    "END_WORD",
    "PREFETCH",
    "SIGNAL",
    "WAIT",
    "Batch",
    "Origin",
    "Words",
    "commands",
    "encode",
]

Words = NDArray[np.int64]
"""Commands [4, n]: lane i holds bits 64 i to 64 i + 63 of each."""

_LANES, _LANE_BITS = COMMAND_BYTES // 8, 64
_FIELDS = {
    opcode: {
        field.name: (offset, field.width, field)
        for field, offset in zip(layout.fields, layout.offsets().values(), strict=True)
    }
    for opcode, layout in COMMANDS.items()
}

WAIT, SIGNAL = (sum(f.width for f in HEADER[:i]) for i in (1, 2))
"""Bit offsets in lane 0 of the fields that order engines."""

PREFETCH = COMMANDS[Opcode.CONV].offsets()["prefetch"]
"""Bit offset in lane 0 of CONV."""

END_WORD = np.array([[int(Opcode.END)], [0], [0], [0]])


class Origin(IntEnum):
    """What fields are counted from, so that the commands of equal layers are equal.

    The rows that a layer works in, where its constants, output and inputs begin, and zero points.
    """

    TILES = 0
    CONSTANTS = 1
    TARGET = 2
    SOURCE = 3
    SECOND_SOURCE = 4
    INPUT_ZERO = 5
    WEIGHT_ZERO = 6


Counted = Origin | tuple[Origin, NDArray[np.bool_]]
"""What a field is counted from, and in which commands, if not in all."""


@dataclass(frozen=True)
class Batch:
    """Commands of one opcode, not yet encoded.

    Parameters
    ----------
    opcode : Opcode
        What they all do.
    count : int
        How many.
    fields : mapping of str to int or array of int64
        Fields that all have in common, and fields of each. What is not named is 0.
    origins : mapping of str to Origin or (Origin, array of bool)
        What fields are counted from, and in which commands, if not in all; without one, from 0.
    """

    opcode: Opcode
    count: int
    fields: Mapping[str, int | NDArray[np.int64]]
    origins: Mapping[str, Counted] = field(default_factory=dict)


_Placed = tuple[Batch, int, int, Sequence[int]]
"""A batch, where its commands begin and end, and where its origins are."""


def commands(
    opcode: Opcode,
    count: int,
    origins: Mapping[str, Counted] = MappingProxyType({}),
    **fields: int | NDArray[np.int64],
) -> Batch:
    """Return ``count`` commands of one opcode."""
    return Batch(opcode, count, fields, origins)


def encode(batches: Sequence[Batch], places: Sequence[Sequence[int]] = ()) -> Words:
    """Encode commands, batch after batch: a field of all of them at once.

    Parameters
    ----------
    batches : sequence of Batch
        The commands.
    places : sequence of sequence of int
        Where the origins of each batch are.

    Raises
    ------
    ValueError
        If a value does not fit its field.

    Examples
    --------
    >>> words = encode([commands(Opcode.LOAD, 2, lines=1, rows=16, row=np.array([0, 16]))])
    >>> [hex(word) for word in words[1]]
    ['0x80008000', '0x400080008000']
    """
    groups: dict[Opcode, list[_Placed]] = {}
    end = 0
    for batch, origins in zip(batches, places or [()] * len(batches), strict=True):
        start, end = end, end + batch.count
        if batch.count:
            groups.setdefault(batch.opcode, []).append((batch, start, end, origins))
    words = np.zeros((_LANES, end), np.int64)
    for opcode, group in groups.items():
        if len(groups) == 1:
            words[0] = int(opcode)
        columns: dict[str, NDArray[np.int64]] = {}
        for batch, start, stop, origins in group:
            if len(groups) > 1:
                words[0, start:stop] = int(opcode)
            for name, value in batch.fields.items():
                column = columns.get(name)
                if column is None:
                    columns[name] = column = np.zeros(end, np.int64)
                column[start:stop] = value
            for name, counted in batch.origins.items():
                if isinstance(counted, tuple):
                    columns[name][start:stop] += origins[counted[0]] * counted[1]
                else:
                    columns[name][start:stop] += origins[counted]
        mine = words[0] == int(opcode) if len(groups) > 1 else slice(None)
        for name, column in columns.items():
            problem = _insert(words, opcode, name, column, mine)
            if problem is not None:
                raise ValueError(f"{opcode.name}.{name} {problem}")
    return words


def _insert(
    words: Words,
    opcode: Opcode,
    name: str,
    column: NDArray[np.int64],
    mine: NDArray[np.bool_] | slice,
) -> str | None:
    """Write a field into words, or return why it does not fit.

    ``mine`` are the commands that have the field; the column is 0 elsewhere.
    """
    offset, width, layout = _FIELDS[opcode][name]
    low, high = int(column.min()), int(column.max())
    wrong = low < layout.range[0] or high > layout.range[-1]
    if not wrong and layout.multiple > 1:
        wrong = bool(int(np.bitwise_or.reduce(column)) & (layout.multiple - 1))
    if not wrong and layout.minimum is not None and low < layout.minimum:
        wrong = int(column[mine].min()) < layout.minimum
    if wrong:
        return next(filter(None, map(layout.problem, column[mine].tolist())))
    if not high and not low:
        return None
    if low < 0:
        column = column & ((1 << width) - 1)
    lane, shift = divmod(offset, _LANE_BITS)
    words[lane] |= column << shift
    if shift + width > _LANE_BITS:
        words[lane + 1] |= column >> (_LANE_BITS - shift)
    return None
