"""VECTOR in plain loops over the scalar definitions, and parameters in every form."""

import itertools

import numpy as np

from tpulite.arch import isa, numerics
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.effects import parameter_rows
from tpulite.arch.isa import Command, Scaling, VectorOp
from tpulite.arch.numerics import INT32, Rounding, wrap32
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.machine.datapath import Datapath
from tpulite_testing.compiling.programs import WINDOWS

SIZES = [4, 8, 16, 32]
PARAM_ROW = 120
"""The operands lie below."""

RECORD = {
    "bias": 300, "multiplier": 3 << 28, "shift": -2, "rounding": Rounding.AWAY, "zero_point": -7,
    "low": -120, "high": 110, "gain": -77,
}  # fmt: skip
OPERANDS = {
    "a_zero_point": -9, "b_zero_point": 13, "a_multiplier": 1 << 30, "a_shift": 18,
    "b_multiplier": 5 << 28, "b_shift": 17, "scaling": Scaling.TFLITE,
}  # fmt: skip


def parameters(operation: VectorOp, size: int, record=RECORD, operands=OPERANDS) -> bytes:
    """Lay out the parameters of an operation, each part padded to whole rows with rubbish."""
    if operation in (VectorOp.COPY, VectorOp.MAX):
        return b""
    if operation == VectorOp.LUT:
        return bytes((77 * i + 5) % 256 for i in range(256))
    words = b""
    if operation in (VectorOp.NORM, VectorOp.SHARE):
        words = bytes((77 * i + i // 7) % 256 for i in range(isa.WORDS_BYTES))
    if operation == VectorOp.NORM:
        return words
    records = [record] if isinstance(record, dict) else record
    parts = [isa.RECORD.pack(**values).to_bytes(RECORD_BYTES, "little") for values in records]
    if operation in (VectorOp.ADD, VectorOp.SUB, VectorOp.MUL):
        parts.insert(0, isa.OPERANDS.pack(**operands).to_bytes(RECORD_BYTES, "little"))
    pad = 0 if operation == VectorOp.AFFINE else max(0, size - RECORD_BYTES)
    return words + b"".join(part + b"\xa5" * pad for part in parts)


def filled(config: Config, data: bytes, seed: int = 0) -> Datapath:
    """Return a machine with random bytes in its buffer, and parameters at ``PARAM_ROW``."""
    datapath = Datapath(config)
    datapath.buffer[:] = np.random.default_rng(seed).integers(0, 256, datapath.buffer.shape)
    datapath.buffer.reshape(-1)[PARAM_ROW * config.row_bytes :][: len(data)] = list(data)
    return datapath


def scaled(value: int, name: str, operands) -> int:
    """Scale operand ``name``, ``a`` or ``b``, of ADD and SUB."""
    x, multiplier = value - operands[f"{name}_zero_point"], operands[f"{name}_multiplier"]
    if operands["scaling"] == Scaling.EXACT:
        return wrap32(x * multiplier)
    shift = -operands[f"{name}_shift"]
    return numerics.scale_accumulator(
        x << 20, multiplier=multiplier, shift=shift, rounding=Rounding.TFLITE
    )


def norm(command: Command, place: int, b: list[int], data: bytes, read) -> list[int]:
    """Return the bytes of the norm of a window at a place; ``b`` are maxima."""
    total, last = 0, (command["window_rows"] - 1, command["window_columns"] - 1)
    for wy in range(last[0] + 1):
        for wx in range(last[1] + 1):
            row = read(place + wy * command["window_pitch"] + wx)
            cut = command["tail"] if (wy, wx) == last else 0
            total += sum(_word(data, max(b) - a) for a in row[: cut or None])
    multiplier, shift = numerics.reciprocal(total % (1 << 32))
    result = [max(b), shift, 0, 0, *multiplier.to_bytes(4, "little")]
    return [x - 256 if x > 127 else x for x in result] + [0] * (len(b) - len(result))


def _word(data: bytes, difference: int) -> int:
    return sum(data[256 * byte + difference % 256] << 8 * byte for byte in range(4))


def _bytes(values: list[int]) -> bytes:
    return bytes(value % 256 for value in values)


def expected(command: Command, size: int, data: bytes, read, record, operands) -> dict:
    """Return N results for each output vector by its row; ``read(row)`` gives N values."""
    results = {}
    operation = VectorOp(command["operation"])
    for oy, ox in itertools.product(range(command["rows"]), range(command["columns"])):
        place = {
            name: command[f"{name}_row"]
            + oy * command[f"{name}_pitch"]
            + ox * command[f"{name}_step"]
            for name in ("a", "b", "out")
        }
        values = []
        for c in range(size):
            own = record[c] if isinstance(record, list) else record
            own = {name: value for name, value in own.items() if name != "gain"}
            a, row = read(place["a"])[c], read(place["b"])
            b = row[c]
            window = [
                read(place["a"] + wy * command["window_pitch"] + wx)[c]
                for wy in range(command["window_rows"])
                for wx in range(command["window_columns"])
            ]
            match operation:
                case VectorOp.COPY:
                    value = a
                case VectorOp.MAX:
                    beyond = command["tail"] and c >= command["tail"]
                    value = max(*window[:-1], -128 if beyond else window[-1], -128)
                case VectorOp.SUM:
                    value = numerics.requantize(wrap32(sum(window)), **own)
                case VectorOp.ADD | VectorOp.SUB:
                    left, right = scaled(a, "a", operands), scaled(b, "b", operands)
                    total = left + right if operation == VectorOp.ADD else left - right
                    value = numerics.requantize(wrap32(total), **own)
                case VectorOp.MUL:
                    product = (a - operands["a_zero_point"]) * (b - operands["b_zero_point"])
                    value = numerics.requantize(product, **own)
                case VectorOp.AFFINE:
                    value = numerics.requantize(a * record[c]["gain"], **own)
                case VectorOp.NORM:
                    value = norm(command, place["a"], row, data, read)[c]
                case VectorOp.SHARE:
                    own["multiplier"] = int.from_bytes(_bytes(row[4:8]), "little") & INT32[-1]
                    own["shift"] = row[1]
                    value = numerics.requantize(wrap32(_word(data, row[0] - a)), **own)
                case VectorOp.LUT:
                    value = int.from_bytes(data[a + 128 : a + 129], "little", signed=True)
            values.append(min(max(value, command["low"]), command["high"]))
        results[place["out"]] = values
    return results


def check(command: Command, size: int, record=RECORD, operands=OPERANDS) -> np.ndarray:
    """Compare a command whose outputs lie apart from its operands; return its results."""
    config = Config(array_size=size, ub_rows=512, softmax=True)
    data = parameters(VectorOp(command["operation"]), size, record, operands)
    assert len(data) == size * parameter_rows(VectorOp(command["operation"]), config)
    datapath = filled(config, data)
    before = datapath.buffer.view(np.int8).tolist()
    results = expected(command, size, data, before.__getitem__, record, operands)
    access = footprint(command, config, WINDOWS)
    assert access.fault is None
    assert datapath.vector(command, access) is None
    for row, values in enumerate(datapath.buffer.view(np.int8).tolist()):
        assert values == results.get(row, before[row]), row
    return np.array(list(results.values()))
