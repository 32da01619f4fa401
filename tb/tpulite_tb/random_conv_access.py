"""What a CONV reads and writes, by a walk through it vector by vector."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Command, Drain, RecordForm

__all__ = ["ConvAccess", "conv_access", "early_rows", "tile_count"]


@dataclass(frozen=True)
class ConvAccess:
    """Rows that a CONV reads and writes, in order.

    ``before`` says how many reads have surely happened at each write.
    """

    reads: list[int]
    writes: list[int]
    before: list[int]


def tile_count(command: Command) -> int:
    """Return the weight tiles of a CONV."""
    taps = command["kernel_rows"] * command["kernel_columns"]
    return 1 if command["depthwise"] else command["blocks"] * taps


def early_rows(command: Command, config: Config) -> list[int]:
    """Return the rows of a CONV's weights and records."""
    weights, records = command["weight_row"], command["record_row"]
    rows = list(range(weights, weights + tile_count(command) * config.array_size))
    if command["drain"] == Drain.REQUANTIZE:
        count = 16
        if command["record_form"] == RecordForm.SHORT:
            count = max(1, 16 // config.array_size) + 4
        rows += range(records, records + count)
    return rows


def conv_access(command: Command, config: Config) -> ConvAccess:
    """Walk through a CONV vector by vector."""
    c, size = command.fields, config.array_size
    reads: list[int] = []

    def read(block: int, y: int, x: int) -> None:
        y, x = y - c["pad_top"], x - c["pad_left"]
        if 0 <= y < c["height"] and 0 <= x < c["width"]:
            reads.append(c["act_row"] + block * c["act_block_pitch"] + y * c["act_pitch"] + x)

    order: list[tuple[int, int]] = []
    before: list[int] = []
    if c["depthwise"]:
        names = (("columns", "stride_x", "kernel_columns"), ("rows", "stride_y", "kernel_rows"))
        (v, s_i, k_i), (u, s_o, k_o) = (
            [c[name] for name in axis] for axis in (names if c["inner"] == Axis.X else names[::-1])
        )
        inner = (v - 1) * s_i + k_i
        last_tap = max(
            inner * o + i for o in range(k_o) for i in range(k_i) if inner * o + i < size
        )
        complete = {o * s_o * inner + i * s_i + last_tap for o in range(u) for i in range(v)}
        for o in range((u - 1) * s_o + k_o):
            for i in range(inner):
                y, x = (o, i) if c["inner"] == Axis.X else (i, o)
                read(0, y * c["dilation_y"], x * c["dilation_x"])
                if o * inner + i in complete:
                    before.append(len(reads))
        order = [(o, i) if c["inner"] == Axis.X else (i, o) for o in range(u) for i in range(v)]
    else:
        ys, xs = range(c["rows"]), range(c["columns"])
        if c["inner"] == Axis.X:
            order = [(oy, ox) for oy in ys for ox in xs]
        else:
            order = [(oy, ox) for ox in xs for oy in ys]
        for tile in range(tile_count(command)):
            taps, kx = divmod(tile, c["kernel_columns"])
            block, ky = divmod(taps, c["kernel_rows"])
            before = []
            for oy, ox in order:
                y, x = oy * c["stride_y"] + ky * c["dilation_y"], kx * c["dilation_x"]
                if c["byte_step"]:
                    x += ox * c["byte_step"] // size
                    read(block, y, x)
                    read(block, y, x + 1)
                else:
                    read(block, y, x + ox * c["stride_x"])
                before.append(len(reads))
    each = {Drain.KEEP: 0, Drain.REQUANTIZE: 1, Drain.RAW: RAW_ROWS}[Drain(c["drain"])]
    starts = [c["out_row"] + oy * c["out_pitch"] + ox * c["out_step"] for oy, ox in order]
    writes = [start + i for start in starts for i in range(each)]
    return ConvAccess(reads, writes, [count for count in before for _ in range(each)])
