"""What CONV and VECTOR compute from the rows that they have read."""

import numpy as np
from numpy.typing import NDArray

from tpulite.arch import isa
from tpulite.arch.bitfield import Layout
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.effects import tile_count
from tpulite.arch.isa import LUT_BYTES, WORDS_BYTES, Command, RecordForm, VectorOp
from tpulite.golden.effects.convolution import outputs_of, sum_positions, taps_of
from tpulite.golden.ops import matmul_int32, reciprocals, requantize, scale_operand, wrap32

Records = dict[str, NDArray[np.int64]]

_NORM_BYTES = -(-isa.NORM.width // 8)


def conv_sums(
    command: Command, config: Config, stream: NDArray[np.int8], weights: NDArray[np.int8]
) -> NDArray[np.int32]:
    """Return the sums of a CONV, in the order of issue, before accumulation.

    Parameters
    ----------
    stream : array of int8, [k_tiles, positions, N]; in dense mode [k_tiles, positions, 2, N]
        Vectors as they enter, padding included.
    weights : array of int8, [k_tiles * N, N]
        The weight tiles.
    """
    size, zero_point = config.array_size, command["weight_zero_point"]
    if command["depthwise"]:
        first = sum_positions(command)
        sums = np.zeros((len(first), size), dtype=np.int32)
        for row, behind in zip(*taps_of(command, config), strict=True):
            sums += stream[0, first + behind] * (weights[row].astype(np.int32) - zero_point)
        return sums
    if command["byte_step"]:
        _, ox = outputs_of(command)
        places = (ox * command["byte_step"] % size)[:, None] + np.arange(size)
        stream = stream.reshape(*stream.shape[:2], 2 * size)[:, np.arange(len(ox))[:, None], places]
    depth = tile_count(command) * size
    vectors = stream.transpose(1, 0, 2).reshape(-1, depth)
    return matmul_int32(vectors, weights, zero_point)


def vector_results(
    command: Command,
    a: NDArray[np.int8],
    b: NDArray[np.int8],
    parameters: NDArray[np.uint8],
    records: Records,
) -> NDArray[np.int8]:
    """Return the output vectors of a VECTOR.

    Parameters
    ----------
    a : array of int8, [outputs, window, N]
        Operand A.
    b : array of int8, [outputs, N]
        Operand B, if there is one.
    parameters : array of uint8, [rows, N]
        All rows of parameters.
    records : dict of str to array
        The channel records in them, for operations that requantize.
    """
    operation = VectorOp(command["operation"])
    scaling = {name: values for name, values in records.items() if name != "gain"}
    match operation:
        case VectorOp.COPY:
            result = a[:, 0]
        case VectorOp.MAX:
            last = a[:, -1]
            if command["tail"]:
                last = np.where(np.arange(a.shape[2]) < command["tail"], last, np.int8(-128))
            result = np.maximum(a[:, :-1].max(axis=1, initial=-128), last)
        case VectorOp.LUT:
            result = parameters.reshape(-1).view(np.int8)[a[:, 0].astype(np.int64) + 128]
        case VectorOp.SUM:
            result = requantize(wrap32(a.sum(axis=1, dtype=np.int64)), **scaling)
        case VectorOp.AFFINE:
            result = requantize(wrap32(a[:, 0] * records["gain"]), **scaling)
        case VectorOp.ADD | VectorOp.SUB | VectorOp.MUL:
            result = requantize(_combined(operation, a[:, 0], b, parameters), **scaling)
        case VectorOp.NORM:
            result = _norms(command["tail"], a, b, _words(parameters))
        case VectorOp.SHARE:
            words = _words(parameters)[b[:, :1].astype(np.int64) - a[:, 0] & 255]
            norm = unpack_records(b.view(np.uint8)[:, :_NORM_BYTES], isa.NORM)
            own = {name: norm[name][:, None] for name in ("multiplier", "shift")}
            result = requantize(words.view(np.int32), **scaling | own)
    return np.clip(result, command["low"], command["high"]).astype(np.int8)


def _words(parameters: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the words of NORM and SHARE, of which the parameters have the bytes one by one."""
    planes = parameters.reshape(-1)[:WORDS_BYTES].reshape(4, LUT_BYTES)
    return np.ascontiguousarray(planes.T).view("<u4")[:, 0]


def _norms(
    tail: int, a: NDArray[np.int8], b: NDArray[np.int8], words: NDArray[np.uint32]
) -> NDArray[np.int8]:
    """Return what NORM makes of windows [outputs, window, N]."""
    maxima = b.max(axis=1).astype(np.int64)
    found = words[maxima[:, None, None] - a & 255].astype(np.int64)
    if tail:
        found[:, -1, tail:] = 0
    multiplier, shift = reciprocals(found.sum(axis=(1, 2)) & 0xFFFFFFFF)
    result = np.zeros(b.shape, np.int8)
    result[:, 0], result[:, 1] = maxima, shift
    result[:, 4:8] = multiplier.astype("<i4")[:, None].view(np.int8)
    return result


def _combined(
    operation: VectorOp, a: NDArray[np.int8], b: NDArray[np.int8], parameters: NDArray[np.uint8]
) -> NDArray[np.int64]:
    word = int.from_bytes(parameters.reshape(-1)[:RECORD_BYTES].tobytes(), "little")
    operands = isa.OPERANDS.unpack(word)
    if operation == VectorOp.MUL:
        wide = b.astype(np.int64) - operands["b_zero_point"]
        return wrap32((a.astype(np.int64) - operands["a_zero_point"]) * wide)
    scaled = [
        scale_operand(
            values,
            zero_point=operands[f"{name}_zero_point"],
            multiplier=operands[f"{name}_multiplier"],
            shift=operands[f"{name}_shift"],
            scaling=isa.Scaling(operands["scaling"]),
        )
        for name, values in (("a", a), ("b", b))
    ]
    return wrap32(scaled[0] + scaled[1] if operation == VectorOp.ADD else scaled[0] - scaled[1])


def unpack_records(
    data: NDArray[np.uint8], layout: Layout = isa.RECORD
) -> dict[str, NDArray[np.int64]]:
    """Unpack records, [n, bytes], into an array of n values for each field."""
    bits = np.unpackbits(data, axis=1, bitorder="little").astype(np.int64)
    values = {}
    offsets = layout.offsets()
    for field in layout.fields:
        offset = offsets[field.name]
        value = bits[:, offset : offset + field.width] @ (1 << np.arange(field.width))
        if field.signed:
            value -= (value >> (field.width - 1)) << field.width
        values[field.name] = value
    return values


def wide_bounds(
    records: dict[str, NDArray[np.int64]], gain: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Return records of pairs: the clamp has its upper bytes in the gain."""
    low = (records["low"] & 255) | (gain << 8 & 0xFF00)
    high = (records["high"] & 255) | (gain & 0xFF00)
    wide = {"low": low, "high": high}
    return records | {name: (value ^ 0x8000) - 0x8000 for name, value in wide.items()}


def read_records(rows: NDArray[np.uint8], form: RecordForm) -> dict[str, NDArray[np.int64]]:
    """Read the records of an n-block from its rows of the unified buffer.

    Parameters
    ----------
    rows : array of uint8, [rows, N]
        As many rows as the form has.
    form : RecordForm
        Full: N records. Short: the common record, padded to whole rows, then N biases.

    Returns
    -------
    dict of str to array of int64
        For each field of a record N values, or one value that holds for all channels.
    """
    if form == RecordForm.FULL:
        return unpack_records(rows.reshape(-1, RECORD_BYTES))
    values = unpack_records(rows.reshape(-1)[None, :RECORD_BYTES])
    biases = np.ascontiguousarray(rows[-4:]).view("<i4").reshape(-1)
    return values | {"bias": biases.astype(np.int64)}
