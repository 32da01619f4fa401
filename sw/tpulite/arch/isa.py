"""Commands and channel records: every bit, written once.

The compiler packs these tables, the golden machine unpacks them, the RTL turns them into Amaranth
layouts and checks, and ``scripts/gen_docs.py`` prints them.

A command is 256 bits, little-endian in DRAM, the first field in the least significant bits. Bits
beyond its layout are zero.
"""

from dataclasses import dataclass
from enum import IntEnum

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES
from tpulite.arch.numerics import Rounding

__all__ = [
    "COMMANDS",
    "COPY",
    "END",
    "ENGINE_OF",
    "HEADER",
    "LOAD",
    "MATMUL",
    "RAW_ROWS",
    "RECORD",
    "STORE",
    "TOKEN_MAX",
    "Command",
    "Drain",
    "Engine",
    "Opcode",
    "RecordForm",
    "decode",
    "disassemble",
]

RAW_ROWS = 4
"""Rows of a raw output vector: N int32 in rows of N bytes."""

TOKEN_MAX = 63
"""Largest value of a token counter: 6 bits."""


class Engine(IntEnum):
    """Who executes commands. Each engine has a queue and executes its commands in order."""

    LOAD = 0  #: DMA, DRAM to unified buffer
    STORE = 1  #: DMA, unified buffer to DRAM
    MXU = 2  #: systolic array with the drain path of the VPU
    VPU = 3  #: vector path of the VPU


class Opcode(IntEnum):
    """What a command does. Zero is no command, so cleared memory is not a program."""

    LOAD = 1
    STORE = 2
    MATMUL = 3
    COPY = 4
    END = 15


class Drain(IntEnum):
    """What becomes of the sums after the last k-tile of a MATMUL."""

    KEEP = 0  #: they stay in the accumulator buffer
    REQUANTIZE = 1  #: bias, requantize, zero point, clamp; N int8 a vector into the unified buffer
    RAW = 2  #: N int32 a vector, little-endian, four rows a vector


class RecordForm(IntEnum):
    """How the channel records of an n-block lie in the unified buffer."""

    FULL = 0  #: N records of 16 bytes, in 16 rows
    SHORT = 1  #: one record for all channels, padded to whole rows, then N int32 biases in 4 rows


_ENGINES = "bit e names engine e: 0 LOAD, 1 STORE, 2 MXU, 3 VPU"

HEADER = (
    Field("opcode", 4, "What to do.", enum=Opcode),
    Field("wait", 4, f"Take one token from each named engine before the start; {_ENGINES}."),
    Field(
        "signal",
        4,
        f"Give one token to each named engine when all effects are visible; {_ENGINES}.",
    ),
)

_TRANSFER = (
    *HEADER,
    Field("flip", 1, "Invert the top bit of every byte: uint8 becomes int8 and back."),
    Field("window", 2, "DRAM window."),
    Field("offset", 32, "First byte of the first line in the window.", multiple=BEAT_BYTES),
    Field("stride", 32, "Bytes in DRAM from line to line.", multiple=BEAT_BYTES),
    Field("lines", 12, "Lines.", minimum=1),
    Field("rows", 15, "Rows of the unified buffer in a line.", minimum=1),
    Field("row", 14, "First row of the first line in the unified buffer."),
    Field("pitch", 14, "Rows of the unified buffer from line to line."),
)

LOAD = Layout("LOAD", _TRANSFER, "Copy lines of rows from DRAM into the unified buffer.")

STORE = Layout(
    "STORE",
    _TRANSFER,
    "Copy lines of rows from the unified buffer to DRAM, exact to the byte; complete when the last "
    "write response is in.",
)

MATMUL = Layout(
    "MATMUL",
    (
        *HEADER,
        Field(
            "prefetch",
            1,
            "Weights and records may be read as soon as the MXU's previous command has started, "
            "before this command's wait.",
        ),
        Field("m", 11, "Vectors (rows of the activation matrix).", minimum=1),
        Field("k_tiles", 11, "Weight tiles along K.", minimum=1),
        Field("act_row", 14, "Row of vector 0 of k-tile 0."),
        Field("act_pitch", 14, "Rows from a k-tile's activations to the next k-tile's."),
        Field("weight_row", 14, "First row of the weight tiles: k_tiles x N consecutive rows."),
        Field("weight_zero_point", 8, "Subtracted from every weight.", signed=True),
        Field("acc_row", 10, "Row of vector 0 in the accumulator buffer."),
        Field("accumulate", 1, "Add to the accumulators from the first k-tile on; else overwrite."),
        Field(
            "drain",
            2,
            "What happens after the last k-tile. A drain leaves the accumulator rows undefined.",
            enum=Drain,
        ),
        Field("record_form", 1, "Form of the channel records.", enum=RecordForm),
        Field("record_row", 14, "First row of the channel records; unused unless requantizing."),
        Field("out_row", 14, "Row of output vector 0; unused if the sums are kept."),
    ),
    "Multiply M vectors by a column of weight tiles, [M, K] x [K, N] with one n-block of N "
    "channels, and accumulate; on the last k-tile drain as told. Output vectors lie in consecutive "
    "rows.",
)

