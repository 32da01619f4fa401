"""Copies of rows by the array, which need not wait for the vector path."""

from collections.abc import Iterator

import numpy as np

from tpulite.arch.isa import Axis, Drain, Opcode
from tpulite.compiler.geometry.cut import split
from tpulite.compiler.lower.lowering import LayerContext
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import channel_records
from tpulite.graph.requantization import IDENTITY

ONE_TAP = dict.fromkeys(
    ("stride_y", "stride_x", "kernel_rows", "kernel_columns", "dilation_y", "dilation_x"), 1
)
"""Fields of a CONV of one tap, which reads each position once."""


class ArrayCopies:
    """Products with an identity matrix, which is symmetric: a vector, or a transposed tile.

    Parameters
    ----------
    context : LayerContext
        Gets the constants.
    """

    def __init__(self, context: LayerContext) -> None:
        self._context, config = context, context.config
        size = config.array_size
        identity = np.eye(size, dtype=np.int8)
        self.identity = context.constant("an identity matrix", identity, bank=config.ub_banks // 2)
        bias = np.zeros(size, np.int64)
        self.form, (records,) = channel_records(IDENTITY, bias, config)
        self.records = context.constant("records of copies", records)

    def ops(
        self,
        places: tuple[Region, Region],
        extents: tuple[int, int],
        pitches: tuple[int, int],
        *,
        width: int | None = None,
        pad: int = 0,
    ) -> Iterator[Op]:
        """Yield copies of lines of rows.

        Parameters
        ----------
        places : (Region, Region)
            The first row that is read, and the first one that is written.
        extents : (int, int)
            Lines, and rows that are written of each, one after the other.
        pitches : (int, int)
            From line to line, where they are read and written.
        width : int, optional
            Rows that are read of each line, if fewer; ``pad`` fills the others.
        """
        lines, columns = extents
        most = max(1, self._context.config.acc_rows // columns)
        weights, loads = self.identity.use()
        yield from loads
        record, loads = self.records.use()
        yield from loads
        for some in split(lines, -(-lines // most), 1):
            fields = {
                **ONE_TAP,
                "inner": Axis.X,
                "rows": len(some),
                "columns": columns,
                "act_pitch": pitches[0],
                "height": len(some),
                "width": columns if width is None else width,
                "pad": pad,
                "blocks": 1,
                "drain": Drain.REQUANTIZE,
                "record_form": self.form,
                "out_pitch": pitches[1],
                "out_step": 1,
            }
            source, target = (
                place.behind(some.start * pitch)
                for place, pitch in zip(places, pitches, strict=True)
            )
            rows = {
                "act_row": source,
                "weight_row": weights,
                "record_row": record,
                "out_row": target,
            }
            yield Op(Opcode.CONV, self._context.index, fields, rows)
