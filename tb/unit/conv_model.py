"""What a CONV does, written down from decision record 0003 in plain numpy."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import RECORD, Axis, Command, Drain, RecordForm
from tpulite.arch.numerics import Rounding, requantize

__all__ = [
    "ConvModel",
    "delay",
    "line_taps",
    "odd_rows",
    "outputs",
    "pairs",
    "row_of",
    "stream",
    "tap_places",
    "taps",
]


def outputs(command: Command) -> list[tuple[int, int]]:
    """Return the outputs (oy, ox) in the order of issue."""
    rows, columns = range(command["rows"]), range(command["columns"])
    if command["inner"] == Axis.X:
        return [(oy, ox) for oy in rows for ox in columns]
    return [(oy, ox) for ox in columns for oy in rows]


def taps(command: Command) -> list[tuple[int, int, int]]:
    """Return the k-tiles (cb, ky, kx) in order; of a depthwise command its only one."""
    if command["depthwise"]:
        return [(0, 0, 0)]
    return [
        (cb, ky, kx)
        for cb in range(command["blocks"])
        for ky in range(command["kernel_rows"])
        for kx in range(command["kernel_columns"])
    ]


def delay(command: Command, n: int) -> int:
    """Return by how many cycles the second line of a kernel sees a stream late; 0 at once."""
    if not command["depthwise"] or n < 16:
        return 0
    across = command["inner"] == Axis.X
    count, stride = ("columns", "stride_x") if across else ("rows", "stride_y")
    between = (command[count] - 1) * command[stride]
    if pairs(command, n):
        between = command["columns"] - 2
    return between if line_taps(command) and n // 2 - 2 <= between <= 31 else 0


def line_taps(command: Command) -> int:
    """Return the taps of a line of a kernel for which there are delay lines; 0 of any other."""
    across = command["inner"] == Axis.X
    lines, taps = command["kernel_rows"], command["kernel_columns"]
    if not across:
        lines, taps = taps, lines
    return taps if lines == 3 and taps in (3, 5) else 0


def pairs(command: Command, n: int) -> bool:
    """Return whether a stream has two vectors in each cycle."""
    return (
        n >= 16
        and command["depthwise"] == 1
        and command["inner"] == Axis.X
        and command["kernel_rows"] == command["kernel_columns"] == 3
        and (command["stride_x"], command["dilation_x"]) == (2, 1)
        and n // 2 <= command["columns"] <= 33
    )


def tap_places(command: Command, n: int) -> dict[tuple[int, int], int]:
    """Return the row of the weight tile at which each tap (ky, kx) of a depthwise kernel belongs.

    Those behind the last row do not count.
    """
    rows, columns = command["kernel_rows"], command["kernel_columns"]
    across = command["inner"] == Axis.X
    if across:
        length = (command["columns"] - 1) * command["stride_x"] + columns
    else:
        length = (command["rows"] - 1) * command["stride_y"] + rows
    pitch = line_taps(command) if delay(command, n) else length
    order = (0, 2, 1) if pairs(command, n) else range(max(rows, columns))
    return {
        (ky, kx): pitch * outer + order[inner]
        for ky in range(rows)
        for kx in range(columns)
        for outer, inner in [(ky, kx) if across else (kx, ky)]
    }


def row_of(command: Command, cb: int, y: int, x: int) -> int | None:
    """Return the row of the buffer that holds an image vector; None in the padding."""
    if not (0 <= y < command["height"] and 0 <= x < command["width"]):
        return None
    return command["act_row"] + cb * command["act_block_pitch"] + y * command["act_pitch"] + x


def stream(
    command: Command, tap: tuple[int, int, int], n: int
) -> Iterator[tuple[int | None, bool, bool]]:
    """Yield for each cycle of a k-tile: the row that enters, whether one does, whether it emits.

    The row is None if padding enters, or nothing.
    """
    cb, ky, kx = tap
    if command["depthwise"]:
        for (y, x), emits in _positions(command, n):
            yield row_of(command, cb, y - command["pad_top"], x - command["pad_left"]), True, emits
        return
    for oy, ox in outputs(command):
        y = oy * command["stride_y"] + ky * command["dilation_y"] - command["pad_top"]
        left = kx * command["dilation_x"] - command["pad_left"]
        step = command["byte_step"]
        if not step:
            yield row_of(command, cb, y, ox * command["stride_x"] + left), True, True
            continue
        if ox == 0:
            yield row_of(command, cb, y, left), True, False
        second = ox * step // n + left + 1
        if ox == 0 or second != (ox - 1) * step // n + left + 1:
            yield row_of(command, cb, y, second), True, True
        else:
            yield None, False, True


def _positions(command: Command, n: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield the positions (y, x) of a depthwise stream, from the first one, and who emits.

    That is the first one of each sum, with delay lines the last one.
    """
    order = slice(None) if command["inner"] == Axis.X else slice(None, None, -1)
    (outer, stride_o, kernel_o), (inner, stride_i, kernel_i) = (
        (command["rows"], command["stride_y"], command["kernel_rows"]),
        (command["columns"], command["stride_x"], command["kernel_columns"]),
    )[order]
    length = (inner - 1) * stride_i + kernel_i
    step, last = 1, kernel_i - 1
    if pairs(command, n):
        length, stride_i, step, last = inner + 1, 1, 2, 1
    late = 2 * length + last if delay(command, n) else 0
    emitting = {
        o * stride_o * length + i * stride_i + late for o in range(outer) for i in range(inner)
    }
    for t in range(((outer - 1) * stride_o + kernel_o) * length):
        y, x = divmod(t, length)[order]
        yield (y * command["dilation_y"], x * step * command["dilation_x"]), t in emitting


