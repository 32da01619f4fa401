"""Commands and channel records: every bit, written once.

The compiler packs these tables, the golden machine unpacks them, the RTL turns them into Amaranth
layouts and checks, and ``scripts/gen_docs.py`` prints them.

A command is 256 bits, little-endian in DRAM, the first field in the least significant bits. Bits
beyond its layout are zero.
"""

from dataclasses import dataclass
from enum import IntEnum

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.numerics import Rounding

__all__ = [
    "COMMANDS",
    "CONV",
    "END",
    "ENGINE_OF",
    "HEADER",
    "LOAD",
    "LUT_BYTES",
    "OPERANDS",
    "RAW_ROWS",
    "RECORD",
    "STORE",
    "TOKEN_MAX",
    "VECTOR",
    "Axis",
    "Command",
    "Drain",
    "Engine",
    "Opcode",
    "RecordForm",
    "Scaling",
    "VectorOp",
    "decode",
    "dense",
    "disassemble",
    "illegal_combination",
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
    CONV = 3
    VECTOR = 4
    END = 15


class Drain(IntEnum):
    """What becomes of the sums after the last k-tile of a CONV."""

    KEEP = 0  #: they stay in the accumulator buffer
    REQUANTIZE = 1  #: bias, requantize, zero point, clamp; N int8 a vector into the unified buffer
    RAW = 2  #: N int32 a vector, little-endian, four rows a vector


class RecordForm(IntEnum):
    """How the channel records of an n-block lie in the unified buffer."""

    FULL = 0  #: N records of 16 bytes, in 16 rows
    SHORT = 1  #: one record for all channels, padded to whole rows, then N int32 biases in 4 rows


class Axis(IntEnum):
    """An axis of an image."""

    X = 0  #: columns
    Y = 1  #: rows


class VectorOp(IntEnum):
    """What the vector path computes of each output vector, channel by channel.

    ``requantize`` is :func:`tpulite.arch.numerics.requantize` with a channel record. Parameters
    lie from ``param_row`` on, each part padded to whole rows.
    """

    COPY = 0  #: a
    MAX = 1  #: maximum over the window of a
    SUM = 2  #: requantize(sum over the window of a); parameters: one record
    ADD = 3  #: requantize(scaled(a) + scaled(b)); parameters: OPERANDS, one record
    SUB = 4  #: requantize(scaled(a) - scaled(b)); parameters: OPERANDS, one record
    MUL = 5  #: requantize((a - a_zero_point) * (b - b_zero_point)); OPERANDS, one record
    AFFINE = 6  #: requantize(gain * a); parameters: N records in 16 rows
    LUT = 7  #: table[a + 128]; parameters: 256 bytes


class Scaling(IntEnum):
    """How ADD and SUB scale ``x``, an operand less its zero point."""

    TFLITE = 0  #: TFLITE rounding of ``(x << 20) * multiplier * 2**(-31 - shift)``
    EXACT = 1  #: ``x * multiplier``, wrapping at int32; the shift is ignored


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

CONV = Layout(
    "CONV",
    (
        *HEADER,
        Field(
            "prefetch",
            1,
            "Weights and records may be read as soon as the MXU's previous command has started, "
            "before this command's wait.",
        ),
        Field("depthwise", 1, "Each column convolves its own channel: the column-bus mode."),
        Field("inner", 1, "Axis of the output that runs fastest.", enum=Axis),
        Field(
            "byte_step",
            6,
            "0: a column is `stride_x` vectors from the next. 1 to N: dense mode, a column is that "
            "many bytes from the next, and a vector is any N consecutive bytes of an image row.",
        ),
        Field("rows", 11, "Output rows.", minimum=1),
        Field("columns", 11, "Output columns.", minimum=1),
        Field("stride_y", 4, "Input rows from an output row to the next.", minimum=1),
        Field("stride_x", 4, "Input columns from an output column to the next.", minimum=1),
        Field("act_row", 14, "Row of the input image's vector (0, 0) of block 0."),
        Field("act_pitch", 14, "Rows of the unified buffer from image row to image row."),
        Field("act_block_pitch", 14, "Rows from a channel block to the next."),
        Field("height", 11, "Rows of the input image; beyond is padding.", minimum=1),
        Field("width", 11, "Vectors in a row of the input image; beyond is padding.", minimum=1),
        Field("pad_top", 5, "Padding rows above the image."),
        Field("pad_left", 5, "Padding vectors left of the image."),
        Field("pad", 8, "Every byte of a padding vector: the input zero point.", signed=True),
        Field("blocks", 11, "Channel blocks.", minimum=1),
        Field("kernel_rows", 4, "Kernel rows.", minimum=1),
        Field("kernel_columns", 4, "Kernel columns.", minimum=1),
        Field("dilation_y", 4, "Input rows from a kernel row to the next.", minimum=1),
        Field("dilation_x", 4, "Input columns from a kernel column to the next.", minimum=1),
        Field("weight_row", 14, "First row of the weight tiles: k_tiles x N consecutive rows."),
        Field("weight_zero_point", 8, "Subtracted from every weight.", signed=True),
        Field("acc_row", 10, "Row of the first output vector in the accumulator buffer."),
        Field("accumulate", 1, "Add to the accumulators from the first k-tile on; else overwrite."),
        Field(
            "drain",
            2,
            "What happens after the last k-tile. A drain leaves the accumulator rows undefined.",
            enum=Drain,
        ),
        Field("record_form", 1, "Form of the channel records.", enum=RecordForm),
        Field("record_row", 14, "First row of the channel records; unused unless requantizing."),
        Field("out_row", 14, "Row of output vector (0, 0); unused if the sums are kept."),
        Field("out_pitch", 14, "Rows of the unified buffer from output row to output row."),
        Field("out_step", 14, "Rows from an output column to the next."),
    ),
    "Convolve an image with one n-block of N channels and accumulate; on the last k-tile drain as "
    "told. The k-tiles run over channel blocks, then kernel rows, then kernel columns. A matrix "
    "product is a 1 x 1 convolution of an image of one row.",
)

VECTOR = Layout(
    "VECTOR",
    (
        *HEADER,
        Field("operation", 3, "What to compute.", enum=VectorOp),
        Field("rows", 11, "Output rows.", minimum=1),
        Field("columns", 11, "Output columns.", minimum=1),
        Field("a_row", 14, "Row of operand A of output (0, 0)."),
        Field("a_pitch", 14, "Rows of the unified buffer, for A, from output row to output row."),
        Field("a_step", 14, "Rows, for A, from an output column to the next."),
        Field("window_rows", 8, "Rows of the window in A; only of MAX and SUM.", minimum=1),
        Field(
            "window_columns", 8, "Columns of the window, adjacent rows of the buffer.", minimum=1
        ),
        Field("window_pitch", 14, "Rows of the unified buffer from window row to window row."),
        Field("b_row", 14, "Row of operand B of output (0, 0); only of ADD, SUB and MUL."),
        Field("b_pitch", 14, "Rows, for B, from output row to output row; 0 broadcasts."),
        Field("b_step", 14, "Rows, for B, from an output column to the next; 0 broadcasts."),
        Field("out_row", 14, "Row of output (0, 0)."),
        Field("out_pitch", 14, "Rows from output row to output row."),
        Field("out_step", 14, "Rows from an output column to the next."),
        Field("param_row", 14, "First row of the parameters; unused by COPY and MAX."),
        Field("low", 8, "Smallest result: smaller bytes become it.", signed=True),
        Field("high", 8, "Largest result: larger bytes become it.", signed=True),
    ),
    "Compute output vectors from vectors of the unified buffer and clamp every int8 to "
    "[low, high]. What the parameters are depends on the operation.",
)

END = Layout(
    "END",
    HEADER[:1],
    "Wait until every engine is idle and every write answered, then interrupt.",
)

COMMANDS: dict[Opcode, Layout] = {
    Opcode.LOAD: LOAD,
    Opcode.STORE: STORE,
    Opcode.CONV: CONV,
    Opcode.VECTOR: VECTOR,
    Opcode.END: END,
}

ENGINE_OF: dict[Opcode, Engine] = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.STORE: Engine.STORE,
    Opcode.CONV: Engine.MXU,
    Opcode.VECTOR: Engine.VPU,
}

