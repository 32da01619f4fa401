"""CONV: which vectors it streams, which sums it keeps, and what it touches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.effects import early_weights, record_rows, tile_count, tile_rows
from tpulite.arch.interleave import interleave_of
from tpulite.arch.isa import RAW_ROWS, Axis, Command, Drain
from tpulite.arch.registers import Fault
from tpulite.arch.streams import column_start
from tpulite.golden.effects.access import FaultSite, Footprint

PADDING = -1
"""Stands for the row of a vector that lies outside the image."""


def conv_footprint(command: Command, config: Config) -> Footprint:
    """Return what a CONV touches; all its faults are found before it touches anything."""
    fault = _fault(command, config)
    if fault is not None:
        return Footprint(fault=fault)
    depthwise, drain = command["depthwise"], Drain(command["drain"])
    k_tiles, m = tile_count(command), command["rows"] * command["columns"]
    weights = weight_rows(command, config)
    early_reads = weights[: early_weights(command, config)]
    records = np.arange(_record_rows(command, config)) + command["record_row"]

    vectors = _stream(command, config)
    inside = vectors != PADDING
    reads, late = vectors[inside], len(weights) - len(early_reads)
    if late:  # N rows of weights before the vectors of each k-tile
        every = np.concatenate([weights.reshape(k_tiles, -1), vectors], axis=1)
        reads = every[every != PADDING]
    writes = reads_before = np.empty(0, dtype=np.int64)
    if drain != Drain.KEEP:
        oy, ox = outputs_of(command)
        first = command["out_row"] + oy * command["out_pitch"] + ox * command["out_step"]
        rows_each = RAW_ROWS if drain == Drain.RAW else 1
        writes = (first[:, None] + np.arange(rows_each)).ravel()
        # A sum is complete after its last vector has been read; later vectors may not have been.
        done = inside.reshape(k_tiles, -1, inside.shape[2] if inside.ndim == 3 else 1)
        done = np.cumsum(done.sum(axis=2)).reshape(k_tiles, -1)[-1] + late
        last = np.arange(m)
        if depthwise:
            last = sum_positions(command) + taps_of(command, config)[1][-1]
        reads_before = done[last].repeat(rows_each)
    return Footprint(
        early_reads=np.concatenate([early_reads, records]),
        reads=reads,
        writes=writes,
        reads_before=reads_before,
        vectors=vectors,
        accumulators=range(command["acc_row"], command["acc_row"] + m),
    )


def weight_rows(command: Command, config: Config) -> NDArray[np.int64]:
    """Return the rows of all weight tiles of a CONV, in order."""
    rows = tile_count(command) * tile_rows(command["int4"], config)
    return np.arange(rows) + command["weight_row"]


def weight_tiles(command: Command, rows: NDArray) -> NDArray:
    """Return the weight tiles of a CONV as the array has them, [k_tiles * N, N], of its rows."""
    if command["int4"]:
        low, high = (rows & 15 ^ 8) - 8, rows >> 4
        return np.stack([low, high], axis=1).reshape(-1, rows.shape[1])
    if not command["transposed"]:
        return rows
    size = rows.shape[1]
    return rows.reshape(-1, size, size).swapaxes(1, 2).reshape(-1, size)


def conv_ends(command: Command, config: Config) -> tuple[tuple[str, int, int], ...]:
    """Return what must lie in its memory, in the order in which that is checked.

    Each is the name of the field with its first row, its last row counted from there, and the rows
    that the memory has.
    """
    drain, rows, columns = Drain(command["drain"]), command["rows"], command["columns"]
    tiles, records = tile_count(command), _record_rows(command, config)
    ends = [
        ("acc_row", rows * columns - 1, config.acc_rows),
        ("weight_row", tiles * tile_rows(command["int4"], config) - 1, config.ub_rows),
    ]
    if records:
        ends.append(("record_row", records - 1, config.ub_rows))
    if drain != Drain.KEEP:
        last = (rows - 1) * command["out_pitch"] + (columns - 1) * command["out_step"]
        last += RAW_ROWS - 1 if drain == Drain.RAW else 0
        ends.append(("out_row", last, config.ub_rows))
    last = (command["blocks"] - 1) * command["act_block_pitch"]
    last += (command["height"] - 1) * command["act_pitch"] + command["width"] - 1
    ends.append(("act_row", last, config.ub_rows))
    return tuple(ends)


def read_rows(command: Command, config: Config) -> NDArray[np.int64]:
    """Return the rows that a CONV streams, each at least once, in any order.

    Which rows and which columns of the image are read, and of which blocks, are three questions.
    """
    if command["depthwise"]:
        inner, outer = _walks(command)
        x, y = (inner.places, outer.places)[:: 1 if command["inner"] == Axis.X else -1]
    else:
        base = column_start(command.fields, np.arange(command["columns"]))
        if command["byte_step"]:
            base = np.arange(command["columns"]) * command["byte_step"]
            base = np.add.outer(base // config.array_size, np.arange(2)).ravel()
        x = _taps(command, "x", "kernel_columns", base) - command["pad_left"]
        base = np.arange(command["rows"]) * command["stride_y"]
        y = _taps(command, "y", "kernel_rows", base) - command["pad_top"]
    y, x = y[(y >= 0) & (y < command["height"])], x[(x >= 0) & (x < command["width"])]
    blocks = np.arange(command["blocks"]) * command["act_block_pitch"] + command["act_row"]
    return np.add.outer(np.add.outer(blocks, y * command["act_pitch"]), x).ravel()


def _taps(command: Command, axis: str, kernel: str, base: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the coordinates under a kernel at some places, each once."""
    taps = np.arange(command[kernel]) * command[f"dilation_{axis}"]
    return np.unique(np.add.outer(base, taps))


