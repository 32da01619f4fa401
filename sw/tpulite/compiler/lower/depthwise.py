"""Depthwise convolutions: each column of the array filters a channel of its own."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tpulite.arch.interleave import interleave
from tpulite.arch.isa import Axis, Drain, Opcode
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.lower.window import read_window
from tpulite.compiler.ops import Op, Region
from tpulite.compiler.place.constants import Constant
from tpulite.compiler.place.views import View
from tpulite.compiler.place.weights import filter_tiles, layer_records
from tpulite.compiler.plan.depthwise_plan import DepthwisePlan
from tpulite.compiler.plan.depthwise_rows import DepthwisePhase, DepthwiseRows
from tpulite.graph.layers import Depthwise


class DepthwiseLowering(Lowering[Depthwise, DepthwiseRows]):
    """A depthwise convolution.

    Strips, phases and regions are those of :class:`tpulite.compiler.plan.depthwise_rows`.
    """

    def __init__(self, layer: Depthwise, context: LayerContext, plan: DepthwiseRows) -> None:
        super().__init__(layer, context, plan)
        self._form, blocks = layer_records(layer, self._config)
        self._records = [context.constant("records", rows) for rows in blocks]
        self._tiles: dict[tuple[object, ...], np.ndarray] = {}
        self._weights: dict[tuple[object, ...], Constant] = {}

    def strip(self, rows: range, *, again: bool = False) -> Iterator[Op]:  # noqa: D102
        index, target, plan = self._context.index, self._target, self._plan
        for part in plan.parts(rows):
            out = target.open(part)
            view = None
            if not self._source.resident and not plan.by_pass:
                view, loads = self._source.read(plan.y.needed(part), index)
                yield from loads
            for phase in plan.phases(part):
                yield from self._phase(part, view, out, phase)
            if max(plan.period) > 1:
                start = part.start // target.grain * target.grain
                yield from target.store(out, range(start, part.stop), index)

    def _phase(
        self, part: range, view: View | None, out: View, phase: DepthwisePhase
    ) -> Iterator[Op]:
        """Compute the outputs of a phase. If that is all of them, they are stored, too."""
        index, grain = self._context.index, self._target.grain
        y, _ = self._plan.axes(phase.first)
        stored = part.start // grain * grain
        for region in phase.regions:
            source = view
            if source is None and not self._plan.by_pass:
                source, loads = self._source.read(y.needed(region[0]), index)
                yield from loads
            for block in range(self._target.blocks):
                yield from self.block(source, out, phase, region, block)
            complete = part.stop
            if region != phase.regions[-1]:
                whole = phase.pattern.inner == Axis.Y
                complete = max(stored, region[0].stop // grain * grain) if whole else stored
            if max(self._plan.period) == 1 and complete > stored:
                yield from self._target.store(out, range(stored, complete), index)
                stored = complete

    def block(
        self,
        source: View | None,
        out: View,
        phase: DepthwisePhase,
        region: tuple[range, range],
        block: int,
    ) -> Iterator[Op]:
        """Yield the commands that compute a region of a phase, of one channel block.

        Parameters
        ----------
        source : View, optional
            Rows of the input, if passes do not load their own.
        out : View
            Where the result goes.
        region : tuple of range
            Rows and columns, counted in periods.
        block : int
            The channel block.
        """
        layer, config, index = self._layer, self._config, self._context.index
        plan, first = phase.pattern, phase.first
        passes = list(product(*plan.kernel))
        at_once = config.lanes == config.array_size
        dy, dx = self._plan.period
        assert self._form is not None
        drain: dict[str, int] = {
            "drain": Drain.REQUANTIZE,
            "record_form": self._form,
            "out_pitch": dy * out.pitch,
            "out_step": dx,
        }
        record, record_loads = self._records[block].use()
        out_row = out.at(region[0].start * dy + first[0], region[1].start * dx + first[1], block)
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
            y, x = self._plan.axes(first, taps)
            view, place_block = source, block
            if view is None:
                store = self._source.some_blocks(range(block, block + 1))
                view, loads = store.read(y.needed(region[0]), index)
                yield from loads
                place_block = 0
            fields, place = read_window(view, y, x, region, place_block)
            fields |= common | {
                "depthwise": 1,
                "stride_y": self._plan.step[0] // taps[0].step,  # in steps of the dilation
                "stride_x": self._plan.step[1] // taps[1].step,
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
        """Return the weight tile of a pass."""
        size = self._config.array_size
        i, o = (1, 0) if plan.inner == Axis.X else (0, 1)
        kernel = len(taps[o]), len(taps[i])
        step, dilation = taps[i].step, (self._plan.y, self._plan.x)[i].dilation
        axis = len(region[i]), self._plan.step[i] // step, dilation * step
        way = interleave(plan.inner, *axis, kernel, self._config)
        rows = tuple(way.row(*tap) for tap in product(*map(range, kernel)))
        part = plan.inner, rows, taps, plan.repeated(taps)
        key = *part, block
        if part not in self._tiles:
            self._tiles[part] = filter_tiles(self._layer, taps, plan.inner, way, size, part[-1])
        if key not in self._weights:
            tile, bank = self._tiles[part][block], self._config.ub_banks // 2
            self._weights[key] = self._context.constant("weights", tile, bank=bank)
        return self._weights[key]
