"""Weights and records of a convolution, packed once: units that are loaded one at a time."""

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import CONV, RecordForm
from tpulite.compiler.lower.conv.weights import folded_bias
from tpulite.compiler.place.constants import channel_records
from tpulite.compiler.plan.closed_forms import ceil_div, cuts
from tpulite.graph.layers import Conv

__all__ = ["Units", "Weights", "pack_conv"]

_KERNEL = next(field.range[-1] for field in CONV.fields if field.name == "kernel_rows")
_BLOCKS = next(field.range[-1] for field in CONV.fields if field.name == "blocks")

_EARLY = 9
"""k-tiles of the first units, more or less: the first command starts when they are there."""


@dataclass(frozen=True)
class Units:
    """Pieces of the weights; one command multiplies one of them. All arrays have one length.

    Parameters
    ----------
    output : array of int
        The n-block that it belongs to; units of an n-block are adjacent.
    number : array of int
        Its number in the n-block.
    final : array of bool
        Whether it is the last one of the n-block, behind which lie the records.
    block, blocks : array of int
        First channel block, and how many.
    row, rows, column, columns : array of int
        Kernel rows and columns: the first one, and how many.
    offset : array of int
        First byte in the constants.
    weight_rows : array of int
        Rows of the buffer that the weights take.
    buffer_rows : array of int
        The same with the records.
    """

    output: np.ndarray
    number: np.ndarray
    final: np.ndarray
    block: np.ndarray
    blocks: np.ndarray
    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray
    offset: np.ndarray
    weight_rows: np.ndarray
    buffer_rows: np.ndarray

    @cached_property
    def table(self) -> np.ndarray:
        """All arrays, as rows in the order of the parameters."""
        return np.array([getattr(self, field.name) for field in fields(self)])

    @cached_property
    def largest(self) -> int:
        """Rows of the largest unit."""
        return int(self.buffer_rows.max())

    @cached_property
    def total(self) -> int:
        """Rows of all units."""
        return int(self.buffer_rows.sum())

    @cached_property
    def most(self) -> int:
        """Most units of an n-block."""
        return int(self.number.max()) + 1


@dataclass(frozen=True)
class Weights:
    """Constants of a convolution.

    Parameters
    ----------
    data : bytes
        Image of the CONSTANTS window.
    form : RecordForm, optional
        Form of the records; None: raw sums.
    large, small : Units
        Units of several channel blocks if possible, and of one block each.
    tiles : int
        k-tiles of an n-block.
    outputs : int
        n-blocks.
    """

    data: bytes
    form: RecordForm | None
    large: Units
    small: Units
    tiles: int
    outputs: int


def pack_conv(layer: Conv, weight: np.ndarray, config: Config) -> Weights:
    """Pack weights and records.

    Parameters
    ----------
    layer : Conv
        The convolution.
    weight : ndarray of int8, [kh, kw, C, outputs]
        Its weights as the machine multiplies them, which for strings are not those of the layer.
    config : Config
        The machine.

    Raises
    ------
    ValueError
        If there are too many channels.
    """
    size, zero_point = config.array_size, layer.weight_zero_point
    kh, kw, channels, features = weight.shape
    blocks, outputs = ceil_div(channels, size), ceil_div(features, size)
    if blocks > _BLOCKS:
        raise ValueError(
            f"{layer.title} must have {_BLOCKS * size} channels or less, not {channels}"
        )
    # The weights of a command must not crowd out everything else.
    most = max(1, config.ub_rows // 8 // size)
    width = min(_KERNEL, most, kw)
    rows = cuts(kh, ceil_div(kh, min(_KERNEL, max(1, most // width))), 1)
    columns = cuts(kw, ceil_div(kw, width), 1)

    extra = ((0, 0), (0, 0), (0, -channels % size), (0, -features % size))
    padded = np.pad(weight, extra, constant_values=zero_point)
    tiles = padded.reshape(kh, kw, blocks, size, outputs, size).transpose(4, 2, 0, 1, 3, 5)
    parts = [
        tiles[:, :, top:bottom, left:right].reshape(outputs, blocks, -1)
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
    ]
    matrix = np.concatenate(parts, axis=2)
    form, records = _pack_records(layer, config)
    data = b"".join(values.tobytes() + records[n] for n, values in enumerate(matrix))
    record_rows = len(records[0]) // config.row_bytes

    single = np.arange(blocks + 1)
    head = body = single
    if len(parts) == 1:
        body = cuts(blocks, min(blocks, ceil_div(blocks * kh * kw, most)), 1)
        first = int(body[1])
        early = cuts(first, min(first, max(1, first * kh * kw // _EARLY)), 1)
        head = np.concatenate([early, body[2:]])
    kernel = (rows, columns)
    return Weights(
        data=data,
        form=form,
        large=_units([head] + [body] * (outputs - 1), kernel, record_rows, config),
        small=_units([single] * outputs, kernel, record_rows, config),
        tiles=blocks * kh * kw,
        outputs=outputs,
    )


def _units(
    bounds: list[np.ndarray],
    kernel: tuple[np.ndarray, np.ndarray],
    record_rows: int,
    config: Config,
) -> Units:
    """Return the units of all n-blocks, each cut at bounds of its own."""
    parts = [
        (int(top), int(bottom - top), int(left), int(right - left))
        for top, bottom in pairwise(kernel[0])
        for left, right in pairwise(kernel[1])
    ]
    table, start = [], 0
    for n, blocks in enumerate(bounds):
        units = [(int(a), int(b - a), *part) for a, b in pairwise(blocks) for part in parts]
        for number, (block, count, *part) in enumerate(units):
            final = number == len(units) - 1
            weights = count * part[1] * part[3] * config.array_size
            size = weights + final * record_rows
            offset = start * config.row_bytes
            table.append((n, number, final, block, count, *part, offset, weights, size))
            start += size
    return Units(*(np.array(column) for column in zip(*table, strict=True)))


def _pack_records(layer: Conv, config: Config) -> tuple[RecordForm | None, list[bytes]]:
    """Return the form and the bytes of the records of each n-block; raw sums have none."""
    outputs = layer.weight.shape[3]
    if layer.requantization is None:
        if layer.input_zero_point:
            raise ValueError(
                f"{layer.title}: raw sums of any shape need input_zero_point 0, "
                f"not {layer.input_zero_point}"
            )
        return None, [b""] * ceil_div(outputs, config.array_size)
    sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1, 2))
    bias = np.broadcast_to(layer.requantization.bias, outputs)
    bias = folded_bias(bias, sums, layer.input_zero_point)
    form, blocks = channel_records(layer.requantization, bias, config)
    return form, [block.tobytes() for block in blocks]
