"""What the vectors of a CONV are made from: the prepared command, and the slots of its stream.

docs/depthwise.md explains the stream of a depthwise CONV, and who does what for it.
"""

from amaranth.hdl import ShapeLike, signed
from amaranth.lib import data
from amaranth.utils import exact_log2

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import INDEX_BITS, field_shape, with_int4, with_int16
from tpulite_rtl.mxu.delay_lines import DELAY

__all__ = [
    "AXIS",
    "POSITION_BITS",
    "VECTOR_COMMAND",
    "slot_layout",
    "vector_command",
    "with_lines",
]

POSITION_BITS = 15
"""Width of a count of positions on an axis: 2047 outputs at stride 15 make 30,705."""

AXIS = data.StructLayout(
    {
        "last": POSITION_BITS,  # positions of the stream, less one
        "tail": field_shape(Opcode.CONV, "kernel_rows"),  # last positions at which no sum begins
        "period": field_shape(Opcode.CONV, "stride_y"),  # positions from a sum to the next
        "rows": ROW_BITS,  # rows of the buffer from a position to the next
    }
)
"""An axis of the output, as a stream of vectors sees it."""

_FIELDS = (
    *("drain", "record_form", "weight_zero_point", "pad", "depthwise", "inner", "byte_step"),
    *("height", "width", "pad_top", "pad_left", "dilation_y", "dilation_x", "act_block_pitch"),
)

VECTOR_COMMAND = data.StructLayout(
    {
        **{name: field_shape(Opcode.CONV, name) for name in _FIELDS},
        "index": INDEX_BITS,
        "dense": 1,
        "delay": DELAY,  # of the delay lines; 0 without them
        "inner_axis": AXIS,
        "outer_axis": AXIS,
        "step_y": field_shape(Opcode.CONV, "stride_y"),  # image rows from a position to the next
        "step_x": field_shape(Opcode.CONV, "stride_x"),
        "origin": ROW_BITS,  # row of the first position, as if the padding were in the buffer
        "tap_rows": ROW_BITS,  # rows of the buffer from a kernel row to the next
        "last_block": field_shape(Opcode.CONV, "blocks"),
        "last_kernel_row": field_shape(Opcode.CONV, "kernel_rows"),
        "last_kernel_column": field_shape(Opcode.CONV, "kernel_columns"),
    }
)
"""What the vectors need of a CONV, its products worked out. Rows are modulo 2**14."""


def vector_command(config: Config) -> data.StructLayout:
    """Return :data:`VECTOR_COMMAND` of a machine."""
    layout = with_int4(config, with_int16(config, VECTOR_COMMAND))
    if config.int4:  # whose bit is the top one of others' byte step
        steps = {"byte_step": field_shape(Opcode.CONV, "byte_step", config)}
        layout = data.StructLayout({**layout.members, **steps})
    if not config.has_transposed_tiles:
        return layout
    return data.StructLayout({**layout.members, "transposed": 1, "weight_row": ROW_BITS})


def with_lines(config: Config, shape: ShapeLike) -> ShapeLike:
    """Return a shape of what delay lines and their pairs need: nothing in a machine without."""
    return shape if config.has_delay_lines else 0


def slot_layout(config: Config) -> data.StructLayout:
    """Return what happens in one cycle of a stream of vectors."""
    return data.StructLayout(
        {
            "row": ROW_BITS,
            "read": 1,  # the vector at `row` of the buffer enters
            "enters": 1,  # a vector enters, of the buffer or of padding
            "emits": 1,  # the array's sum of this cycle counts
            "first": 1,  # it is the first one of a k-tile
            "claims": 1,  # it is the first one of a k-tile that needs channel records
            "reports": 1,  # it leaves the accumulators, or ends its command
            "paced": 1,  # it waits until the requantizer has time for it, or for its stream
            "raw": 1,
            "short": 1,
            "depthwise": 1,
            "dense": 1,
            "delay": with_lines(config, DELAY),
            "wide": with_lines(config, 1),  # lines of the kernel have five taps
            "pair": with_lines(config, 1),  # two vectors enter, of which `row` is the even one
            "odd_row": with_lines(config, ROW_BITS),
            "odd_read": with_lines(config, 1),  # the odd one is that at `odd_row`; else padding
            "lower": int(config.int16),  # it is the second one of a pair
            "transposed": int(config.has_transposed_tiles),  # weights of its k-tile are so
            "loads": int(config.has_transposed_tiles),  # what enters is a row of them
            **({"int4": 1} if config.int4 else {}),  # weights of its k-tile are so
            "shift": exact_log2(config.array_size),  # dense mode: first byte in the window
            "pad": signed(8),
            "zero_point": signed(8),
            "index": INDEX_BITS,
        }
    )
