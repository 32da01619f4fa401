"""Layouts of commands and of their parameters: every bit, written once.

The compiler packs these tables, the golden machine unpacks them, the RTL turns them into Amaranth
layouts and checks, and ``scripts/gen_docs.py`` prints them.
"""

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.numerics import Rounding
from tpulite.arch.opcodes import Axis, Drain, Engine, Opcode, RecordForm, Scaling, VectorOp

RAW_ROWS = 4
"""Rows of a raw output vector: N int32 in rows of N bytes."""

BYTE_STEPS = 32
"""Values of a byte step. The 32 bytes of the widest row are a stride of one vector, and no step."""

TOKEN_MAX = 63
"""Largest value of a token counter: 6 bits."""


_ENGINES = "bit e names engine e: 0 LOAD, 1 STORE, 2 MXU, 3 VPU"

HEADER = (
    Field("opcode", 4, "The command.", enum=Opcode),
    Field("wait", 4, f"Wait for one token from each named engine before the start; {_ENGINES}."),
    Field(
        "signal",
        4,
        f"Send one token to each named engine when all effects are visible; {_ENGINES}.",
    ),
)

_TRANSFER = (
    *HEADER,
    Field("flip", 1, "Invert the top bit of every byte: uint8 becomes int8 and back."),
    Field("window", 2, "DRAM window."),
    Field("offset", 32, "Offset of the first line in the window, in bytes.", multiple=BEAT_BYTES),
    Field("stride", 32, "Distance between lines in DRAM, in bytes.", multiple=BEAT_BYTES),
    Field("lines", 12, "Number of lines.", minimum=1),
    Field("rows", 15, "Length of a line, in rows of the unified buffer.", minimum=1),
    Field("row", 14, "First row of the first line in the unified buffer."),
    Field("pitch", 14, "Distance between lines, in rows of the unified buffer."),
)

LOAD = Layout("LOAD", _TRANSFER, "Copy lines of rows from DRAM into the unified buffer.")

STORE = Layout(
    "STORE",
    _TRANSFER,
    "Copy lines of rows from the unified buffer to DRAM, exact to the byte. STORE is complete when "
    "the last write response has arrived.",
)

CONV = Layout(
    "CONV",
    (
        *HEADER,
        Field(
            "prefetch",
            1,
            "Weights and records may be read as soon as the MXU's previous command has started, "
            "before this command has its tokens.",
        ),
        Field("depthwise", 1, "Each column convolves its own channel: the column-bus mode."),
        Field("inner", 1, "Innermost axis of the output loop.", enum=Axis),
        Field(
            "byte_step",
            5,
            "0: consecutive columns are `stride_x` vectors apart. 1 to N: dense mode; consecutive "
            "columns are so many bytes apart, and a vector is any N consecutive bytes of an input "
            "row.",
        ),
        Field(
            "int4",
            1,
            "Weights are int4: byte n of row j of a tile has weight n of input channel 2j in its "
            "lower half, and that of 2j + 1 in its upper half. Only on machines with int4.",
        ),
        Field("rows", 11, "Output rows.", minimum=1),
        Field("columns", 11, "Output columns.", minimum=1),
        Field("stride_y", 4, "Vertical stride.", minimum=1),
        Field("stride_x", 4, "Horizontal stride; with `int16` that of pairs.", minimum=1),
        Field("act_row", 14, "Row of the input's vector (0, 0) of block 0."),
        Field("act_pitch", 14, "Distance between input rows, in rows of the unified buffer."),
        Field("act_block_pitch", 14, "Distance between channel blocks, in rows."),
        Field("height", 11, "Rows of the input; outside of it is padding.", minimum=1),
        Field("width", 11, "Vectors in a row of the input; outside of it is padding.", minimum=1),
        Field("pad_top", 5, "Padding rows above the input."),
        Field("pad_left", 5, "Padding vectors left of the input."),
        Field("pad", 8, "Value of padding: the input zero point.", signed=True),
        Field("blocks", 11, "Number of channel blocks.", minimum=1),
        Field("kernel_rows", 4, "Kernel rows.", minimum=1),
        Field("kernel_columns", 4, "Kernel columns.", minimum=1),
        Field("dilation_y", 4, "Vertical dilation.", minimum=1),
        Field("dilation_x", 4, "Horizontal dilation.", minimum=1),
        Field(
            "weight_row",
            14,
            "First row of the weight tiles: k_tiles x N consecutive rows, or x N / 2 with `int4`.",
        ),
        Field("weight_zero_point", 8, "Subtracted from every weight.", signed=True),
        Field("acc_row", 10, "Row of the first output vector in the accumulator buffer."),
        Field(
            "accumulate", 1, "Add to the accumulators; otherwise the first k-tile overwrites them."
        ),
        Field(
            "drain",
            2,
            "Destination of the sums after the last k-tile. Draining leaves the accumulators "
            "undefined.",
            enum=Drain,
        ),
        Field("record_form", 1, "Form of the channel records.", enum=RecordForm),
        Field("record_row", 14, "First row of the channel records; unused unless requantizing."),
        Field("out_row", 14, "Row of output vector (0, 0); unused if the sums are kept."),
        Field("out_pitch", 14, "Distance between output rows, in rows of the unified buffer."),
        Field("out_step", 14, "Distance between output columns, in rows."),
        Field(
            "int16",
            1,
            "Columns come in pairs, which are vectors of int16: the upper bytes, then the lower "
            "bytes with their top bits inverted. Only on machines with int16.",
        ),
        Field(
            "transposed",
            1,
            "Weight tiles are transposed: the first of N rows has the weights of output channel 0, "
            "for all N input channels. Only on machines with transposed_tiles.",
        ),
        Field(
            "digit",
            2,
            "With `int16`: products count 256**digit times. So weights can have several digits, "
            "one to a command.",
        ),
    ),
    "Convolve a feature map with one n-block of N output channels and accumulate. After the last "
    "k-tile, `drain` selects the destination of the sums. The k-tiles run over channel "
    "blocks, then "
    "kernel rows, then kernel columns. A matrix product is a 1 x 1 convolution of a feature "
    "map with "
    "one row.",
)

