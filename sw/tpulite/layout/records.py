"""Channel records: how output channels are requantized, in the full and in the short form."""

from collections.abc import Mapping, Sequence

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RecordForm

Record = Mapping[str, int]

_WORD_BYTES = 8
_OFFSETS = isa.RECORD.offsets()


def pack_records(records: Sequence[Record], config: Config, form: RecordForm) -> np.ndarray:
    """Lay out the records of one n-block.

    Parameters
    ----------
    records : sequence of mapping
        ``array_size`` records, each with the fields of :data:`tpulite.arch.isa.RECORD`; a missing
        ``gain`` is 0.
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
    whole = [{"gain": 0, **record} for record in records]
    columns = {name: np.array([record[name] for record in whole]) for name in whole[0]}
    return pack_record_columns(columns, config, form)[0]


def pack_record_columns(
    columns: Mapping[str, np.ndarray], config: Config, form: RecordForm
) -> np.ndarray:
    """Lay out the records of many n-blocks, given field by field.

    Parameters
    ----------
    columns : mapping of str to ndarray of int64, [channels]
        For every field of :data:`tpulite.arch.isa.RECORD` the values of all channels; their number
        is a multiple of ``array_size``.
    form : RecordForm
        ``FULL``, or ``SHORT`` if the records differ in their biases alone.

    Returns
    -------
    ndarray of uint8, [n-blocks, rows, row_bytes]
        Rows of the unified buffer.

    Raises
    ------
    ValueError
        If a field is illegal, or the records have no short form.
    """
    _check(columns)
    size = config.array_size
    if form == RecordForm.FULL:
        return _encode(columns).reshape(-1, config.record_rows, config.row_bytes)
    bias = columns["bias"]
    common = {**columns, "bias": np.zeros_like(bias)}
    words = _encode(common)
    different = np.flatnonzero((words != words[0]).any(axis=1))
    if different.size:
        c = int(different[0])
        record = {name: int(values[c]) for name, values in columns.items()}
        raise ValueError(f"Records have no short form: channel {c} has {record}")
    blocks = np.zeros((len(bias) // size, config.short_record_rows * config.row_bytes), np.uint8)
    blocks[:, :RECORD_BYTES] = words[0]
    blocks[:, -4 * size :] = bias.astype("<i4").view(np.uint8).reshape(-1, 4 * size)
    return blocks.reshape(-1, config.short_record_rows, config.row_bytes)


def _encode(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the bytes [channels, RECORD_BYTES] that :meth:`Layout.pack` gives for each channel."""
    channels = len(columns["bias"])
    words = np.zeros((channels, RECORD_BYTES // _WORD_BYTES), "<u8")
    for field in isa.RECORD.fields:
        word, shift = divmod(_OFFSETS[field.name], 8 * _WORD_BYTES)
        # Two's complement, so that the sign is among the bits.
        values = columns[field.name].astype(np.int64).view(np.uint64)
        values = values & np.uint64((1 << field.width) - 1)
        words[:, word] |= values << np.uint64(shift)
        if (left := shift + field.width - 8 * _WORD_BYTES) > 0:
            words[:, word + 1] |= values >> np.uint64(field.width - left)
    return words.view(np.uint8)


def _check(columns: Mapping[str, np.ndarray]) -> None:
    """Refuse what a record cannot hold, with the words of its layout."""
    for field in isa.RECORD.fields:
        values = columns[field.name]
        probes = np.unique(values) if field.enum else (values.min(), values.max())
        if any(field.problem(int(value)) is not None for value in probes):
            for record in zip(*columns.values(), strict=True):
                isa.RECORD.pack(**dict(zip(columns, map(int, record), strict=True)))
