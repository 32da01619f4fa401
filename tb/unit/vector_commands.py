"""Random VECTOR commands, with parameters that bring their results into and out of range."""

import random
from typing import Any

from vector_model import SCALED, WINDOWED, accumulators, parameter_parts

from tpulite.arch.bitfield import Layout
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, OPERANDS, RECORD, Command, Opcode, VectorOp
from tpulite.arch.numerics import INT8, INT32, Rounding
from tpulite_rtl.vpu.operand_scales import TFLITE_PLACES

__all__ = ["draw_command", "draw_parameters"]


def _draw_operands() -> dict[str, int]:
    """Draw operands, extremes often."""
    multipliers = [0, 1, 1 << 30, (1 << 31) - 1, random.getrandbits(31)]
    values: dict[str, int] = {"scaling": random.randrange(2)}
    for name in ("a", "b"):
        values[f"{name}_zero_point"] = random.choice([0, -128, 127, random.choice(INT8)])
        values[f"{name}_multiplier"] = random.choice(
            [random.randrange(1 << 30, 1 << 31)] * 5 + multipliers
        )
        values[f"{name}_shift"] = random.choice([0, 31, random.randrange(8), random.randrange(32)])
        if random.random() < 0.4:
            values |= _near_ties(name)
    return values


def _near_ties(name: str) -> dict[str, int]:
    """Draw a scale of an operand that brings some of its values to a tie of a shift, or beside."""
    factor, shift = random.randrange(1, 128, 2), random.randrange(30)
    places = min(TFLITE_PLACES - 1 + shift - random.randrange(7), 31 - factor.bit_length())
    multiplier = (factor << places) - random.choice([0, 0, 1])
    return {f"{name}_multiplier": multiplier, f"{name}_shift": shift}


def _draw_record(rounding: Rounding, magnitude: int) -> dict[str, Any]:
    """Draw a record that mostly scales accumulators of a magnitude to a few hundred."""
    mantissa = 24 if rounding == Rounding.FLOAT32 else 31
    multipliers = [0, 1, (1 << mantissa) - 1, random.getrandbits(31)]
    bits = random.choice([mantissa, mantissa, random.randint(1, mantissa)])
    point = 0 if rounding == Rounding.FLOAT32 else 31
    places = 8 - magnitude.bit_length() - bits + point
    fits = max(places + random.randint(-2, 1), -128)
    limits = [(-128, 127)] * 3 + [(0, 127), (random.randrange(-128, 128), 20)]
    low, high = random.choice(limits)
    biases = [0, 0, random.randint(-magnitude, magnitude), random.choice(INT32)]
    shifts = [fits] * 6 + [random.randrange(-40, 31), random.randrange(-128, 128)]
    return {
        "bias": random.choice(biases),
        "multiplier": random.choice(
            [random.randrange(1 << (bits - 1), 1 << bits)] * 8 + multipliers
        ),
        "shift": random.choice(shifts),
        "rounding": rounding,
        "zero_point": random.choice([0, -128, 127, random.choice(INT8)]),
        "low": low,
        "high": high,
        "gain": random.choice([-(1 << 15), (1 << 15) - 1, 0, random.randrange(-300, 300)]),
    }


def _draw_words(operation: VectorOp) -> bytes:
    """Draw the words of NORM or SHARE: mostly so that sums stay below 2**32; or anything."""
    most = [20, 20, 24] if operation == VectorOp.NORM else [31, 31, random.randrange(9)]
    bits = random.choice(most) + 1
    bits = random.choice([bits, bits, 32, 1])
    words = [random.getrandbits(bits - 1) for _ in range(256)]
    return b"".join(bytes(word >> 8 * byte & 255 for word in words) for byte in range(4))


def _with_garbage(layout: Layout, values: dict[str, int]) -> bytes:
    """Pack a layout into 16 bytes; unused bits are garbage."""
    word = layout.pack(**values)
    unused = random.getrandbits(8 * RECORD_BYTES - layout.width)
    return (word | unused << layout.width).to_bytes(RECORD_BYTES, "little")


def draw_parameters(
    operation: VectorOp, config: Config, *, vectors: int = 1, records: dict[str, int] | None = None
) -> list[bytes]:
    """Draw the parameters of a command; return them as rows of the buffer.

    Parameters
    ----------
    operation : VectorOp
        What the command computes.
    config : Config
        The machine, with its roundings.
    vectors : int
        Vectors in a window.
    records : dict, optional
        Fields that all records share.
    """
    operands, gain = _draw_operands(), [1 << 15]
    samples = [random.choice(INT8) for _ in range(8)]
    shared = records or {}

    def draw_record() -> bytes:
        rounding = Rounding[random.choice(config.roundings).upper()]
        values = _draw_record(rounding, 1)
        if operation in SCALED:
            sums = accumulators(operation, operands, gain, [samples], samples[::-1])
        elif operation == VectorOp.AFFINE:
            sums = [100 * values["gain"]]
        else:
            sums = [30 * vectors]
        magnitude = max(1, *map(abs, sums))
        scale = _draw_record(rounding, magnitude)
        return _with_garbage(RECORD, scale | {"gain": values["gain"]} | shared)

    rows = []
    for name, size in parameter_parts(operation, config):
        if name == "operands":
            data = _with_garbage(OPERANDS, operands)
        elif name == "words":
            data = _draw_words(operation)
        elif name == "table":
            data = random.randbytes(LUT_BYTES)
        else:
            data = b"".join(draw_record() for _ in range(size // RECORD_BYTES))
        data += random.randbytes(-size % config.row_bytes)
        rows += [data[i : i + config.row_bytes] for i in range(0, len(data), config.row_bytes)]
    return rows


def draw_command(operation: VectorOp, config: Config, **fields: int) -> Command:
    """Draw a command without places: extents, distances, window, tokens, clamp and tail.

    Operands lie within 512 rows; output rows are distinct and within 512 rows, too.
    """
    rows, columns = random.choice([(1, 1), (1, 20), (3, 5), (6, 2), (2, 9)])
    window_rows, window_columns = random.choice([(1, 1), (2, 2), (3, 3), (1, 4), (3, 1), (5, 5)])
    if operation not in WINDOWED and random.random() < 0.5:
        window_rows, window_columns = random.randint(1, 255), random.randint(1, 255)  # ignored
    step = random.randint(1, 3)
    pitch = columns * step + random.randint(0, 5)
    if random.random() < 0.2:  # transposed
        pitch, step = step, rows * step
    low = random.choice([-128, -128, random.choice(INT8)])
    values = {
        "wait": random.randrange(16),
        "signal": random.randrange(16),
        "rows": rows,
        "columns": columns,
        "a_pitch": random.choice([0, columns, random.randrange(40)]),
        "a_step": random.choice([0, 1, 1, 2, 3]),
        "window_rows": window_rows,
        "window_columns": window_columns,
        "window_pitch": random.choice([window_columns, random.randrange(20)]) % 40,
        "b_pitch": random.choice([0, columns, random.randrange(40)]),
        "b_step": random.choice([0, 1, 1, 2]),
        "out_pitch": pitch,
        "out_step": step,
        "low": low,
        "high": random.choice(
            [127, 127, random.choice(INT8), max(low - random.randrange(9), -128)]
        ),
        "tail": random.choice([0, random.randrange(config.array_size)])
        if config.has_softmax
        else 0,
    }
    return Command.make(Opcode.VECTOR, operation=operation, **(values | fields))
