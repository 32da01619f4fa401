"""The command that docs/isa.md works through, from its bytes to its cycles."""

from tpulite.arch import effects, isa, timing
from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.arch.streams import conv_stream

_FIELDS = {
    "wait": (1 << isa.Engine.LOAD, "The LOAD that brings the image gives a token."),
    "signal": (1 << isa.Engine.STORE, "The STORE of the result waits for the token of this CONV."),
    "prefetch": (1, "Weights and records were loaded long ago: fetch them before the token comes."),
    "rows": (8, "Output rows."),
    "columns": (8, "Output columns, so M = 8 × 8 = 64 vectors."),
    "stride_y": (1, "From an output row to the next: one image row."),
    "stride_x": (1, "From an output column to the next: one pixel."),
    "act_row": (256, "Channels 0 to 15 of pixel (0, 0) lie in row 256 of the buffer."),
    "act_pitch": (8, "An image row is 8 rows of the buffer: a vector for each pixel."),
    "act_block_pitch": (64, "Channels 16 to 31 lie 64 rows behind channels 0 to 15."),
    "height": (8, "Image rows; what is beyond is padding."),
    "width": (8, "Pixels in an image row."),
    "pad_top": (1, "One row of padding above the image,"),
    "pad_left": (1, "and one column at its left."),
    "pad": (-3, "Every byte of the padding: the input zero point."),
    "blocks": (2, "32 input channels are two blocks of 16."),
    "kernel_rows": (3, "A 3 × 3 kernel:"),
    "kernel_columns": (3, "nine taps."),
    "dilation_y": (1, "The taps are neighbors in y"),
    "dilation_x": (1, "and in x."),
    "weight_row": (1024, "First row of the weight tiles."),
    "drain": (isa.Drain.REQUANTIZE, "Complete sums become int8."),
    "record_form": (isa.RecordForm.SHORT, "All channels share one scale."),
    "record_row": (1400, "First row of the channel records."),
    "out_row": (512, "Row of output (0, 0)."),
    "out_pitch": (8, "From an output row to the next."),
    "out_step": (1, "From an output column to the next."),
}
"""Fields of the example that are not zero, in the order of the layout, and what they say."""


def worked_command() -> list[str]:
    """Return the section of docs/isa.md."""
    config = Config()
    command = isa.Command.make(
        isa.Opcode.CONV, **{name: value for name, (value, _) in _FIELDS.items()}
    )
    data = command.encode()
    assert isa.decode(data) == command
    assert isa.illegal_combination(command, config) is None
    return [
        "## One command, worked through",
        "",
        "A convolution with a 3 × 3 kernel, 8 × 8 pixels, 32 input and 16 output channels, on",
        f"the default machine (N = {config.array_size}). In DRAM it is {COMMAND_BYTES} bytes, the",
        "lowest address first:",
        "",
        *_dump(data),
        "",
        "Read as one little-endian number, a field is a range of its bits. The lowest four are the",
        *_example(command, data),
        "The disassembler writes it so, without the fields that are zero:",
        "",
        *_listing(command),
        "",
        "### Its fields",
        "",
        *_table(command, data),
        "### What the chip does",
        "",
        *_actions(command, config),
        "",
        "### How long it takes",
        "",
        *_cycles(command, config),
        "",
        "[Convolution as taps](learn/convolution.md) shows a smaller one cycle by cycle.",
        "",
    ]


def _dump(data: bytes) -> list[str]:
    """Return the bytes, 16 a line."""
    lines = [data[start : start + 16] for start in range(0, len(data), 16)]
    return [f"    {16 * i:02x}: {line.hex(' ')}" for i, line in enumerate(lines)]


def _example(command: isa.Command, data: bytes) -> list[str]:
    """Return how two fields are taken out of the word."""
    layout = isa.COMMANDS[command.opcode]
    word, low = int.from_bytes(data, "little"), layout.offsets()["columns"]
    field = next(field for field in layout.fields if field.name == "columns")
    mask = (1 << field.width) - 1
    assert word >> low & mask == command["columns"]
    return [
        f"opcode, {word & 15} = {command.opcode.name}; `columns` has {field.width} bits from",
        f"bit {low}: (word >> {low}) & 0x{mask:X} = {command['columns']}.",
    ]