RECORD = Layout(
    "Record",
    (
        Field("bias", 32, "Added to the accumulator, wrapping.", signed=True),
        Field("multiplier", 31, "Fixed-point multiplier; with FLOAT32 a 24-bit mantissa."),
        Field("shift", 8, "Exponent that belongs to the multiplier.", signed=True),
        Field("rounding", 3, "How to round.", enum=Rounding),
        Field("zero_point", 8, "Added after scaling.", signed=True),
        Field("low", 8, "Smallest result.", signed=True),
        Field("high", 8, "Largest result.", signed=True),
        Field("gain", 16, "Factor of AFFINE; ignored elsewhere.", signed=True),
    ),
    "Channel record, 16 bytes: how one output channel is requantized. In the short form the bias "
    "of the common record is ignored.",
)

OPERANDS = Layout(
    "Operands",
    (
        Field("a_zero_point", 8, "Subtracted from A.", signed=True),
        Field("b_zero_point", 8, "Subtracted from B.", signed=True),
        Field("a_multiplier", 31, "Multiplier of A; only of ADD and SUB, like all that follow."),
        Field("a_shift", 5, "Right shift of A."),
        Field("b_multiplier", 31, "Multiplier of B."),
        Field("b_shift", 5, "Right shift of B."),
        Field("scaling", 1, "How the operands are scaled.", enum=Scaling),
    ),
    "How VECTOR prepares its operands, 16 bytes.",
)

