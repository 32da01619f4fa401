"""Ways to go wrong: commands and memory errors while bursts are outstanding, and the reports."""

from dataclasses import dataclass, field

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import LOAD, RECORD, Command, Drain, Engine, Opcode, VectorOp, dense
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.registers import Fault
from tpulite_tb.machines import FEW_LANES, SMALL

__all__ = [
    "CASES",
    "DRAM_BYTES",
    "END",
    "INPUT",
    "OUTPUT",
    "PROGRAM",
    "TO_LOAD",
    "TO_MXU",
    "TO_STORE",
    "TO_VPU",
    "WINDOWS",
    "Case",
    "conv",
    "load",
    "traffic",
    "vector",
]

DRAM_BYTES = 1 << 16
PROGRAM, INPUT, OUTPUT = 0x1000, 0x4000, 0x8000
SIZE = 0x800
WINDOWS = (
    WindowBinding(INPUT, SIZE, read=True),
    WindowBinding(INPUT, SIZE, read=True),
    WindowBinding(OUTPUT, SIZE, write=True),
    WindowBinding(),
)
TO_LOAD, TO_STORE, TO_MXU, TO_VPU = (1 << engine for engine in Engine)


def load(**fields: int) -> Command:
    """Build a LOAD of four rows, unless told otherwise."""
    return Command.make(Opcode.LOAD, **{"window": Window.INPUT, "lines": 1, "rows": 4} | fields)


def store(**fields: int) -> Command:
    """Build a STORE of four rows, unless told otherwise."""
    return Command.make(Opcode.STORE, **{"window": Window.OUTPUT, "lines": 1, "rows": 4} | fields)


def conv(*, m: int = 4, k_tiles: int = 1, **fields: int) -> Command:
    """Build a CONV that multiplies four vectors by one weight tile, unless told otherwise."""
    return Command.make(Opcode.CONV, **dense(m=m, k_tiles=k_tiles, **fields))


def vector(operation: VectorOp = VectorOp.COPY, **fields: int) -> Command:
    """Build a VECTOR of one output, unless told otherwise."""
    ones = ("rows", "columns", "window_rows", "window_columns", "a_step", "b_step", "out_step")
    bounds = {"low": -128, "high": 127}
    fields = dict.fromkeys(ones, 1) | bounds | fields
    return Command.make(Opcode.VECTOR, operation=operation, **fields)


def traffic(rows: int) -> list[Command]:
    """Half the buffer in, out again, and the other half in: bursts of both kinds for a while."""
    half = rows // 2
    return [
        load(signal=TO_STORE, rows=half),
        store(wait=TO_LOAD, rows=half),
        load(row=half, rows=half),
    ]


END = Command.make(Opcode.END)
AT = 3
"""Index of the command that is at fault, unless traffic itself is hit."""


@dataclass(frozen=True)
class Case:
    """A way to go wrong: what to run, what of memory fails, what to expect."""

    code: Fault
    bad: tuple[Command, ...] = ()
    index: int = AT
    address: int = 0
    word: int | None = None  # raw bits of the command at fault
    read_errors: tuple[range, ...] = ()
    write_errors: tuple[range, ...] = ()
    length: int | None = None
    watchdog: int = 2000
    config: Config = field(default=SMALL)


