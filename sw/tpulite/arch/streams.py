"""How the matrix unit streams the vectors of a CONV: what its cycles count."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINES, in_pairs, interleave_of
from tpulite.arch.opcodes import Axis


class Stream(NamedTuple):
    """How a CONV streams vectors; a slot is a cycle of the array."""

    tiles: int  #: Weight tiles, each of which sees all vectors.
    #: Slots of the first k-tile before its first sum: dense mode fills its window, and a transposed
    #: weight tile enters.
    fill: int
    #: Slots of a k-tile: output vectors, in dense mode one more for each row, in depthwise mode one
    #: for each input vector, or each pair of them; N more if its weights are transposed.
    slots: int
    sums: int  #: Slots from the first sum of a k-tile to its last one.
    lag: int = 0  #: Slots by which sums are later than their vectors: delay lines.


def column_start(fields: Mapping[str, int], column: Any) -> Any:
    """Return how far an output column, or each of an array, is from the first one.

    Of an int16 the columns of a pair follow each other, and pairs have the stride.

    Examples
    --------
    >>> [column_start({"stride_x": 3, "int16": 1}, column) for column in range(6)]
    [0, 1, 6, 7, 12, 13]
    """
    if not fields["int16"]:
        return column * fields["stride_x"]
    return column // 2 * 2 * fields["stride_x"] + column % 2


def conv_stream(fields: Mapping[str, int], config: Config) -> Stream:
    """Return how a CONV with these fields streams vectors.

    Examples
    --------
    >>> from tpulite.arch.isa import dense
    >>> fields = dense(m=64, k_tiles=4) | {"depthwise": 0, "byte_step": 0, "transposed": 0}
    >>> conv_stream(fields, Config())
    Stream(tiles=4, fill=0, slots=64, sums=64, lag=0)
    >>> conv_stream(fields | {"transposed": 1}, Config())
    Stream(tiles=4, fill=16, slots=80, sums=64, lag=0)
    """
    rows, columns = fields["rows"], fields["columns"]
    if fields["depthwise"]:
        _, pairs, delay = interleave_of(fields, config)
        if pairs:
            fields = in_pairs(fields)
        last_y, last_x = (rows - 1) * fields["stride_y"], (columns - 1) * fields["stride_x"]
        height, width = last_y + fields["kernel_rows"], last_x + fields["kernel_columns"]
        by_y = fields["inner"] == Axis.Y
        last = last_x * height + last_y if by_y else last_y * width + last_x
        return Stream(1, 0, height * width, last + 1, (LINES - 1) * delay)
    tiles = fields["blocks"] * fields["kernel_rows"] * fields["kernel_columns"]
    slots = rows * columns
    if fields["byte_step"]:
        return Stream(tiles, 1, slots + rows, slots + rows - 1)
    if fields["transposed"]:
        return Stream(tiles, config.array_size, config.array_size + slots, slots)
    return Stream(tiles, 0, slots, slots)
