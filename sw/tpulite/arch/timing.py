"""What commands cost in cycles: every latency, depth and pace of the machine, written once.

The RTL takes its stages and depths from here; the other latencies follow from its registers, and
the benches hold :func:`tpulite.golden.timing.predict` to the chip. Every cost in software is made
of these numbers: the timeline follows them event by event, the compiler's costs add them up. Times
of the memory are in :mod:`tpulite.arch.memory`. Functions take plain integers; N is the array size.

A cost of a program begins with :data:`FIRST_ROW`; that of products needs :func:`conv_cycles`,
:func:`conv_latency` and :func:`turnaround`; that of elementwise layers :func:`vector_overhead` and
:func:`vector_pace`; transfers take :func:`row_cycles` a row, after :data:`LOAD_LATENCY`.
"""

from collections.abc import Mapping

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.effects import WINDOWED, parameter_rows, tile_rows
from tpulite.arch.layouts import RAW_ROWS
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.arch.opcodes import Drain, VectorOp
from tpulite.arch.streams import conv_stream

# Commands on their way to the engines.

COMMAND_BEATS = COMMAND_BYTES // BEAT_BYTES
"""Beats, and so cycles, in which a command is fetched (``cp.command_fetch``)."""

COMMAND_CHECK = 1
"""Cycles in which a command that has come is checked (``cp.command_fetch``)."""

FETCHED_COMMANDS = 16
"""Commands that the fetch buffer holds, if bursts are not longer (``cp.command_fetch``)."""

FETCH_BURST = 2
"""From a burst of commands that is requested, or a command that makes room for one, to the next
request (``cp.command_fetch``)."""

DISPATCH = 1
"""From the dispatch of a command, one a cycle, to its earliest start (``cp.dispatcher``)."""

DMA_COMMAND = 1
"""From a command's way into LOAD or STORE to its earliest start (``dma.burst_splitter``)."""

TOKEN_RETURN = 2
"""From taking a token to a token that waited because the counter was full
(``cp.token_counters``)."""

END = 1
"""From the last thing that happens to the interrupt (``cp.run_control``)."""

# Register slices.

AXI_SLICES = 2
"""From a request to its answer, if there are any: one on the way to the memory, one back
(``bus.axi_ports``)."""

# The unified buffer.

ROW_READ = 2
"""From the acceptance of a row's read to its data; one more with ``ram_registers``
(``ub.unified_buffer``)."""

STARVED = 16
"""Refusals in a row after which a port wins once (``ub.unified_buffer``)."""

# LOAD.

LOAD_ADDRESS = 2
"""From the start of a LOAD to its first address (``dma.burst_splitter``)."""

LOAD_SLACK = 2
"""Rows that wait for their bank before beats must wait, beyond the one on its way
(``dma.unpacker``)."""

LOAD_TOKEN = 2
"""From the last row of a LOAD to its token."""

LOAD_LATENCY = LOAD_ADDRESS + REFERENCE_MEMORY.read_latency + 1
"""From the start of a LOAD to its first row, if a row is one beat."""

_FIRST_COMMAND = REFERENCE_MEMORY.read_latency + COMMAND_BEATS + COMMAND_CHECK + DISPATCH

FIRST_ROW = _FIRST_COMMAND + DMA_COMMAND + LOAD_LATENCY
"""From the start of a program to the first row of its first LOAD: nothing can be there before."""

# STORE.

STORE_REQUEST = 3
"""From the start of a STORE to the request of its first row (``dma.row_reader``)."""

STORE_ANSWER = ROW_READ + 1 + REFERENCE_MEMORY.write_response
"""From the request of a row that ends a burst to the response, without ``ram_registers``."""

STORE_TOKEN = 2
"""From the last response of a STORE to its token."""

# The matrix unit.

PREPARATION = 8
"""From a command at the head of the queue to its earliest start (``mxu.preparation``)."""

MXU_NEXT = 2
"""From the acceptance of a command to the next one at the head of the queue (``mxu.intake``)."""

