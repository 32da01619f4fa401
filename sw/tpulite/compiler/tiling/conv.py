"""Convolutions on the systolic array."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Opcode, RecordForm
from tpulite.compiler.ops import Op
from tpulite.compiler.tiling.constants import Constant, channel_records
from tpulite.compiler.tiling.context import Context
from tpulite.compiler.tiling.cut import cut_columns, cut_parts, cut_strips, split
from tpulite.compiler.tiling.images import View
from tpulite.compiler.tiling.lowering import Lowering
from tpulite.compiler.tiling.offset import Offset
from tpulite.compiler.tiling.window import LARGEST_KERNEL, Axis1D, needed_rows, read_window
from tpulite.graph.layers import Conv
from tpulite.layout import pack_weights

__all__ = ["ConvLowering", "Drained", "folded_bias"]

_EARLY = 9
"""k-tiles of the first command of a layer, more or less: it starts when they are there."""


@dataclass(frozen=True)
class Drained:
    """Records of a layer: a constant for each n-block, or none for raw sums."""

    form: RecordForm
    records: tuple[Constant, ...]

    def fields(self) -> dict[str, int]:
        """Return the fields of a command that drains."""
        if not self.records:
            return {"drain": Drain.RAW}
        return {"drain": Drain.REQUANTIZE, "record_form": self.form}


@dataclass(frozen=True)
class _Pass:
    """What one command of an n-block multiplies: part of the kernel and of the channel blocks."""

    rows: range
    columns: range
    blocks: range


def folded_bias(bias: np.ndarray, sums: np.ndarray, zero_point: int) -> np.ndarray:
    """Return biases less what the zero point of the input contributes, wrapped to int32."""
    return (bias.astype(np.int64) - zero_point * sums).astype(np.int32)


class ConvLowering(Lowering[Conv]):
    """A convolution.

    Each strip is cut into the parts of single commands. Parts of all n-blocks are computed one
    after the other, so that the next layer can start on what is complete; if the weights are too
    many to stay, an n-block is finished first.
    """

    def __init__(self, layer: Conv, context: Context) -> None:
        super().__init__(layer, context)
        strings = self._source.spec and self._source.spec.strings
        self._strings = bool(strings)
        self._transposed = strings is not None and strings.transposed
        self._weight, self._channels = self._as_strings() if self._strings else (layer.weight, None)
        kh, kw = self._weight.shape[:2]
        order = slice(None, None, -1) if self._transposed else slice(None)
        stride, dilation = layer.stride[order], layer.dilation[order]
        padding = layer.padding[:2][order]
        source = self._source
        self._y = Axis1D(source.height, stride[0], dilation[0], kh, padding[0])
        left = self._pad_left(padding[1], stride[1])
        self._x = Axis1D(source.width, stride[1], dilation[1], kw, left)
        if self._strings:  # columns are bytes; padding before the first is in the string
            self._x = Axis1D(source.width, 1, 1, kw, 0)
        target = (self._target.height, self._target.width)[order]
        self._height, self._width = target
        outputs = range(-(-self._weight.shape[3] // self._config.array_size))
        # The first n-block starts when some of its weights are there.
        self._passes = tuple(self._make_passes(early=n == 0) for n in outputs)
        self._weights = [self._pack_weights(n) for n in outputs]
        self._offsets: list[Offset] = []
        self._drained = self._pack_records()
        rows = [constant.rows for parts in self._weights for constant in parts]
        self._keep = context.keep
        if self._keep is None:
            self._keep = sum(rows) <= self._config.ub_rows // 3
        self._weights_at_once = sum(rows) if self._keep else 2 * max(rows)

    def _as_strings(self) -> tuple[np.ndarray, int]:
        """Return the weights [kh, chunks, N, outputs] that multiply strings, and the channels."""
        weight = self._layer.weight
        if self._transposed:
            weight = weight.transpose(1, 0, 2, 3)
        kh, kw, channels, outputs = weight.shape
        size = self._config.array_size
        flat = weight.reshape(kh, kw * channels, outputs)
        pad = ((0, 0), (0, -kw * channels % size), (0, 0))
        flat = np.pad(flat, pad, constant_values=self._layer.weight_zero_point)
        return flat.reshape(kh, -1, size, outputs), channels

    def _make_passes(self, *, early: bool) -> tuple[_Pass, ...]:
        kh, kw, channels, _ = self._weight.shape
        blocks = -(-channels // self._config.array_size)
        rows = split(kh, -(-kh // LARGEST_KERNEL), 1)
        columns = split(kw, -(-kw // LARGEST_KERNEL), 1)
        # The weights of a command must not crowd out everything else.
        most = max(1, self._config.ub_rows // 8 // self._config.array_size)
        if len(rows[0]) * len(columns[0]) > 2 * most:  # even those of one block would
            rows = split(kh, -(-kh * len(columns[0]) // most), 1)
        taps = len(rows[0]) * len(columns[0])
        chunks = list(split(blocks, -(-blocks * taps // most), 1))
        if early and blocks * taps >= _EARLY:
            first = chunks[0]
            sizes = [len(piece) for piece in split(len(first), -(-len(first) * taps // _EARLY), 1)]
            bounds = [0, *accumulate(sizes)]
            chunks[:1] = [range(a, b) for a, b in pairwise(bounds)]
        return tuple(_Pass(r, c, b) for b in chunks for r in rows for c in columns)

    def _pack_weights(self, n: int) -> tuple[Constant, ...]:
        """Return the weights of an n-block by pass."""
        size, zero_point = self._config.array_size, self._layer.weight_zero_point
        bank = self._config.ub_banks // 2
        constants = []
        for part in self._passes[n]:
            channels = slice(part.blocks.start * size, part.blocks.stop * size)
            weight = self._weight[
                part.rows.start : part.rows.stop,
                part.columns.start : part.columns.stop,
                channels,
                n * size : (n + 1) * size,
            ]
            kh, kw, depth, outputs = weight.shape
            pad = ((0, 0), (0, 0), (0, -depth % size), (0, 0))
            weight = np.pad(weight, pad, constant_values=zero_point)
            tiles = weight.reshape(kh, kw, -1, size, outputs).transpose(2, 0, 1, 3, 4)
            matrix = tiles.reshape(-1, outputs)
            packed = pack_weights(matrix, self._config, zero_point=zero_point)
            constants.append(self._context.constant("weights", packed, bank=bank))
        return tuple(constants)

    def _pack_records(self) -> Drained:
        layer, requantization = self._layer, self._layer.requantization
        sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1, 2))
        if requantization is None:
            if layer.input_zero_point:
                size = self._config.array_size
                offsets = -layer.input_zero_point * sums
                self._offsets = [
                    Offset(offsets[start : start + size], self._context)
                    for start in range(0, len(offsets), size)
                ]
            return Drained(RecordForm.FULL, ())
        bias = np.broadcast_to(requantization.bias, len(sums))
        bias = folded_bias(bias, sums, layer.input_zero_point)
        form, blocks = channel_records(requantization, bias, self._config)
        constants = tuple(self._context.constant("records", rows) for rows in blocks)
        return Drained(form, constants)

    def strips(self) -> tuple[range, ...]:  # noqa: D102
        source, target = self._source, self._target
        if source.resident and target.resident:
            return (range(self._height),)
        per_row = 0
        if not source.resident:
            per_row += source.blocks * source.width * self._y.stride
        if not target.resident:
            per_row += target.rows // target.height
        budget = self._context.strip_rows
        if not self._keep:  # each strip loads all weights again: as few strips as possible
            budget = max(budget, (self._context.free_rows - self._weights_at_once) * 3 // 4)
        if not source.resident:  # the halo
            reach = (self._y.kernel - 1) * self._y.dilation
            budget -= min(budget // 2, source.blocks * source.width * reach)
        return cut_strips(self._height, per_row, budget, target.grain)

    def _regions(self, strip: range) -> list[tuple[range, range]]:
        columns = cut_columns(self._width, self._config)
        grain = self._target.grain if self._target.spec else 1
        grain = min(grain, self._config.acc_rows // len(columns[0]))
        rows = cut_parts(
            strip,
            len(columns[0]),
            self._config,
            grain=grain,
            block_start=self._context.options.block_start,
        )
        return [(r, c) for r in rows for c in columns]

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        index, blocks = self._context.index, range(len(self._weights))
        regions = self._regions(rows)
        parts = [(region, n) for region in regions for n in blocks]
        if not self._keep:
            parts = [(region, n) for n in blocks for region in regions]
        out = self._target.open(rows)
        view = None
        if not self._source.resident:
            view, loads = self._source.read(needed_rows(self._y, rows), index)
            yield from loads
        loaded: set[int] = set()
        stored = rows.start // self._target.grain * self._target.grain
        last = {region[0]: number for number, (region, _) in enumerate(parts)}
        for number, ((out_rows, columns), n) in enumerate(parts):
            fresh = again and not self._keep and n not in loaded
            loaded.add(n)
            source = view
            if source is None:
                source, loads = self._source.read(needed_rows(self._y, out_rows), index)
                yield from loads
            yield from self._block(source, out, (out_rows, columns), n, again=fresh)
            complete = out_rows.stop // self._target.grain * self._target.grain
            if out_rows.stop == rows.stop:
                complete = rows.stop
            if last[out_rows] == number and complete > stored:
                yield from self._target.store(out, range(stored, complete), index)
                stored = complete

    def _block(
        self, source: View, out: View, region: tuple[range, range], n: int, *, again: bool
    ) -> Iterator[Op]:
        """Compute one n-block of a region: a command for each pass."""
        if self._offsets:
            extents = (len(region[0]), len(region[1]))
            yield from self._offsets[n].ops(source, *extents, again=again)
        for k, part in enumerate(self._passes[n]):
            weights, loads = self._weights[n][k].use(again=again)
            yield from loads
            y = Axis1D(
                self._y.extent,
                self._y.stride,
                self._y.dilation,
                len(part.rows),
                self._y.pad,
                part.rows.start,
            )
            x = Axis1D(
                self._x.extent,
                self._x.stride,
                self._x.dilation,
                len(part.columns),
                self._x.pad,
                part.columns.start,
            )
            if self._strings:
                fields, place = self._string_window(source, y, x, region)
            else:
                fields, place = read_window(source, y, x, region, part.blocks.start)
            fields |= {
                "rows": len(region[0]),
                "columns": len(region[1]),
                "inner": Axis.X,
                "blocks": len(part.blocks),
                "pad": self._layer.input_zero_point,
                "weight_zero_point": self._layer.weight_zero_point,
                "accumulate": int(k > 0 or bool(self._offsets)),
                "drain": Drain.KEEP,
            }
            places = {"act_row": place, "weight_row": weights}
            if k == len(self._passes[n]) - 1:
                fields |= self._drained.fields()
                if self._drained.records:
                    places["record_row"], loads = self._drained.records[n].use(again=again)
                    yield from loads
                step = 1 if self._drained.records else RAW_ROWS
                if self._transposed:
                    places["out_row"] = out.at(region[1].start, region[0].start, n, step=step)
                    fields |= {"out_pitch": step, "out_step": out.pitch}
                else:
                    places["out_row"] = out.at(region[0].start, region[1].start, n, step=step)
                    fields |= {"out_pitch": out.pitch, "out_step": step}
            yield Op(Opcode.CONV, self._context.index, fields, places)

    def _string_window(self, source: View, y: Axis1D, x: Axis1D, region: tuple[range, range]):
        """Return fields and place of a region that reads strings."""
        assert self._channels is not None
        order = slice(None, None, -1) if self._transposed else slice(None)
        step = self._layer.stride[order][1] * self._channels
        start = region[1].start * step
        size = self._config.array_size
        if start % size:
            raise ValueError(f"Columns of strings must begin at a vector, not at byte {start}")
        last = (region[1].stop - 1) * step // size + 1  # always two vectors are read
        vectors = (region[0], range(start // size, last + 1))
        fields, place = read_window(source, y, x, vectors, 0)
        return fields | {"byte_step": step}, place