LUT_BYTES = 256
"""Bytes of the table of a LUT: results for the inputs -128 to 127, in this order."""


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


def illegal_combination(command: Command, config: Config) -> str | None:
    """Say why fields that are legal each are illegal together on a machine, or return None.

    The dispatcher checks the same and raises a FIELD fault.
    """
    if command.opcode != Opcode.CONV:
        return None
    depthwise, byte_step = command["depthwise"], command["byte_step"]
    if byte_step > config.array_size:
        return f"CONV.byte_step must be at most {config.array_size}, not {byte_step}"
    if byte_step and (depthwise or command["inner"] != Axis.X):
        return "CONV with a byte_step must not be depthwise and must have inner x"
    if depthwise and command["blocks"] != 1:
        return f"CONV.blocks must be 1 if depthwise, not {command['blocks']}"
    if depthwise and command["drain"] == Drain.RAW:
        return "CONV must not drain raw if depthwise"
    if depthwise and command["drain"] != Drain.KEEP and config.lanes < config.array_size:
        return "CONV must keep its sums if depthwise: there are too few requantizer lanes"
    return None


def dense(
    *, m: int, k_tiles: int, act_row: int = 0, act_pitch: int = 0, drain: int = 0, **fields: int
) -> dict[str, int]:
    """Return the fields of a CONV that multiplies M vectors by a column of weight tiles.

    Parameters
    ----------
    m, k_tiles : int
        Vectors, and weight tiles along K.
    act_row, act_pitch : int
        Row of vector 0 of k-tile 0, and rows from a k-tile's activations to the next k-tile's.
    drain : int
        What happens after the last k-tile; output vectors lie one after the other.
    fields : int
        Other fields.
    """
    return {
        "rows": 1,
        "columns": m,
        "stride_y": 1,
        "stride_x": 1,
        "act_row": act_row,
        "act_block_pitch": act_pitch,
        "height": 1,
        "width": m,
        "blocks": k_tiles,
        "kernel_rows": 1,
        "kernel_columns": 1,
        "dilation_y": 1,
        "dilation_x": 1,
        "drain": drain,
        "out_step": RAW_ROWS if drain == Drain.RAW else 1,
        **fields,
    }


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
