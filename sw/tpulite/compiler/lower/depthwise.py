"""Depthwise convolutions: each column of the array filters a channel of its own."""

from collections.abc import Iterator
from itertools import product
from math import gcd

import numpy as np

from tpulite.arch.isa import Axis, Drain, Opcode
from tpulite.compiler.geometry.axis import LARGEST_EXTENT, LARGEST_KERNEL, Axis1D, needed_rows
from tpulite.compiler.geometry.cut import cut_parts, cut_strips, split
from tpulite.compiler.lower.context import LayerContext
from tpulite.compiler.lower.conv.weights import Drained, folded_bias
from tpulite.compiler.lower.lowering import Lowering
from tpulite.compiler.lower.window import read_window
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant, channel_records
from tpulite.compiler.place.stores import View
from tpulite.compiler.plan.depthwise_plan import DepthwisePlan, depthwise_plan
from tpulite.graph.layers import Depthwise

__all__ = ["DepthwiseLowering"]


class DepthwiseLowering(Lowering[Depthwise]):
    """A depthwise convolution.

    Dilated ones run as phases: outputs that are some positions apart read inputs that are a
    multiple of the dilation apart. If constants do not stay, nor does the image: each pass loads
    the rows of the one channel block that it reads.
    """

    def __init__(self, layer: Depthwise, context: LayerContext) -> None:
        super().__init__(layer, context)
        self._kernel = layer.weight.shape[:2]
        common = [gcd(s, d) for s, d in zip(layer.stride, layer.dilation, strict=True)]
        # Outputs of a phase are `period` apart, and their inputs `step` times the dilation.
        self._period = [d // g for d, g in zip(layer.dilation, common, strict=True)]
        self._step = (layer.stride[0] // common[0], layer.stride[1] // common[1])
        sums = (layer.weight.astype(np.int64) - layer.weight_zero_point).sum(axis=(0, 1))
        requantization = layer.requantization
        bias = np.broadcast_to(requantization.bias, len(sums))
        bias = folded_bias(bias, sums, layer.input_zero_point)
        form, blocks = channel_records(requantization, bias, self._config)
        self._drained = Drained(form, tuple(context.constant("records", rows) for rows in blocks))
        self._weights: dict[tuple[object, ...], Constant] = {}
        self._by_pass = context.fleeting and not self._source.resident
        self._y = Axis1D(
            self._source.height,
            layer.stride[0],
            layer.dilation[0],
            self._kernel[0],
            layer.padding[0],
        )

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        index, target = self._context.index, self._target
        # Sums of a column must fit the accumulators, its rows a command (depthwise_plan).
        reach = (self._kernel[0] - 1) * self._layer.dilation[0]
        most = max(1, (LARGEST_EXTENT - 1 - reach) // self._layer.stride[0] + 1)
        columns = -(-self._config.acc_rows // most)
        for part in cut_parts(rows, columns, self._config, grain=target.grain, parts=1):
            out = target.open(part)
            view = None
            if not self._source.resident and not self._by_pass:
                view, loads = self._source.read(needed_rows(self._y, part), index)
                yield from loads
            for py, px in product(*map(range, self._period)):
                yield from self._phase(part, view, out, (py, px))
            if max(self._period) > 1:
                start = part.start // target.grain * target.grain
                yield from target.store(out, range(start, part.stop), index)

    def strips(self) -> tuple[range, ...]:  # noqa: D102
        source, target = self._source, self._target
        strips: tuple[range, ...] = (range(target.height),)
        if not (source.resident and target.resident):
            per_row = 0
            if not source.resident:
                per_row += source.blocks * source.width * self._y.stride
            if not target.resident:
                per_row += target.blocks * target.width
            strips = cut_strips(target.height, per_row, self._context.strip_rows, target.grain)
        return strips

    def _phase(
        self, strip: range, view: View | None, out: View, phase: tuple[int, int]
    ) -> Iterator[Op]:
        """Compute the outputs whose coordinates are ``phase`` modulo the period.

        If that is all of them, they are stored, too.
        """
        index = self._context.index
        outputs = [
            range(-(-(whole.start - p) // d), -(-(whole.stop - p) // d))
            for whole, p, d in zip(
                (strip, range(self._target.width)), phase, self._period, strict=True
            )
        ]
        if not all(outputs):
            return
        counts = (len(outputs[0]), len(outputs[1]))
        plan = depthwise_plan(
            self._kernel,
            self._step,
            counts,
            self._config,
            interleaved=self._context.options.interleaved,
            rows=self._most_taps() if self._by_pass else LARGEST_KERNEL,
            dilation=self._layer.dilation,
        )
        i = 1 if plan.inner == Axis.X else 0
        stored = strip.start // self._target.grain * self._target.grain
        for group in split(counts[i], -(-counts[i] // plan.outputs), 1):
            inner = range(outputs[i].start + group.start, outputs[i].start + group.stop)
            region = (inner, outputs[1]) if i == 0 else (outputs[0], inner)
            axes = self._axes(phase, (range(self._kernel[0]), range(self._kernel[1])))
            source = view
            if source is None and not self._by_pass:
                source, loads = self._source.read(needed_rows(axes[0], region[0]), index)
                yield from loads
            for block in range(self._target.blocks):
                yield from self._block(source, out, plan, region, phase, block)
            complete = strip.stop if group.stop == counts[i] else stored
            if i == 0 and complete != strip.stop:
                complete = max(stored, inner.stop // self._target.grain * self._target.grain)
            if max(self._period) == 1 and complete > stored:
                yield from self._target.store(out, range(stored, complete), index)
                stored = complete

    def _most_taps(self) -> int:
        """Return the kernel rows of a pass that loads what it reads: a quarter of the buffer."""
        rows = self._context.free_rows // 4 // self._source.width
        return max(1, (rows - 1) // self._layer.dilation[0] + 1)

    def _axes(self, phase: tuple[int, int], taps: tuple[range, range]) -> tuple[Axis1D, Axis1D]:
        """Return the geometry of a phase."""
        layer = self._layer
        y, x = (
            Axis1D(extent, step * d, d, len(tap), pad - p * stride, tap.start)
            for extent, step, d, stride, tap, pad, p in zip(
                (self._source.height, self._source.width),
                self._step,
                layer.dilation,
                layer.stride,
                taps,
                (layer.padding[0], self._pad_left(layer.padding[1], layer.stride[1])),
                phase,
                strict=True,
            )
        )
        return y, x

    def _block(
        self,
        source: View | None,
        out: View,
        plan: DepthwisePlan,
        region: tuple[range, range],
        phase: tuple[int, int],
        block: int,
    ) -> Iterator[Op]:
        layer, config, index = self._layer, self._config, self._context.index
        passes = list(product(*plan.kernel))
        at_once = config.lanes == config.array_size
        dy, dx = self._period
        drain: dict[str, int] = self._drained.fields() | {
            "out_pitch": dy * out.pitch,
            "out_step": dx,
        }
        record, record_loads = self._drained.records[block].use()
        out_row = out.at(region[0].start * dy + phase[0], region[1].start * dx + phase[1], block)
        targets: dict[str, Region] = {"record_row": record, "out_row": out_row}
        common = {
            "rows": len(region[0]),
            "columns": len(region[1]),
            "inner": plan.inner,
            "weight_zero_point": layer.weight_zero_point,
            "pad": layer.input_zero_point,
            "blocks": 1,
        }
        for number, taps in enumerate(passes):
            y, x = self._axes(phase, taps)
            view, place_block = source, block
            if view is None:
                store = self._source.some_blocks(range(block, block + 1))
                view, loads = store.read(needed_rows(y, region[0]), index)
                yield from loads
                place_block = 0
            fields, place = read_window(view, y, x, region, place_block)
            fields |= common | {
                "depthwise": 1,
                "stride_y": self._step[0],  # in steps of the dilation
                "stride_x": self._step[1],
                "accumulate": int(number > 0),
                "drain": Drain.KEEP,
            }
            weights, loads = self._tile(plan, taps, region, block).use()
            yield from loads
            places = {"act_row": place, "weight_row": weights}
            if at_once and number == len(passes) - 1:
                yield from record_loads
                fields |= drain
                places |= targets
            yield Op(Opcode.CONV, index, fields, places)
        if not at_once:
            yield from record_loads
            yield from self._flush(source, common | drain, targets)

    def _flush(
        self, source: View | None, fields: dict[str, int], places: dict[str, Region]
    ) -> Iterator[Op]:
        """Drain sums by multiplying anything by zero: drains must keep the requantizer's pace."""
        size = self._config.array_size
        if (key := ("zeros",)) not in self._weights:
            tile = np.full((size, size), self._layer.weight_zero_point, np.int8)
            self._weights[key] = self._context.constant("zeros", tile)
        weights, loads = self._weights[key].use()
        yield from loads
        ones = dict.fromkeys(
            (
                "stride_y",
                "stride_x",
                "dilation_y",
                "dilation_x",
                "height",
                "width",
                "kernel_rows",
                "kernel_columns",
                "accumulate",
            ),
            1,
        )
        anything = weights if source is None else Region(source.buffer, source.row)
        places = places | {"act_row": anything, "weight_row": weights}
        yield Op(Opcode.CONV, self._context.index, fields | ones, places)

    def _tile(
        self,
        plan: DepthwisePlan,
        taps: tuple[range, range],
        region: tuple[range, range],
        block: int,
    ) -> Constant:
        """Return the weight tile of a pass: tap (outer, inner) at row R * outer + inner."""
        layer, size = self._layer, self._config.array_size
        i, o = (1, 0) if plan.inner == Axis.X else (0, 1)
        interleaved = (len(region[i]) - 1) * self._step[i] + len(taps[i])
        key = (plan.inner, interleaved, taps, block)
        if key not in self._weights:
            channels = slice(block * size, (block + 1) * size)
            weight = layer.weight[taps[0].start : taps[0].stop, taps[1].start : taps[1].stop]
            weight = weight[:, :, channels]
            if plan.inner == Axis.Y:
                weight = weight.transpose(1, 0, 2)
            tile = np.full((size, size), layer.weight_zero_point, np.int8)
            for outer, inner in product(range(len(taps[o])), range(len(taps[i]))):
                row = interleaved * outer + inner
                tile[row, : weight.shape[2]] = weight[outer, inner]
            bank = self._config.ub_banks // 2
            self._weights[key] = self._context.constant("weights", tile, bank=bank)
        return self._weights[key]