MXU_OFFER = 2
"""From a command's way into the image walker to its first slot (``mxu.image_walker``)."""

ARRAY = 2
"""Beyond 2 N and the row's read, the way through the array: from a slot to its sum beside the
accumulators (``mxu.systolic_array``, ``mxu.accumulator``)."""

REQUANTIZER_LANE = 7
"""Stages of a lane of the requantizer (``vpu.requantizer_lane``)."""

REQUANTIZER = 1 + REQUANTIZER_LANE
"""From a sum to its row, with a lane for each channel (``vpu.requantizer``)."""

RECORDS = 1
"""From the request of the last record row until the block may be used (``vpu.record_loader``)."""

MXU_TOKEN = 1
"""From the row of a CONV's last sum, or that sum beside the accumulators, to its token."""

# The vector path.

VECTOR_REQUEST = 2
"""From the start of a VECTOR to the request of its first row (``vpu.vector_addresses``)."""

ELEMENTWISE = 5
"""Stages of elementwise arithmetic before the requantizer (``vpu.elementwise_lane``)."""

DIRECT = 3
"""From the data of the last row of a vector to its result, for COPY and MAX (``vpu.operand_port``,
``vpu.window_reducer``)."""

TABLE = 2
"""Beyond :data:`DIRECT`, for LUT (``vpu.lookup_table``)."""

LANES = ELEMENTWISE + REQUANTIZER_LANE
"""Beyond :data:`DIRECT`, for all operations that requantize (``vpu.vector_lanes``)."""

NORM_STEPS = 9
"""Stages of NORM beside the divider (``vpu.word_lanes``)."""

DIVIDER = 22
"""Cycles from a sum to its reciprocal (``vpu.divider``)."""

DIVIDER_INTERVAL = 7
"""Cycles from a sum to the next one (``vpu.divider``)."""

NORM = NORM_STEPS + DIVIDER
"""Beyond :data:`DIRECT`, for NORM, from its last channels (``vpu.vector_lanes``)."""

VECTOR_TOKEN = 2
"""From the last row of a VECTOR to its token, and to the start of the next one."""


def fetch_buffer(config: Config) -> int:
    """Return the commands that the fetch buffer holds."""
    return max(FETCHED_COMMANDS, config.burst_beats)


def row_read(config: Config) -> int:
    """Return the cycles from the acceptance of a row's read to its data."""
    return ROW_READ + config.ram_registers


