"""What a VECTOR command does to the unified buffer, channel by channel in plain Python."""

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import (
    LUT_BYTES,
    NORM,
    OPERANDS,
    RECORD,
    WORDS_BYTES,
    Command,
    Scaling,
    VectorOp,
)
from tpulite.arch.numerics import Rounding, reciprocal, requantize, scale_accumulator, wrap32
from tpulite.arch.registers import Fault

__all__ = [
    "PAIRED",
    "REQUANTIZED",
    "SCALED",
    "WINDOWED",
    "Memory",
    "Outcome",
    "accumulators",
    "execute",
    "parameter_parts",
]

SCALED = (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL)
PAIRED = (*SCALED, VectorOp.NORM, VectorOp.SHARE)
REQUANTIZED = (*SCALED, VectorOp.SUM, VectorOp.AFFINE, VectorOp.SHARE)
WINDOWED = (VectorOp.MAX, VectorOp.SUM, VectorOp.NORM)

Memory = ChainMap[int, bytes]
"""Rows of the unified buffer that were written, over those that were there."""


@dataclass
class Outcome:
    """Rows in the order in which they are read and written, until a fault if there is one."""

    reads: list[tuple[str, int]] = field(default_factory=list)
    writes: list[tuple[int, bytes]] = field(default_factory=list)
    fault: tuple[Fault, int] | None = None


def parameter_parts(operation: VectorOp, config: Config) -> list[tuple[str, int]]:
    """Return the parts of an operation's parameters, and the bytes of each."""
    parts = []
    if operation in (VectorOp.NORM, VectorOp.SHARE):
        parts.append(("words", WORDS_BYTES))
    if operation in SCALED:
        parts.append(("operands", RECORD_BYTES))
    if operation in (*SCALED, VectorOp.SUM, VectorOp.SHARE):
        parts.append(("record", RECORD_BYTES))
    if operation == VectorOp.AFFINE:
        parts.append(("records", RECORD_BYTES * config.array_size))
    if operation == VectorOp.LUT:
        parts.append(("table", LUT_BYTES))
    return parts


def accumulators(
    operation: VectorOp, operands: dict[str, int], gains: Sequence[int], window, b: Sequence[int]
) -> list[int]:
    """Return what is requantized: one int32 for each channel of a window of A."""
    channels = list(zip(*window, strict=True))
    if operation == VectorOp.SUM:
        return [wrap32(sum(channel)) for channel in channels]
    if operation == VectorOp.AFFINE:
        return [gain * a for (a,), gain in zip(channels, gains, strict=True)]
    results = []
    for (a,), other in zip(channels, b, strict=True):
        x, y = a - operands["a_zero_point"], other - operands["b_zero_point"]
        if operation == VectorOp.MUL:
            results.append(x * y)
        else:
            sign = 1 if operation == VectorOp.ADD else -1
            results.append(wrap32(_scaled(x, "a", operands) + sign * _scaled(y, "b", operands)))
    return results