VECTOR = Layout(
    "VECTOR",
    (
        *HEADER,
        Field("operation", 4, "The operation.", enum=VectorOp, behind=1),
        Field("rows", 11, "Output rows.", minimum=1),
        Field("columns", 11, "Output columns.", minimum=1),
        Field("a_row", 14, "Row of operand A of output (0, 0)."),
        Field("a_pitch", 14, "Distance in A between output rows, in rows of the unified buffer."),
        Field("a_step", 14, "Distance in A between output columns, in rows."),
        Field("window_rows", 8, "Rows of the window in A; only MAX, SUM and NORM.", minimum=1),
        Field(
            "window_columns", 8, "Columns of the window, in adjacent rows of the buffer.", minimum=1
        ),
        Field("window_pitch", 14, "Distance between window rows, in rows of the buffer."),
        Field("b_row", 14, "Row of operand B of output (0, 0); unused by unary operations."),
        Field("b_pitch", 14, "Distance in B between output rows, in rows; 0 broadcasts."),
        Field("b_step", 14, "Distance in B between output columns; 0 broadcasts."),
        Field("out_row", 14, "Row of output (0, 0)."),
        Field("out_pitch", 14, "Distance between output rows, in rows."),
        Field("out_step", 14, "Distance between output columns, in rows."),
        Field("param_row", 14, "First row of the parameters; unused by COPY and MAX."),
        Field("low", 8, "Lower clamp of the result.", signed=True),
        Field("high", 8, "Upper clamp of the result.", signed=True),
        Field(
            "tail",
            5,
            "Number of valid channels in the last vector of a window, less than N; 0: all. Only "
            "MAX and NORM.",
        ),
    ),
    "Compute output vectors from vectors of the unified buffer and clamp every int8 to "
    "[low, high]. The operation determines the parameters.",
)

END = Layout(
    "END",
    HEADER[:1],
    "Wait until every engine is idle and every write has its response, then raise the interrupt.",
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
        Field("shift", 8, "Exponent of the multiplier.", signed=True),
        Field("rounding", 3, "Rounding of the scaled sum.", enum=Rounding),
        Field("zero_point", 8, "Added after scaling.", signed=True),
        Field("low", 8, "Smallest result.", signed=True),
        Field("high", 8, "Largest result.", signed=True),
        Field(
            "gain",
            16,
            "Factor of AFFINE; of a CONV with `int16` the upper bytes of `low`, then of `high`; "
            "ignored elsewhere.",
            signed=True,
        ),
    ),
    "Channel record, 16 bytes: the requantization of one output channel. In the short form "
    "the bias "
    "of the common record is ignored.",
)

OPERANDS = Layout(
    "Operands",
    (
        Field("a_zero_point", 8, "Subtracted from A.", signed=True),
        Field("b_zero_point", 8, "Subtracted from B.", signed=True),
        Field(
            "a_multiplier",
            31,
            "Multiplier of A. This and the following fields are used by ADD and SUB only.",
        ),
        Field("a_shift", 5, "Right shift of A."),
        Field("b_multiplier", 31, "Multiplier of B."),
        Field("b_shift", 5, "Right shift of B."),
        Field("scaling", 1, "Scaling of the operands.", enum=Scaling),
    ),
    "Preprocessing of the operands of VECTOR, 16 bytes.",
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
        Field("shift", 8, "Exponent of the multiplier.", signed=True),
        Field("unused", 16, "Zeros."),
        Field("multiplier", 31, "Reciprocal of the sum."),
    ),
    "The result of NORM for a window: the first bytes of an otherwise zero row, if nothing is "
    "clamped.",
)