def outputs_of(command: Command) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the output vectors of a CONV, in the order of issue."""
    index = np.arange(command["rows"] * command["columns"])
    if command["inner"] == Axis.X:
        return np.divmod(index, command["columns"])
    ox, oy = np.divmod(index, command["rows"])
    return oy, ox


def taps_of(command: Command, config: Config) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the taps of a depthwise CONV are.

    That is their rows of the weight tile, and how many positions behind the beginning of a window
    their vectors are, ascending.
    """
    inner, outer = _walks(command)
    o, i = np.indices((outer.kernel, inner.kernel)).reshape(2, -1)
    way = interleave_of(command.fields, config)
    rows = np.array([way.row(*tap) for tap in zip(o.tolist(), i.tolist(), strict=True)])
    there = rows < config.array_size
    return rows[there], (o * inner.positions + i)[there]


def sum_positions(command: Command) -> NDArray[np.int64]:
    """Return, for each output vector of a depthwise CONV, the position where its window begins."""
    inner, outer = _walks(command)
    starts = np.arange(outer.outputs)[:, None] * (outer.stride * inner.positions)
    return (starts + np.arange(inner.outputs) * inner.stride).ravel()


@dataclass(frozen=True)
class _Walk:
    """One axis of a depthwise stream: outputs, and the fields that belong to the axis."""

    outputs: int
    stride: int
    kernel: int
    dilation: int
    pad: int

    @property
    def positions(self) -> int:
        return (self.outputs - 1) * self.stride + self.kernel

    @property
    def places(self) -> NDArray[np.int64]:
        """Return the coordinate in the image of each position."""
        return np.arange(self.positions) * self.dilation - self.pad


def _walks(command: Command) -> tuple[_Walk, _Walk]:
    """Return the inner and the outer axis of a depthwise stream."""
    walks = [
        _Walk(*(command[name] for name in names))
        for names in (
            ("columns", "stride_x", "kernel_columns", "dilation_x", "pad_left"),
            ("rows", "stride_y", "kernel_rows", "dilation_y", "pad_top"),
        )
    ]
    inner = Axis(command["inner"])
    return walks[inner], walks[not inner]


def _fault(command: Command, config: Config) -> FaultSite | None:
    ends = ((command[name] + last, limit) for name, last, limit in conv_ends(command, config))
    return next((FaultSite(Fault.BUFFER, end) for end, limit in ends if end >= limit), None)


def _record_rows(command: Command, config: Config) -> int:
    drain = command["drain"]
    return record_rows(command["record_form"], config) if drain == Drain.REQUANTIZE else 0


def _stream(command: Command, config: Config) -> NDArray[np.int64]:
    """Return :attr:`~tpulite.golden.effects.access.Footprint.vectors`."""
    if command["depthwise"]:
        inner, outer = _walks(command)
        x, y = inner.places, outer.places[:, None]
        if command["inner"] == Axis.Y:
            x, y = y, x
        return _rows(command, np.zeros(1, dtype=np.int64), y, x).reshape(1, -1)
    block, ky, kx = (
        axis.reshape(-1, 1)
        for axis in np.indices(
            (command["blocks"], command["kernel_rows"], command["kernel_columns"])
        )
    )
    oy, ox = outputs_of(command)
    y = oy * command["stride_y"] + ky * command["dilation_y"] - command["pad_top"]
    x = kx * command["dilation_x"] - command["pad_left"]
    if command["byte_step"]:
        x = (x + ox * command["byte_step"] // config.array_size)[..., None] + np.arange(2)
        return _rows(command, block[..., None], y[..., None], x)
    return _rows(command, block, y, x + column_start(command.fields, ox))


def _rows(
    command: Command, block: NDArray[np.int64], y: NDArray[np.int64], x: NDArray[np.int64]
) -> NDArray[np.int64]:
    inside = (y >= 0) & (y < command["height"]) & (x >= 0) & (x < command["width"])
    start = command["act_row"] + block * command["act_block_pitch"]
    return np.where(inside, start + y * command["act_pitch"] + x, PADDING)