def execute(command: Command, buffer: Memory, config: Config) -> Outcome:
    """Execute a command on rows of bytes; change nothing, but see earlier vectors' results."""
    outcome = Outcome()
    buffer = buffer.new_child()
    operation = VectorOp(command["operation"])
    parts, row = {}, command["param_row"]
    for name, size in parameter_parts(operation, config):
        rows = -(-size // config.row_bytes)
        outcome.reads += [("a", row + i) for i in range(rows)]
        parts[name] = (row, size)
        row += rows
    if parts and row > config.ub_rows:
        return Outcome(fault=(Fault.BUFFER, row - 1))
    data = {
        name: b"".join(buffer[row + i] for i in range(-(-size // config.row_bytes)))[:size]
        for name, (row, size) in parts.items()
    }
    records: list[dict] = []
    if "record" in data:
        records = [_record(data["record"])] * config.array_size
    elif "records" in data:
        chunks = range(0, len(data["records"]), RECORD_BYTES)
        records = [_record(data["records"][i : i + RECORD_BYTES]) for i in chunks]
    known = [Rounding[name.upper()] for name in config.roundings]
    for channel, record in enumerate(records):
        if record["rounding"] not in known:
            base = parts.get("record") or parts["records"]
            byte = RECORD_BYTES * (channel if "records" in parts else 0)
            byte += RECORD.offsets()["rounding"] // 8
            outcome.fault = (Fault.RECORD, base[0] + byte // config.row_bytes)
            return outcome

    for out, window_rows, b_row in _walk(command, operation):
        wanted = [("out", out), *(("a", row) for row in window_rows)]
        if operation in PAIRED:
            wanted.insert(2, ("b", b_row))
        for name, row in wanted:
            if row >= config.ub_rows:
                outcome.fault = (Fault.BUFFER, row)
                return outcome
            if name != "out":
                outcome.reads.append((name, row))
        window = [_signed(buffer[row]) for row in window_rows]
        b = _signed(buffer[b_row]) if operation in PAIRED else []
        values = _values(command, window, b, data, records)
        row = bytes(min(max(v, command["low"]), command["high"]) % 256 for v in values)
        buffer[out] = row
        outcome.writes.append((out, row))
    return outcome


def _values(
    command: Command,
    window: list[list[int]],
    b: list[int],
    data: dict[str, bytes],
    records: list[dict],
) -> list[int]:
    """Return what an operation makes of a window of A and a vector of B."""
    operation = VectorOp(command["operation"])
    if operation == VectorOp.COPY:
        return window[0]
    if operation == VectorOp.MAX:
        last = [x if _counts(command, c) else -128 for c, x in enumerate(window[-1])]
        return [max(channel) for channel in zip(*window[:-1], last, strict=True)]
    if operation == VectorOp.LUT:
        return [_signed(data["table"])[a + 128] for a in window[0]]
    if operation == VectorOp.NORM:
        return _norm(command, window, b, data["words"])
    scalings = [{k: v for k, v in record.items() if k != "gain"} for record in records]
    if operation == VectorOp.SHARE:
        row = int.from_bytes(bytes(x % 256 for x in b), "little")
        norm = NORM.unpack(row & ((1 << NORM.width) - 1))
        own = {name: norm[name] for name in ("multiplier", "shift")}
        scalings = [scaling | own for scaling in scalings]
        sums = [wrap32(_word(data["words"], norm["maximum"] - a)) for a in window[0]]
    else:
        operands = OPERANDS.unpack(int.from_bytes(data.get("operands", b""), "little"))
        gains = [record["gain"] for record in records]
        sums = accumulators(operation, operands, gains, window, b)
    return [requantize(acc, **scaling) for acc, scaling in zip(sums, scalings, strict=True)]


def _counts(command: Command, channel: int) -> bool:
    """Whether a channel of the last vector of a window is before the tail's end."""
    return not command["tail"] or channel < command["tail"]


def _word(words: bytes, difference: int) -> int:
    return sum(words[256 * byte + difference % 256] << 8 * byte for byte in range(4))


def _norm(command: Command, window: list[list[int]], b: list[int], words: bytes) -> list[int]:
    """Return the bytes of the norm of a window."""
    total = 0
    for number, vector in enumerate(window):
        for channel, a in enumerate(vector):
            if number < len(window) - 1 or _counts(command, channel):
                total += _word(words, max(b) - a)
    multiplier, shift = reciprocal(total % (1 << 32))
    word = NORM.pack(maximum=max(b), shift=shift, unused=0, multiplier=multiplier)
    return _signed(word.to_bytes(len(b), "little"))


def _walk(command: Command, operation: VectorOp) -> Iterator[tuple[int, list[int], int]]:
    windowed = operation in WINDOWED
    window = [
        wy * command["window_pitch"] + wx
        for wy in range(command["window_rows"] if windowed else 1)
        for wx in range(command["window_columns"] if windowed else 1)
    ]
    for oy in range(command["rows"]):
        for ox in range(command["columns"]):
            out, a, b = (
                command[f"{x}_row"] + oy * command[f"{x}_pitch"] + ox * command[f"{x}_step"]
                for x in ("out", "a", "b")
            )
            yield out, [a + offset for offset in window], b


def _scaled(x: int, name: str, operands: dict[str, int]) -> int:
    multiplier, shift = operands[f"{name}_multiplier"], operands[f"{name}_shift"]
    if operands["scaling"] == Scaling.EXACT:
        return wrap32(x * multiplier)
    return scale_accumulator(x << 20, multiplier=multiplier, shift=-shift, rounding=Rounding.TFLITE)


def _record(data: bytes) -> dict:
    return RECORD.unpack(int.from_bytes(data, "little") & ((1 << RECORD.width) - 1))


def _signed(row: bytes) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in row]