def odd_rows(command: Command, n: int) -> Iterator[int | None]:
    """Yield for each cycle of a stream of pairs the row of the odd vector; None in the padding."""
    for (y, x), _ in _positions(command, n):
        yield row_of(command, 0, y - command["pad_top"], x - 1 - command["pad_left"])


class ConvModel:
    """Executes CONVs on a buffer and accumulators of its own; nothing is ever undefined.

    Attributes
    ----------
    buffer : ndarray of uint8, shape (ub_rows, N)
        The unified buffer.
    accumulators : ndarray of int64, shape (acc_rows, N)
        The accumulators; drained sums are not written back.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.buffer = np.zeros((config.ub_rows, config.row_bytes), np.uint8)
        self.accumulators = np.zeros((config.acc_rows, config.array_size), np.int64)

    def vector(self, command: Command, cb: int, y: int, x: int, *, lower: int = 0) -> np.ndarray:
        """Return the int8 image vector at (y, x), or padding."""
        row = row_of(command, cb, y, x)
        if row is None and command["int16"] and lower:
            return np.full(self.config.row_bytes, command["pad"] ^ -128, np.int8)
        if row is None:
            return np.full(self.config.row_bytes, command["pad"], np.int8)
        return self.buffer[row].view(np.int8)

    def operand(self, command: Command, tap: tuple[int, int, int], oy: int, ox: int) -> np.ndarray:
        """Return the vector that the array multiplies for an output (not depthwise)."""
        cb, ky, kx = tap
        n, step = self.config.array_size, command["byte_step"]
        y = oy * command["stride_y"] + ky * command["dilation_y"] - command["pad_top"]
        x = kx * command["dilation_x"] - command["pad_left"]
        if not step:
            if command["int16"]:
                pair = x + 2 * (ox // 2) * command["stride_x"]
                return self.vector(command, cb, y, pair + ox % 2, lower=ox % 2)
            return self.vector(command, cb, y, x + ox * command["stride_x"])
        first, shift = divmod(ox * step, n)
        pair = [self.vector(command, cb, y, x + first + i) for i in range(2)]
        return np.concatenate(pair)[shift : shift + n]

    def execute(self, command: Command) -> list[tuple[int, bytes]]:
        """Accumulate and drain; return the rows written, in order."""
        totals = self.accumulators[command["acc_row"] :][: command["rows"] * command["columns"]]
        sums = self._depthwise(command) if command["depthwise"] else self._convolve(command)
        if command["int16"]:  # the accumulator of the upper vector has the sum of both
            digit = 256 ** command["digit"]
            totals, sums = totals[::2], (256 * sums[::2] + sums[1::2]) * digit
        total = (sums + (totals if command["accumulate"] else 0)).astype(np.int32)
        if command["drain"] == Drain.KEEP:
            totals[:] = total
            return []
        if command["int16"]:
            total = np.repeat(total, 2, axis=0)
        written = []
        for (oy, ox), vector in zip(outputs(command), total, strict=True):
            row = command["out_row"] + oy * command["out_pitch"] + ox * command["out_step"]
            if command["drain"] == Drain.REQUANTIZE:
                data = self._requantize(command, vector, ox % 2).tobytes()
            else:
                data = vector.astype("<i4").tobytes()
            size = self.config.row_bytes
            written += [
                (row + i, data[start : start + size])
                for i, start in enumerate(range(0, len(data), size))
            ]
        return written

    def weights(self, command: Command, tile: int) -> np.ndarray:
        """Return a weight tile less its zero point, as the array has it."""
        n = self.config.array_size
        if command["int4"]:
            rows = self.buffer[command["weight_row"] + tile * (n // 2) :][: n // 2]
            halves = np.stack([rows % 16, rows // 16], axis=1).reshape(n, n).astype(np.int64)
            return np.where(halves < 8, halves, halves - 16)
        rows = self.buffer[command["weight_row"] + tile * n :][:n]
        weights = rows.view(np.int8).astype(np.int64) - command["weight_zero_point"]
        return weights.T if command["transposed"] else weights

    def _convolve(self, command: Command) -> np.ndarray:
        return np.sum(
            [
                np.stack([self.operand(command, tap, oy, ox) for oy, ox in outputs(command)])
                @ self.weights(command, tile)
                for tile, tap in enumerate(taps(command))
            ],
            axis=0,
        )

    def _depthwise(self, command: Command) -> np.ndarray:
        """Convolve each channel with its own kernel, as it is laid out in the tile's rows."""
        weights = self.weights(command, 0)
        places = tap_places(command, self.config.array_size)
        sums = []
        for oy, ox in outputs(command):
            total = np.zeros(self.config.array_size, np.int64)
            for (ky, kx), place in places.items():
                if place < self.config.array_size:
                    y = (oy * command["stride_y"] + ky) * command["dilation_y"]
                    x = (ox * command["stride_x"] + kx) * command["dilation_x"]
                    total += weights[place] * self.vector(
                        command, 0, y - command["pad_top"], x - command["pad_left"]
                    )
            sums.append(total)
        return np.stack(sums)

    def _requantize(self, command: Command, vector: np.ndarray, lower: int) -> np.ndarray:
        data = self.buffer[command["record_row"] :].tobytes()
        results = []
        for channel, total in enumerate(vector.tolist()):
            common = command["record_form"] == RecordForm.SHORT
            start = 0 if common else 16 * channel
            record = RECORD.unpack(int.from_bytes(data[start : start + 16], "little"))
            gain = record.pop("gain") & 0xFFFF
            if common:
                after = -(-16 // self.config.row_bytes) * self.config.row_bytes + 4 * channel
                record["bias"] = int.from_bytes(data[after : after + 4], "little", signed=True)
            rounding = Rounding(record.pop("rounding"))
            if not command["int16"]:
                results.append(requantize(total, rounding=rounding, **record))
                continue
            record["low"] = int.from_bytes([record["low"] & 255, gain & 255], "little", signed=True)
            record["high"] = int.from_bytes(
                [record["high"] & 255, gain >> 8], "little", signed=True
            )
            result = requantize(total, rounding=rounding, **record)
            results.append(result % 256 - 128 if lower else result // 256)
        return np.array(results, np.int8)
