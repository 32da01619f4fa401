"""The cycle model's unified buffer: the phases of what a CONV reads and writes.

A phase is the bank of a request less its cycle, modulo the banks.
"""

from functools import lru_cache
from operator import itemgetter

import numpy as np

from tpulite.arch.isa import RAW_ROWS, Axis, Drain
from tpulite.arch.streams import column_start

FREE = 255
"""Phase of a cycle without a request."""

_NONE = bytes([FREE])
_CACHED, _KINDS = 1 << 12, 1 << 8
_STREAM = ("rows", "columns", "stride_y", "stride_x", "kernel_rows", "kernel_columns")
_MODES = ("byte_step", "depthwise", "inner", "int16")
_IMAGE = ("height", "width", "pad_top", "pad_left", "dilation_y", "dilation_x")
_READ, _WRITTEN = (*_STREAM, *_MODES, *_IMAGE), (*_STREAM, *_MODES, "drain")
_get_read, _get_written = itemgetter(*_READ), itemgetter(*_WRITTEN)


class Activations:
    """The activations that a CONV reads, and transposed weights before those of each k-tile.

    Parameters
    ----------
    size, banks : int
        N, and banks of the buffer.
    begin : int
        Cycle of the first slot.
    tiles, pace : int
        K-tiles, and cycles from one to the next.
    """

    __slots__ = ("_banks", "_begin", "_fields", "_made", "_pace", "_place", "_size", "_tiles")

    def __init__(
        self, fields: dict[str, int], size: int, banks: int, begin: int, tiles: int, pace: int
    ) -> None:
        self._fields, self._size, self._banks = fields, size, banks
        self._begin, self._tiles, self._pace = begin, tiles, pace
        self._made: _Tiles | None = None  # only if somebody asks
        self._place = 0, 0, 1  # first row, rows from a block to the next, k-tiles of a block

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first slot."""
        pace, banks, begin = self._pace, self._banks, self._begin
        start, end = first // pace, min(self._tiles, -(-stop // pace))
        made = self._made or self._prepare()
        row, pitch, taps = self._place
        row -= begin
        if self._fields["transposed"]:
            parts = [self.tile(i, begin + i * pace).ljust(pace, _NONE) for i in range(start, end)]
            return b"".join(parts)[first - start * pace : stop - start * pace]
        parts = [
            made.phases(i % taps, (row + i // taps * pitch - i * pace) % banks).ljust(pace, _NONE)
            for i in range(start, end)
        ]
        return b"".join(parts)[first - start * pace : stop - start * pace]

    def tile(self, tile: int, begin: int) -> bytes:
        """Return the phases of a k-tile whose first slot is in a cycle."""
        made = self._made or self._prepare()
        row, pitch, taps = self._place
        block, tap = divmod(tile, taps)
        weights, size, banks = b"", self._size, self._banks
        if self._fields["transposed"]:
            weights = bytes([(self._fields["weight_row"] + tile * size - begin) % banks]) * size
            begin += size
        return weights + made.phases(tap, (row + block * pitch - begin) % banks)

    def _prepare(self) -> "_Tiles":
        fields = self._fields
        taps = fields["kernel_rows"] * fields["kernel_columns"]
        self._place = fields["act_row"], fields["act_block_pitch"], taps
        pitch = fields["act_pitch"] % self._banks
        self._made = made = _tiles(_get_read(fields), pitch, self._size, self._banks)
        return made


class Outputs:
    """The rows that a CONV drains.

    Parameters
    ----------
    interval : int
        Cycles from an output vector to the next.
    banks : int
        Banks of the buffer.
    begin : int
        Cycle in which the first row is written.
    """

    __slots__ = ("_banks", "_begin", "_fields", "_interval", "_made")

    def __init__(self, fields: dict[str, int], interval: int, banks: int, begin: int) -> None:
        self._fields, self._interval, self._banks, self._begin = fields, interval, banks, begin
        self._made: bytes | None = None

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first row."""
        if self._made is None:
            fields, banks = self._fields, self._banks
            pitch, step = fields["out_pitch"] % banks, fields["out_step"] % banks
            base = (fields["out_row"] - self._begin) % banks
            key = _get_written(fields)
            self._made = _written(key, pitch, step, self._interval, banks, base)
        return self._made[first:stop]


