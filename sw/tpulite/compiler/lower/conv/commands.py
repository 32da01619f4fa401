"""The commands of a convolution: one pass over the kernel for one region and n-block."""

from collections.abc import Hashable, Iterator

import numpy as np

from tpulite.arch.isa import BYTE_STEPS, RAW_ROWS, Axis, Drain, Opcode
from tpulite.compiler.geometry.axis import LARGEST_STRIDE, Axis1D
from tpulite.compiler.geometry.passes import Pass
from tpulite.compiler.lower.lowering import LayerContext
from tpulite.compiler.lower.window import read_row, read_window
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import View
from tpulite.compiler.plan.conv_facts import ConvFacts
from tpulite.graph.layers import Conv


class ConvCommands:
    """Writes the commands of a layer; how it is cut is decided elsewhere.

    Parameters
    ----------
    context : LayerContext
        Its surroundings.
    source : Store
        What it reads, perhaps in packed rows.
    facts : ConvFacts
        Its geometry.

    Attributes
    ----------
    y, x : Axis1D
        Geometry.
    """

    def __init__(self, layer: Conv, context: LayerContext, source: Store, facts: ConvFacts) -> None:
        self._layer, self._context, self._size = layer, context, context.config.array_size
        self._facts = facts
        self.y, self.x = facts.y.at(source.height), facts.x.at(source.width)
        self._offsets: list[Offset] = []
        if layer.requantization is None and layer.input_zero_point:
            offsets, size = -layer.input_zero_point * layer.weight_sums, self._size
            blocks = range(0, len(offsets), size)
            self._offsets = [Offset(offsets[n : n + size], context) for n in blocks]
        self._reads: dict[Hashable, tuple[dict[str, int], Region]] = {}
        form = facts.form
        self._step, self._drain = RAW_ROWS, {"drain": Drain.RAW}
        if form is not None:
            self._step, self._drain = 1, {"drain": Drain.REQUANTIZE, "record_form": form}

    def begin(
        self, view: View, region: tuple[range, range], n: int, acc_row: int, *, again: bool
    ) -> Iterator[Op]:
        """Yield what must be in the accumulators of an n-block before the first pass."""
        if self._offsets:
            extents = len(region[0]), len(region[1])
            yield from self._offsets[n].ops(view, *extents, acc_row, again=again)

    def multiply(  # noqa: PLR0913 - fields of a CONV
        self,
        source: tuple[View, int],
        region: tuple[range, range],
        part: Pass,
        weights: Region,
        acc_row: int,
        *,
        first: bool,
        out: tuple[View, int] | None = None,
        record: Region | None = None,
    ) -> Op:
        """Return the CONV of a pass.

        Parameters
        ----------
        source : tuple of (View, int)
            Where the input is, and the block of it with which the pass begins.
        region : tuple of range
            Rows and columns of the output.
        part : Pass
            Part of the kernel and of the channel blocks.
        acc_row : int
            Where the sums are.
        first : bool
            Whether it is the first pass.
        out : tuple of (View, int), optional
            Of the last pass, where results go: the block of them.
        record : Region, optional
            Of the last pass, the records of the n-block, unless sums are the output.
        """
        key = source, region, part
        if key not in self._reads:
            self._reads[key] = self._read(*key)
        fields, place = self._reads[key]
        accumulate = int(not first or bool(self._offsets))
        fields = fields | {"acc_row": acc_row, "accumulate": accumulate, "drain": Drain.KEEP}
        places = {"act_row": place, "weight_row": weights}
        if out is not None:
            fields |= self._drain
            if record is not None:
                places["record_row"] = record
            view, block = out
            step = self._step
            if self._facts.transposed:
                places["out_row"] = view.at(region[1].start, region[0].start, block, step=step)
                fields |= {"out_pitch": step, "out_step": view.pitch}
            else:
                places["out_row"] = view.at(region[0].start, region[1].start, block, step=step)
                pitch = step if self._far(region) else view.pitch
                fields |= {"out_pitch": pitch, "out_step": step}
        return Op(Opcode.CONV, self._context.index, fields, places)

    def _read(
        self, source: tuple[View, int], region: tuple[range, range], part: Pass
    ) -> tuple[dict[str, int], Region]:
        """Return the fields of a pass that all n-blocks have in common, and where it reads."""
        y = self.y.part(part.rows.start, len(part.rows))
        x = self.x.part(part.columns.start, len(part.columns))
        if self._facts.byte_step:
            fields, place = self._string_window(source[0], y, x, region)
        elif self._far(region):
            fields, place = read_row(source[0], y, x, region[1], region[0].start, source[1])
        else:
            fields, place = read_window(source[0], y, x, region, source[1])
        extents = {"rows": len(region[0]), "columns": len(region[1])}
        others = {
            "inner": Axis.X,
            "blocks": len(part.blocks),
            "pad": self._layer.input_zero_point,
            "weight_zero_point": self._layer.weight_zero_point,
            "int16": int(self._layer.int16),
            "int4": int(self._facts.int4),
            "digit": self._digit(part),
        }
        return extents | fields | others, place

    def _far(self, region: tuple[range, range]) -> bool:
        """Whether the columns of a region are too far apart for one row of a command."""
        return self.x.stride > LARGEST_STRIDE and len(region[1]) > 1

    def _digit(self, part: Pass) -> int:
        """Return the digit of the weights of a pass, whose channel blocks have the same."""
        digits = self._layer.digits
        return 0 if digits is None else int(digits[part.blocks.start * self._size])

    def _string_window(
        self, source: View, y: Axis1D, x: Axis1D, region: tuple[range, range]
    ) -> tuple[dict[str, int], Region]:
        """Return fields and place of a region that reads packed rows."""
        step, size = self._facts.byte_step, self._size
        start = region[1].start * step
        if start % size:
            raise ValueError(f"Columns of packed rows must begin at a vector, not at byte {start}")
        last = (region[1].stop - 1) * step // size + 1  # always two vectors are read
        vectors = (region[0], range(start // size, last + 1))
        fields, place = read_window(source, y, x, vectors, 0)
        return fields | {"byte_step": step % BYTE_STEPS}, place


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
