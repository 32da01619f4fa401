"""A number for each channel, added to raw sums: nothing else can add to them."""

import numpy as np

from tpulite.arch.isa import Drain, Opcode
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant
from tpulite.compiler.place.views import View

_UNIT = 127
"""What padding multiplies the coarse digits by, and the largest weight."""

_TILES = 8
"""Most tiles of weights of a command."""

_ROOM = 4
"""They take at most this part of the free rows, if that is a tile."""


class Offset:
    """Offsets of an n-block as sums of products of padding and weights.

    A CONV whose image lies between the positions that it reads sees nothing but padding: stride 2
    from a padding of one row skips the only row. One such command adds the offsets' multiples of
    127, another one what remains. If the multiples need many weights, fewer are used repeatedly.

    Parameters
    ----------
    values : ndarray of int64, [up to N]
        Offsets.
    context : LayerContext
        The layer.
    """

    def __init__(self, values: np.ndarray, context: LayerContext) -> None:
        self._context = context
        sign, size = np.sign(values), context.config.array_size
        coarse, fine = np.divmod(np.abs(values), _UNIT)
        most = min(_TILES, max(1, context.free_rows // _ROOM // size)) * size * _UNIT
        times = -(-int(coarse.max(initial=1)) // most)
        many, coarse = np.divmod(coarse, times) if times > 1 else (None, coarse)
        repeated = [] if many is None else [(_UNIT, self._weights(many * sign))] * times
        once = [(_UNIT, self._weights(coarse * sign)), (1, self._weights(fine * sign))]
        self._steps = [*repeated, *once]

    def _weights(self, digits: np.ndarray) -> Constant:
        """Return weights, as many rows as necessary, whose columns sum to the digits."""
        size = self._context.config.array_size
        rows = -(-int(np.abs(digits).max(initial=1)) // (_UNIT * size)) * size
        weights = np.zeros((max(rows, size), size), np.int8)
        for column, digit in enumerate(digits):
            count, rest = divmod(abs(int(digit)), _UNIT)
            weights[:count, column] = _UNIT
            if rest:
                weights[count, column] = rest
            if digit < 0:
                weights[:, column] *= -1
        return self._context.constant("offsets", weights)

    def ops(self, source: View, rows: int, columns: int, acc_row: int, *, again: bool) -> list[Op]:
        """Return the commands that begin the sums of a region with the offsets."""
        ops: list[Op] = []
        for number, (pad, constant) in enumerate(self._steps):
            # A constant that is used repeatedly is loaded once.
            new = again and constant not in [used for _, used in self._steps[:number]]
            place, loads = constant.use(again=new)
            fields = {
                "rows": rows,
                "columns": columns,
                "stride_y": 2,
                "stride_x": 1,
                "height": 1,
                "width": 1,
                "pad_top": 1,
                "pad": pad,
                "blocks": constant.rows // self._context.config.array_size,
                "kernel_rows": 1,
                "kernel_columns": 1,
                "dilation_y": 1,
                "dilation_x": 1,
                "acc_row": acc_row,
                "accumulate": int(number > 0),
                "drain": Drain.KEEP,
            }
            places = {"act_row": Region(source.buffer, source.row), "weight_row": place}
            ops += [*loads, Op(Opcode.CONV, self._context.index, fields, places)]
        return ops