def row_cycles(config: Config) -> int:
    """Return the cycles in which LOAD or STORE moves a row: one, or one for each of its beats."""
    return max(config.row_bytes // BEAT_BYTES, 1)


def tile_cycles(slots: int, config: Config, int4: int = 0) -> int:
    """Return the cycles from a k-tile to the next: the weights take one a row, N or N / 2."""
    return max(slots, tile_rows(int4, config))


def store_beat(config: Config) -> int:
    """Return the cycles from the request of a row to its beat (``dma.packer``)."""
    return row_read(config) + 1


def tile_reused(config: Config) -> int:
    """Return the cycles from the first slot of a k-tile until its weights' first place is free."""
    return row_read(config) + 1  # weights enter the array as the slot's row comes


def sum_latency(config: Config) -> int:
    """Return the cycles from a slot to its sum beside the accumulators."""
    return 2 * config.array_size + row_read(config) + ARRAY


def drain_interval(drain: int, config: Config) -> int:
    """Return the cycles from a sum to the next one in the last k-tile of a CONV."""
    if drain == Drain.KEEP:
        return 1
    lanes = config.array_size // config.lanes
    return max(RAW_ROWS, lanes) if drain == Drain.RAW else lanes


def conv_cycles(fields: Mapping[str, int], config: Config) -> int:
    """Return the cycles that a CONV takes among others whose operands and tokens are there.

    No cycle is lost between k-tiles or commands. Records take their rows' cycles beside that.
    """
    tiles, fill, slots, *_ = conv_stream(fields, config)
    drained = 0
    if fields["drain"] != Drain.KEEP:
        drained = fields["rows"] * fields["columns"] * drain_interval(fields["drain"], config)
        drained += fill if fields["transposed"] else 0
    pace = tile_cycles(slots, config, fields["int4"])
    return (tiles - 1) * pace + max(pace, drained)


def conv_latency(drain: int, config: Config) -> int:
    """Return the cycles from the slot of a CONV's last sum to its token."""
    return sum_latency(config) + REQUANTIZER + drain_interval(drain, config) + MXU_TOKEN


def turnaround(config: Config) -> int:
    """Return the cycles from a CONV's last sum to the first slot of a CONV that waits for it.

    The sum goes to the buffer, a token to the next command, and its first weight tile to the array.
    """
    return conv_latency(Drain.REQUANTIZE, config) + config.array_size + 1


def vector_window(fields: Mapping[str, int]) -> int:
    """Return the rows of A that a VECTOR reads for each output vector."""
    windowed = fields["operation"] in WINDOWED
    return fields["window_rows"] * fields["window_columns"] if windowed else 1


def vector_pace(operation: int, config: Config) -> int:
    """Return the cycles in which the vector path computes a vector, its window being one row.

    A NORM takes them for each row, and never fewer than :data:`DIVIDER_INTERVAL` for a window.
    """
    if operation in (VectorOp.NORM, VectorOp.SHARE):
        return config.array_size // config.word_lanes
    if operation in (VectorOp.COPY, VectorOp.MAX):
        return 1
    return vector_turns(operation) * config.vector_cycles


def operand_rows(config: Config) -> int:
    """Return the rows that a port of the vector path holds.

    4 keep one row a cycle going, the others are for refusals. Twice as many wide rows are a RAM
    instead of registers.
    """
    return 8 if config.row_bytes < 16 else 16


def read_ahead(config: Config) -> int:
    """Return the cycles from the request of an operand's first row to when it is taken.

    Each row is asked for when the one :func:`operand_rows` before is taken (``vpu.operand_port``).
    """
    return row_read(config) + 2


def vector_turns(operation: int) -> int:
    """Return the turns of a lane for a channel: ADD and SUB scale A, then B."""
    return 2 if operation in (VectorOp.ADD, VectorOp.SUB) else 1


def vector_latency(operation: int, config: Config) -> int:
    """Return the cycles from the request of the last row of a vector to its result."""
    direct = row_read(config) + DIRECT
    if operation in (VectorOp.COPY, VectorOp.MAX):
        return direct
    if operation == VectorOp.NORM:
        return direct + NORM
    return direct + (TABLE if operation == VectorOp.LUT else LANES)


def vector_interval(operation: int, window: int, config: Config) -> int:
    """Return the cycles from an output vector to the next, with windows of so many rows."""
    pace = vector_pace(operation, config)
    return max(window * pace, DIVIDER_INTERVAL) if operation == VectorOp.NORM else max(window, pace)


def vector_overhead(operation: int, config: Config) -> int:
    """Return the cycles of a VECTOR beside its windows: the next one starts when it is complete.

    Examples
    --------
    >>> vector_overhead(VectorOp.COPY, Config()), vector_overhead(VectorOp.ADD, Config())
    (8, 22)
    """
    beside = VECTOR_REQUEST + vector_latency(operation, config) - 1 + VECTOR_TOKEN
    return beside + parameter_rows(operation, config)


def vector_cycles(operation: int, outputs: int, window: int, config: Config) -> int:
    """Return the cycles from the start of a VECTOR to that of the next one, if no bank is busy.

    Parameters
    ----------
    outputs, window : int
        Output vectors, and rows that are read for each.
    """
    pace = vector_pace(operation, config)
    if operation == VectorOp.NORM:
        between = (outputs - 1) * vector_interval(operation, window, config)
        return between + window * pace + vector_overhead(operation, config)
    vectors = max(outputs * window + pace, outputs * pace + window) - 1
    return vectors + vector_overhead(operation, config)
