"""Channel records as arrays."""

import numpy as np
from numpy.typing import NDArray

from tpulite.arch import isa
from tpulite.arch.bitfield import Layout
from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.isa import RecordForm


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
