"""Many commands at once: fields of constants and of arrays, packed into 256-bit words."""

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, HEADER, Opcode

__all__ = ["END_WORD", "PREFETCH", "SIGNAL", "WAIT", "Words", "pack_words"]

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


def pack_words(opcode: Opcode, count: int, **fields: int | NDArray[np.int64]) -> Words:
    """Encode ``count`` commands of one opcode.

    Parameters
    ----------
    opcode : Opcode
        What they all do.
    count : int
        How many.
    fields : int or array of int64
        Fields that all have in common, and fields of each. What is not named is 0.

    Raises
    ------
    ValueError
        If a value does not fit its field.

    Examples
    --------
    >>> words = pack_words(Opcode.LOAD, 2, lines=1, rows=16, row=np.array([0, 16]))
    >>> [hex(word) for word in words[1]]
    ['0x80008000', '0x400080008000']
    """
    table = _FIELDS[opcode]
    base, arrays = int(opcode), []
    for name, value in fields.items():
        offset, width, field = table[name]
        if isinstance(value, np.ndarray):
            bits = int(np.bitwise_or.reduce(value))
            if bits < 0 or bits >> width or bits & (field.multiple - 1):
                raise ValueError(f"{opcode.name}.{name} does not hold {value.tolist()}")
            arrays.append((offset, width, value))
        else:
            if (why := field.problem(value)) is not None:
                raise ValueError(f"{opcode.name}.{name} {why}")
            base |= (value & ((1 << width) - 1)) << offset
    lanes = np.frombuffer(base.to_bytes(COMMAND_BYTES, "little"), "<i8")
    words = np.repeat(lanes[:, None], count, axis=1)
    for offset, width, value in arrays:
        lane, shift = divmod(offset, _LANE_BITS)
        words[lane] |= value << shift
        if shift + width > _LANE_BITS:
            words[lane + 1] |= value >> (_LANE_BITS - shift)
    return words