ADDRESS = PROGRAM + COMMAND_BYTES * AT
LEGAL = int.from_bytes(load().encode(), "little")
CASES = {
    "opcode": Case(Fault.OPCODE, word=0, address=ADDRESS),
    "field": Case(Fault.FIELD, word=LEGAL & ~(0xFFF << LOAD.offsets()["lines"]), address=ADDRESS),
    "unused_bit": Case(Fault.FIELD, word=LEGAL | 1 << 255, address=ADDRESS),
    "window_end": Case(Fault.WINDOW, (load(offset=SIZE - 16, rows=8),), address=INPUT + SIZE - 16),
    "window_second_line": Case(Fault.WINDOW, (load(lines=2, stride=SIZE),), address=INPUT + SIZE),
    "window_not_readable": Case(Fault.WINDOW, (load(window=Window.OUTPUT),), address=OUTPUT),
    "window_closed": Case(Fault.WINDOW, (load(window=Window.SCRATCH),), address=0),
    "window_not_writable": Case(Fault.WINDOW, (store(window=Window.INPUT),), address=INPUT),
    "window_store_end": Case(Fault.WINDOW, (store(offset=SIZE),), address=OUTPUT + SIZE),
    "buffer_load": Case(Fault.BUFFER, (load(row=253),), address=256),
    "buffer_load_second_line": Case(
        Fault.BUFFER, (load(row=128, lines=2, pitch=125),), address=256
    ),
    "buffer_store": Case(Fault.BUFFER, (store(row=254),), address=257),
    "field_combination": Case(
        Fault.FIELD,
        word=int.from_bytes(conv(depthwise=1, drain=Drain.RAW).encode(), "little"),
        address=ADDRESS,
    ),
    "byte_step": Case(
        Fault.FIELD, word=int.from_bytes(conv(byte_step=5).encode(), "little"), address=ADDRESS
    ),
    "buffer_operand_a": Case(Fault.BUFFER, (vector(columns=2, a_row=255),), address=256),
    "buffer_operand_b": Case(
        Fault.BUFFER,
        (vector(VectorOp.ADD, columns=4, b_row=100, b_step=52, param_row=8),),
        address=256,
    ),
    "buffer_result": Case(Fault.BUFFER, (vector(columns=2, out_row=255),), address=256),
    "buffer_result_before_operand": Case(
        Fault.BUFFER, (vector(a_row=300, out_row=299),), address=299
    ),
    "buffer_window": Case(
        Fault.BUFFER,
        (
            vector(
                VectorOp.MAX, a_row=200, window_rows=3, window_columns=2, window_pitch=28, columns=9
            ),
        ),
        address=256,
    ),
    "buffer_parameters": Case(
        Fault.BUFFER, (vector(VectorOp.LUT, param_row=200, out_row=300),), address=263
    ),
    "buffer_accumulators": Case(Fault.BUFFER, (conv(acc_row=61),), address=64),
    "buffer_weights": Case(Fault.BUFFER, (conv(weight_row=250, k_tiles=2),), address=257),
    "buffer_records": Case(
        Fault.BUFFER, (conv(drain=Drain.REQUANTIZE, record_row=245),), address=260
    ),
    "buffer_parameters_far": Case(
        Fault.BUFFER, (vector(VectorOp.LUT, param_row=16383),), address=16446
    ),
    "buffer_output": Case(Fault.BUFFER, (conv(drain=Drain.RAW, out_row=241),), address=256),
    "buffer_image": Case(Fault.BUFFER, (conv(k_tiles=3, act_row=200, act_pitch=50),), address=303),
    "buffer_image_far": Case(
        Fault.BUFFER, (conv(k_tiles=3, act_row=200, act_pitch=16383),), address=32969
    ),
    "buffer_image_unread": Case(
        # Of the declared image only the first row is read.
        Fault.BUFFER,
        (conv(height=9, act_row=200).replace(act_pitch=8),),
        address=267,
    ),
    "read_error": Case(
        # Both LOADs read these bytes; the first one is hit.
        Fault.READ,
        index=0,
        address=INPUT + 256,
        read_errors=(range(INPUT + 272, INPUT + 288),),
    ),
    "write_error": Case(
        Fault.WRITE,
        index=1,
        address=OUTPUT + 256,
        write_errors=(range(OUTPUT + 256, OUTPUT + 257),),
    ),
    "fetch_error": Case(Fault.FETCH, address=ADDRESS, read_errors=(range(ADDRESS, ADDRESS + 16),)),
    "watchdog": Case(Fault.WATCHDOG, (conv(wait=TO_VPU),)),
    "full_counter": Case(
        Fault.WATCHDOG,
        (vector(a_row=200, out_row=201, signal=TO_VPU),) * 64,
        index=AT + 63,
    ),
    "full_counter_of_the_mxu": Case(Fault.WATCHDOG, (conv(signal=TO_MXU),) * 70, index=AT + 63),
    "two_faults_the_older_counts": Case(
        Fault.BUFFER,
        (conv(act_row=254), conv(acc_row=61)),
        address=257,
    ),
    "overrun": Case(Fault.OVERRUN, length=AT, address=PROGRAM + COMMAND_BYTES * AT),
    "record": Case(
        Fault.RECORD,
        (conv(m=8, drain=Drain.REQUANTIZE, record_row=8),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=FEW_LANES,
    ),
    "record_of_a_vector": Case(
        # Two rows of operands, then the record of channel 5.
        Fault.RECORD,
        (vector(VectorOp.MUL, param_row=8 + 2 * 4),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=FEW_LANES,
    ),
    "record_of_an_affine": Case(
        Fault.RECORD,
        (vector(VectorOp.AFFINE, param_row=8),),
        address=8 + 2 * 5 + RECORD.offsets()["rounding"] // 64,
        config=FEW_LANES,
    ),
}
