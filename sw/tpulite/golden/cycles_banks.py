"""The cycle model's unified buffer: which bank a port of the matrix unit needs in which cycle.

Ports that walk through consecutive rows, one a cycle, stay in step, so what matters is the *phase*
of a request: its bank less its cycle, modulo the banks. A walker keeps its phase until it meets a
request of a better port in the same phase, waits for a cycle, and goes on in the next lower phase.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tpulite.arch.isa import RAW_ROWS, Drain

__all__ = ["FREE", "Traffic", "activation_phases", "activation_stream", "output_stream", "shift", "walk"]

FREE = 255
"""Phase of a cycle without a request."""

_STARVED = 16  # refusals after which a port wins once, unless the better one must not lose


def walk(
    phases: bytes | bytearray, begin: int, phase: int, rows: int, banks: int, *, starve: bool
) -> int:
    """Return the cycle after the one in which a walker's last row is accepted.

    Parameters
    ----------
    phases : bytes
        Phase of the better port's request in each cycle; nothing is requested beyond.
    begin : int
        First cycle of the walker, an index of ``phases``.
    phase : int
        Its phase.
    rows : int
        Rows that it needs, one after the other.
    banks : int
        Banks of the buffer.
    starve : bool
        Whether it must wait as long as it takes; else it wins after 16 refusals in a row.

    Examples
    --------
    >>> walk(bytes([0, 0, 1, FREE, FREE]), 0, 0, 2, 8, starve=True)
    3
    """
    refusals = 0
    last = -1
    while True:
        met = phases.find(phase, begin, begin + rows)
        if met < 0:
            return begin + rows
        refusals = refusals + 1 if met == last + 1 else 1
        if refusals > _STARVED and not starve:
            refusals = 0
            rows -= met - begin + 1
            begin = met + 1
            continue
        rows -= met - begin
        begin = met + 1
        phase = (phase - 1) % banks
        last = met


class Traffic:
    """What a port asks for in a run, as far as it is known: streams in the order of time.

    A stream is a function of two cycles, counted from its own first one, that returns the phases
    of its requests from the one to the other, or fewer if there are no more.
    """

    def __init__(self) -> None:
        self.stop = 0  # cycle after the last request
        self._begins: list[int] = []
        self._streams: list[Callable[[int, int], bytes | bytearray]] = []

    def add(
        self, begin: int, stop: int, stream: Callable[[int, int], bytes | bytearray]
    ) -> None:
        """Add a stream of requests from a cycle to another one."""
        self._begins.append(begin)
        self._streams.append(stream)
        self.stop = max(self.stop, stop)

    def phases(self, begin: int, stop: int) -> bytearray:
        """Return the phases of the requests from a cycle to another one."""
        window = bytearray([FREE]) * (stop - begin)
        for i in range(max(0, bisect_right(self._begins, begin) - 1), len(self._begins)):
            first = self._begins[i] - begin
            if first >= stop - begin:
                break
            part = self._streams[i](max(0, -first), stop - begin - first)
            start = max(0, first)
            window[start : start + len(part)] = part
        return window


@lru_cache(1 << 12)
def shift(banks: int, by: int) -> bytes:
    """Return the table that adds a number to every phase."""
    return bytes([*((phase + by) % banks for phase in range(banks)), *range(banks, 256)])


def activation_stream(
    fields: dict[str, int], size: int, banks: int, begin: int, tiles: int, pace: int
) -> Callable[[int, int], bytes | bytearray]:
    """Return the stream of a CONV's activations.

    Parameters
    ----------
    fields : dict
        Fields of the command.
    size, banks : int
        N, and banks of the buffer.
    begin : int
        Cycle of the first slot.
    tiles, pace : int
        K-tiles, and cycles from one to the next.
    """
    row, block = fields["act_row"], fields["act_block_pitch"]
    height, width = fields["kernel_rows"], fields["kernel_columns"]
    if fields["depthwise"]:
        height = width = 1
    free = bytes([FREE]) * pace

    def stream(first: int, stop: int) -> bytearray:
        start, end = first // pace, min(tiles, -(-stop // pace))
        phases = bytearray()
        for tile in range(start, end):
            channels, tap = divmod(tile, height * width)
            part = activation_phases(fields, size, banks, divmod(tap, width))
            by = (row + channels * block - begin - tile * pace) % banks
            phases += part.translate(shift(banks, by))
            phases += free[len(part) :]
        return phases[first - start * pace : stop - start * pace]

    return stream


def output_stream(
    fields: dict[str, int], interval: int, banks: int, begin: int
) -> Callable[[int, int], bytes | bytearray]:
    """Return the stream of the rows that a CONV drains.

    Parameters
    ----------
    fields : dict
        Fields of the command.
    interval : int
        Cycles from an output vector to the next.
    banks : int
        Banks of the buffer.
    begin : int
        Cycle in which the first row is written.
    """
    table = shift(banks, (fields["out_row"] - begin) % banks)

    def stream(first: int, stop: int) -> bytes:
        return output_phases(fields, interval, banks)[first:stop].translate(table)

    return stream


_ACTIVATION = (
    *("rows", "columns", "stride_y", "stride_x", "height", "width", "pad_top", "pad_left"),
    *("kernel_rows", "kernel_columns", "dilation_y", "dilation_x", "byte_step"),
    *("depthwise", "inner"),
)
_OUTPUT = (
    *("rows", "columns", "stride_y", "stride_x", "kernel_rows", "kernel_columns", "byte_step"),
    *("depthwise", "inner", "drain"),
)


def activation_phases(
    fields: dict[str, int], size: int, banks: int, tap: tuple[int, int] = (0, 0)
) -> bytes:
    """Return the phases of the activations of a k-tile, from its first slot on.

    They count from the row of the image's vector (0, 0) of its channel block.
    """
    geometry = tuple(fields[name] for name in _ACTIVATION)
    return _activations(geometry, fields["act_pitch"] % banks, size, banks, tap)


@lru_cache(1 << 12)
def _activations(
    geometry: tuple[int, ...], pitch: int, size: int, banks: int, tap: tuple[int, int]
) -> bytes:
    f = dict(zip(_ACTIVATION, geometry, strict=True))
    rows, columns, stride_y, stride_x = f["rows"], f["columns"], f["stride_y"], f["stride_x"]
    if f["depthwise"]:
        rows = (rows - 1) * stride_y + f["kernel_rows"]
        columns = (columns - 1) * stride_x + f["kernel_columns"]
        stride_y, stride_x = f["dilation_y"], f["dilation_x"]
    y = np.arange(rows)[:, None] * stride_y + tap[0] * f["dilation_y"] - f["pad_top"]
    if step := f["byte_step"]:
        # A vector of its own fills the window; then one enters whenever the window moves on.
        first = np.arange(columns) * step // size
        entering = np.concatenate([[0], first + 1])
        enters = np.concatenate([[True, True], np.diff(first) > 0])
    else:
        entering, enters = np.arange(columns) * stride_x, True
    x = (entering + tap[1] * f["dilation_x"] - f["pad_left"])[None, :]
    inside = (y >= 0) & (y < f["height"]) & (x >= 0) & (x < f["width"]) & enters
    row = y * pitch + x
    if f["inner"]:
        row, inside = row.T, inside.T
    row, inside = row.ravel(), inside.ravel()
    phase = (row - np.arange(len(row))) % banks
    return np.where(inside, phase, FREE).astype(np.uint8).tobytes()


def output_phases(fields: dict[str, int], interval: int, banks: int) -> bytes:
    """Return the phases of the rows that a CONV drains, from its first row on.

    They count from the row of its first output vector. ``interval`` is the cycles from a vector to
    the next.
    """
    geometry = tuple(fields[name] for name in _OUTPUT)
    pitch, step = fields["out_pitch"] % banks, fields["out_step"] % banks
    return _outputs(geometry, pitch, step, interval, banks)


@lru_cache(1 << 12)
def _outputs(
    geometry: tuple[int, ...], pitch: int, step: int, interval: int, banks: int
) -> bytes:
    f = dict(zip(_OUTPUT, geometry, strict=True))
    rows, columns = f["rows"], f["columns"]
    row = np.arange(rows)[:, None] * pitch + np.arange(columns)[None, :] * step
    if f["depthwise"]:
        height = (rows - 1) * f["stride_y"] + f["kernel_rows"]
        width = (columns - 1) * f["stride_x"] + f["kernel_columns"]
        y = np.arange(rows)[:, None] * f["stride_y"]
        x = np.arange(columns)[None, :] * f["stride_x"]
        cycle = x * height + y if f["inner"] else y * width + x
    elif f["byte_step"] and interval == 1:
        cycle = np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)[None, :]
    else:
        cycle = np.arange(rows * columns) * interval
        cycle = cycle.reshape(columns, rows).T if f["inner"] else cycle.reshape(rows, columns)
    row, cycle = row.ravel(), cycle.ravel()
    if f["drain"] == Drain.RAW:
        row = (row[:, None] + np.arange(RAW_ROWS)).ravel()
        cycle = (cycle[:, None] + np.arange(RAW_ROWS)).ravel()
    phases = np.full(cycle.max() + 1, FREE, np.uint8)
    phases[cycle] = (row - cycle) % banks
    return phases.tobytes()