COPY = Layout(
    "COPY",
    (
        *HEADER,
        Field("lines", 12, "Lines.", minimum=1),
        Field("rows", 15, "Rows in a line.", minimum=1),
        Field("src_row", 14, "First row read."),
        Field("src_pitch", 14, "Rows from line to line, read."),
        Field("dst_row", 14, "First row written."),
        Field("dst_pitch", 14, "Rows from line to line, written."),
        Field("low", 8, "Smallest result: smaller bytes become it.", signed=True),
        Field("high", 8, "Largest result: larger bytes become it.", signed=True),
    ),
    "Copy rows within the unified buffer and clamp every int8 to [low, high]: a move, ReLU or "
    "ReLU6.",
)

END = Layout(
    "END",
    HEADER[:1],
    "Wait until every engine is idle and every write answered, then interrupt.",
)

COMMANDS: dict[Opcode, Layout] = {
    Opcode.LOAD: LOAD,
    Opcode.STORE: STORE,
    Opcode.MATMUL: MATMUL,
    Opcode.COPY: COPY,
    Opcode.END: END,
}

ENGINE_OF: dict[Opcode, Engine] = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.STORE: Engine.STORE,
    Opcode.MATMUL: Engine.MXU,
    Opcode.COPY: Engine.VPU,
}

RECORD = Layout(
    "Record",
    (
        Field("bias", 32, "Added to the accumulator, wrapping.", signed=True),
        Field("multiplier", 31, "Fixed-point multiplier; with FLOAT32 a 24-bit mantissa."),
        Field("shift", 8, "Exponent that belongs to the multiplier.", signed=True),
        Field("rounding", 2, "How to round.", enum=Rounding),
        Field("zero_point", 8, "Added after scaling.", signed=True),
        Field("low", 8, "Smallest result.", signed=True),
        Field("high", 8, "Largest result.", signed=True),
    ),
    "Channel record, 16 bytes: how one output channel is requantized. In the short form the bias "
    "of the common record is ignored.",
)


@dataclass(frozen=True)
class Command:
    """One command: an opcode and the values of all its fields (without ``opcode``).

    Examples
    --------
    >>> end = Command.make(Opcode.END)
    >>> decode(end.encode()) == end
    True
    """

    opcode: Opcode
    fields: dict[str, int]

    @classmethod
    def make(cls, opcode: Opcode, **fields: int) -> "Command":
        """Build a command; fields that are not named are 0."""
        names = [field.name for field in COMMANDS[opcode].fields[1:]]
        unknown = sorted(fields.keys() - set(names))
        if unknown:
            raise ValueError(f"{opcode.name} has no fields {unknown}")
        return cls(opcode, {name: int(fields.get(name, 0)) for name in names})

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    @property
    def engine(self) -> Engine | None:
        """The engine that executes it; None for END."""
        return ENGINE_OF.get(self.opcode)

    def encode(self) -> bytes:
        """Return the 32 bytes of the command.

        Raises
        ------
        ValueError
            If a field has an illegal value.
        """
        word = COMMANDS[self.opcode].pack(opcode=self.opcode, **self.fields)
        return word.to_bytes(COMMAND_BYTES, "little")

    def replace(self, **fields: int) -> "Command":
        """Return the command with some fields changed."""
        return Command.make(self.opcode, **(self.fields | fields))


def decode(data: bytes) -> Command:
    """Decode 32 bytes into a command; the inverse of :meth:`Command.encode`.

    Raises
    ------
    ValueError
        If the opcode, a field or an unused bit is illegal.
    """
    if len(data) != COMMAND_BYTES:
        raise ValueError(f"A command has {COMMAND_BYTES} bytes, not {len(data)}")
    word = int.from_bytes(data, "little")
    opcode = word & 0xF
    if opcode not in list(Opcode):
        raise ValueError(f"Opcode must be one of {[int(o) for o in Opcode]}, not {opcode}")
    layout = COMMANDS[Opcode(opcode)]
    values = layout.unpack(word)
    if (why := layout.problem(values)) is not None:
        raise ValueError(why)
    if word >> layout.width:
        raise ValueError(f"{layout.name} has bits set beyond bit {layout.width - 1}")
    del values["opcode"]
    return Command(Opcode(opcode), values)


def disassemble(command: Command) -> str:
    """Return one line of text: the opcode, then the fields that are not zero.

    Examples
    --------
    >>> disassemble(Command.make(Opcode.LOAD, signal=4, lines=1, rows=16, window=1))
    'LOAD    signal=MXU window=1 lines=1 rows=16'
    """
    words = []
    for name, value in command.fields.items():
        if not value:
            continue
        if name in ("wait", "signal"):
            text = "|".join(engine.name for engine in Engine if value >> engine & 1)
        elif (field := _field(command.opcode, name)).enum is not None:
            text = field.enum(value).name.lower()
        else:
            text = str(value)
        words.append(f"{name}={text}")
    return f"{command.opcode.name:<8}{' '.join(words)}".rstrip()


def _field(opcode: Opcode, name: str) -> Field:
    return next(field for field in COMMANDS[opcode].fields if field.name == name)