class KnownPhases:
    """Requests whose phases are known."""

    __slots__ = ("_made",)

    def __init__(self, made: bytes | bytearray) -> None:
        self._made = bytes(made)

    @classmethod
    def paced(cls, row: int, begin: int, rows: int, pace: int, banks: int) -> "KnownPhases":
        """Return consecutive rows from a cycle on, one in ``pace`` cycles."""
        made = bytearray([FREE]) * (rows * pace)
        for i in range(rows):
            made[i * pace] = (row + i - begin - i * pace) % banks
        return cls(made)

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first request."""
        return self._made[first:stop]


class Walk:
    """Consecutive rows, one a cycle.

    Parameters
    ----------
    ahead : int
        Row less cycle.
    banks : int
        Banks of the buffer.
    begin, stop : int
        The first cycle, and the one after the last; more can follow.
    """

    __slots__ = ("_begin", "_phase", "ahead", "stop")

    def __init__(self, ahead: int, banks: int, begin: int, stop: int) -> None:
        self._phase, self._begin = bytes([ahead % banks]), begin
        self.ahead, self.stop = ahead, stop

    def phases(self, first: int, stop: int) -> bytes:
        """Return the phases from one cycle to another, counted from the first request."""
        return self._phase * (min(stop, self.stop - self._begin) - first)


def _shifted(phases: np.ndarray, there: np.ndarray, base: int, banks: int) -> bytes:
    return np.where(there, (phases + base) % banks, FREE).astype(np.uint8).tobytes()


class _Tiles:
    """The phases of all k-tiles of a kind of CONV, made when they are needed."""

    __slots__ = ("_kind", "_made")

    def __init__(self, key: tuple[int, ...], pitch: int, size: int, banks: int) -> None:
        self._kind = key, pitch, size, banks
        self._made: dict[tuple[int, int], bytes] = {}

    def phases(self, tap: int, base: int) -> bytes:
        """Return those of a tap, if the vector (0, 0) of its block has the phase ``base``."""
        made = self._made.get((tap, base))
        if made is None:
            made = self._made[tap, base] = _read(*self._kind, tap, base)
        return made


_tiles = lru_cache(_KINDS)(_Tiles)


def _read(key: tuple[int, ...], pitch: int, size: int, banks: int, tap: int, base: int) -> bytes:
    """Return the phases of a k-tile; the vector (0, 0) of its block has the phase ``base``."""
    f: dict[str, int] = dict(zip(_READ, key, strict=True))
    rows, columns, stride_y = key[:3]
    tap_y, tap_x = divmod(tap, f["kernel_columns"])
    entering = column_start(f, np.arange(columns))
    if f["depthwise"]:
        rows = (rows - 1) * stride_y + f["kernel_rows"]
        columns = (columns - 1) * f["stride_x"] + f["kernel_columns"]
        stride_y, entering = f["dilation_y"], np.arange(columns) * f["dilation_x"]
    enters = np.ones(columns, bool)
    if step := f["byte_step"]:
        # A vector of its own fills the window; then one enters whenever the window moves on.
        first = np.arange(columns) * step // size
        entering = np.concatenate([[0], first + 1])
        enters = np.concatenate([[True, True], np.diff(first) > 0])
    y = (np.arange(rows) * stride_y + tap_y * f["dilation_y"] - f["pad_top"])[:, None]
    x = (entering + tap_x * f["dilation_x"] - f["pad_left"])[None, :]
    inside = (y >= 0) & (y < f["height"]) & (x >= 0) & (x < f["width"]) & enters
    row = y * pitch + x
    if f["inner"] == Axis.Y:
        row, inside = row.T, inside.T
    row = row.ravel()
    return _shifted(row - np.arange(len(row)), inside.ravel(), base, banks)


@lru_cache(_CACHED)
def _written(
    key: tuple[int, ...], pitch: int, step: int, interval: int, banks: int, base: int
) -> bytes:
    """Return the phases of all rows; that of output vector (0, 0) has the phase ``base``."""
    f = dict(zip(_WRITTEN, key, strict=True))
    rows, columns = key[:2]
    y, x = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if f["depthwise"]:
        height = (rows - 1) * f["stride_y"] + f["kernel_rows"]
        width = (columns - 1) * f["stride_x"] + f["kernel_columns"]
        slot_y, slot_x = y * f["stride_y"], x * f["stride_x"]
        cycle = slot_x * height + slot_y if f["inner"] == Axis.Y else slot_y * width + slot_x
    elif f["byte_step"] and interval == 1:
        cycle = y * (columns + 1) + x
    elif f["inner"] == Axis.Y:
        cycle = (x * rows + y) * interval
    else:
        cycle = (y * columns + x) * interval
    row, cycle = (y * pitch + x * step).ravel(), cycle.ravel()
    if f["drain"] == Drain.RAW:
        row = (row[:, None] + np.arange(RAW_ROWS)).ravel()
        cycle = (cycle[:, None] + np.arange(RAW_ROWS)).ravel()
    phases = np.zeros(cycle.max() + 1, int)
    there = np.zeros(len(phases), bool)
    phases[cycle], there[cycle] = row - cycle, True
    return _shifted(phases, there, base, banks)
