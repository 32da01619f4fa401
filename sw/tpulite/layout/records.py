"""Channel records: how output channels are requantized, in the full and in the short form."""

from collections.abc import Mapping, Sequence

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RecordForm

__all__ = ["pack_records", "unpack_records"]

Record = Mapping[str, int]


def pack_records(records: Sequence[Record], config: Config, form: RecordForm) -> np.ndarray:
    """Lay out the records of one n-block.

    Parameters
    ----------
    records : sequence of mapping
        ``array_size`` records, each with the fields of :data:`tpulite.arch.isa.RECORD`; a missing
        ``gain`` is 0.
    config : Config
        The machine.
    form : RecordForm
        ``FULL``, or ``SHORT`` if the records differ in their biases alone.

    Returns
    -------
    ndarray of uint8, [rows, row_bytes]
        Rows of the unified buffer.

    Raises
    ------
    ValueError
        If their number is wrong, a field is illegal, or they have no short form.
    """
    if len(records) != config.array_size:
        raise ValueError(f"An n-block has {config.array_size} records, not {len(records)}")
    if form == RecordForm.FULL:
        data = b"".join(_encode(record) for record in records)
        return np.frombuffer(data, np.uint8).reshape(config.record_rows, config.row_bytes).copy()
    common = {**records[0], "bias": 0}
    for c, record in enumerate(records):
        if {**record, "bias": 0} != common:
            raise ValueError(f"Records have no short form: channel {c} has {dict(record)}")
    image = np.zeros((config.short_record_rows, config.row_bytes), np.uint8)
    flat = image.reshape(-1)
    flat[:RECORD_BYTES] = np.frombuffer(_encode(common), np.uint8)
    biases = np.array([record["bias"] for record in records], "<i4").view(np.uint8)
    flat[-biases.size :] = biases
    return image


def unpack_records(rows: np.ndarray, config: Config, form: RecordForm) -> list[dict[str, int]]:
    """Return the records of one n-block; the inverse of :func:`pack_records`."""
    data = rows.tobytes()
    if form == RecordForm.FULL:
        return [
            _decode(data[RECORD_BYTES * c : RECORD_BYTES * (c + 1)])
            for c in range(config.array_size)
        ]
    common = _decode(data[:RECORD_BYTES])
    biases = np.frombuffer(data[-4 * config.array_size :], "<i4")
    return [{**common, "bias": int(bias)} for bias in biases]


def _encode(record: Record) -> bytes:
    return isa.RECORD.pack(**({"gain": 0} | dict(record))).to_bytes(RECORD_BYTES, "little")


def _decode(data: bytes) -> dict[str, int]:
    return isa.RECORD.unpack(int.from_bytes(data, "little"))
