"""Layouts of commands and of their parameters: every bit, written once.

The compiler packs these tables, the golden machine unpacks them, the RTL turns them into Amaranth
layouts and checks, and ``scripts/gen_docs.py`` prints them.
"""

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.numerics import Rounding
from tpulite.arch.opcodes import Axis, Drain, Engine, Opcode, RecordForm, Scaling, VectorOp

__all__ = [
    "COMMANDS",
    "CONV",
    "END",
    "ENGINE_OF",
    "HEADER",
    "LOAD",
    "LUT_BYTES",
    "NORM",
    "OPERANDS",
    "RAW_ROWS",
    "RECORD",
    "STORE",
    "TOKEN_MAX",
    "VECTOR",
    "WORDS_BYTES",
]

RAW_ROWS = 4
"""Rows of a raw output vector: N int32 in rows of N bytes."""

TOKEN_MAX = 63
"""Largest value of a token counter: 6 bits."""


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
        Field("operation", 4, "What to compute.", enum=VectorOp, behind=1),
        Field("rows", 11, "Output rows.", minimum=1),
        Field("columns", 11, "Output columns.", minimum=1),
        Field("a_row", 14, "Row of operand A of output (0, 0)."),
        Field("a_pitch", 14, "Rows of the unified buffer, for A, from output row to output row."),
        Field("a_step", 14, "Rows, for A, from an output column to the next."),
        Field("window_rows", 8, "Rows of the window in A; only of MAX, SUM and NORM.", minimum=1),
        Field(
            "window_columns", 8, "Columns of the window, adjacent rows of the buffer.", minimum=1
        ),
        Field("window_pitch", 14, "Rows of the unified buffer from window row to window row."),
        Field("b_row", 14, "Row of operand B of output (0, 0); unused by operations of A alone."),
        Field("b_pitch", 14, "Rows, for B, from output row to output row; 0 broadcasts."),
        Field("b_step", 14, "Rows, for B, from an output column to the next; 0 broadcasts."),
        Field("out_row", 14, "Row of output (0, 0)."),
        Field("out_pitch", 14, "Rows from output row to output row."),
        Field("out_step", 14, "Rows from an output column to the next."),
        Field("param_row", 14, "First row of the parameters; unused by COPY and MAX."),
        Field("low", 8, "Smallest result: smaller bytes become it.", signed=True),
        Field("high", 8, "Largest result: larger bytes become it.", signed=True),
        Field(
            "tail",
            5,
            "Channels that count of the last vector of a window, less than N; 0: all. Only of MAX "
            "and NORM.",
        ),
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

WORDS_BYTES = 4 * LUT_BYTES
"""Bytes of the words of NORM and SHARE, one of 32 bits for each difference of 0 to 255.

First the lowest bytes of all words, then the second ones, and so on: four tables."""

NORM = Layout(
    "Norm",
    (
        Field("maximum", 8, "Largest byte of B.", signed=True),
        Field("shift", 8, "Exponent that belongs to the multiplier.", signed=True),
        Field("unused", 16, "Zeros."),
        Field("multiplier", 31, "Reciprocal of the sum."),
    ),
    "What NORM makes of a window: the first bytes of a row of zeros, if nothing is clamped.",
)