def _listing(command: isa.Command) -> list[str]:
    """Return the command as text, in lines of at most 92 columns."""
    lines = ["   "]
    for word in isa.disassemble(command).split():
        if len(lines[-1]) + len(word) >= 92:
            lines.append("           ")
        lines[-1] += f" {word}"
    return lines


def _table(command: isa.Command, data: bytes) -> list[str]:
    layout = isa.COMMANDS[command.opcode]
    word, offsets = int.from_bytes(data, "little"), layout.offsets()
    names = isa.named_fields(command)
    assert list(names) == list(_FIELDS), "the example has other fields"
    lines = [
        "| bits | field | bits of the word | value | here |",
        "| --- | --- | --- | --- | --- |",
    ]
    for field in layout.fields:
        if field.name not in names:
            continue
        low, high = offsets[field.name], offsets[field.name] + field.width - 1
        bits = word >> low & (1 << field.width) - 1
        place = f"{high}:{low}" if high > low else f"{low}"
        shown = f"`{bits:0{field.width}b}` | {names[field.name]} | {_FIELDS[field.name][1]}"
        lines.append(f"| {place} | `{field.name}` | {shown} |")
    return [*lines, ""]


def _actions(command: isa.Command, config: Config) -> list[str]:
    touched = effects.effects(command, config)
    tiles = effects.tile_count(command)
    weights = tiles * config.array_size
    records = len(touched.early) - weights
    reads = sorted(set(touched.reads))
    outside = tiles * command["rows"] * command["columns"] - len(touched.reads)
    return [
        f"1. It reads {tiles} weight tiles (2 blocks × 9 taps) of {config.array_size} rows, "
        f"rows {_span(touched.early[:weights])}",
        f"   of the buffer, and {records} rows of channel records, "
        f"{_span(touched.early[weights:])}. With `prefetch` it begins",
        "   before its token comes, two tiles ahead of the array.",
        "2. For each tile it reads the 64 vectors under that tap, "
        f"{len(touched.reads):,} in all, from rows {_span(reads)}.",
        f"   The other {outside} lie in the padding: all their bytes are {command['pad']}.",
        "3. The array multiplies. The sums of the first tile overwrite accumulator rows",
        f"   {_span(touched.accumulators)}; those of the next {tiles - 2} are added; the last ones "
        "are added on their way into the",
        "   requantizer.",
        f"4. {len(touched.writes)} vectors of int8 are written to rows {_span(touched.writes)}. "
        "After the last one STORE gets its token.",
    ]


def _span(rows) -> str:
    """Return the first and the last row of consecutive ones."""
    assert list(rows) == list(range(rows[0], rows[-1] + 1))
    return f"{rows[0]:,} to {rows[-1]:,}"


def _cycles(command: isa.Command, config: Config) -> list[str]:
    n = config.array_size
    stream = conv_stream(command.fields, config)
    total = timing.conv_cycles(command.fields, config)
    latency = timing.conv_latency(command["drain"], config)
    channels = command["blocks"] * n
    macs = stream.tiles * stream.slots * n * n
    moved = stream.tiles * n * n
    return [
        f"- A tile takes max(M, N) = max({stream.slots}, {n}) = "
        f"{timing.tile_cycles(stream.slots, config)} cycles; {stream.tiles} tiles take "
        f"**{total:,} cycles**, without a gap.",
        f"- From the last vector's read to the token it takes {latency} cycles more "
        "(`conv_latency`): the way through the",
        f"  array, {timing.sum_latency(config)} to the accumulators, and the requantizer, "
        f"{timing.REQUANTIZER}. The next CONV does not wait for them",
        "  unless it reads the result.",
        f"- {stream.slots} outputs × 9 taps × {channels} × {n} channels are {macs:,} MACs, "
        f"{macs // total} in each cycle: {macs / total / n**2:.0%} of the {n**2} multipliers,",
        "  products with padding included.",
        f"- The weights are {moved:,} bytes, {moved // 16:,} cycles of DRAM after "
        f"{REFERENCE_MEMORY.read_latency} of latency: LOAD has time for the next layer's",
        "  weights while this one computes.",
    ]
