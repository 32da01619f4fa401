"""Works out what a CONV asks of each part of the matrix unit: all its products in one place."""

from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Drain, Engine, Opcode, RecordForm
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import INDEX_BITS, command_layout
from tpulite_rtl.mxu.accumulator import DRAIN_COMMAND
from tpulite_rtl.mxu.slots import VECTOR_COMMAND
from tpulite_rtl.mxu.weight_sequencer import WEIGHT_COMMAND
from tpulite_rtl.vpu.record_loader import RECORD_COMMAND

__all__ = ["PREPARED", "REGIONS", "Preparation"]

_REGION_BITS = 28
"""Width of the last row of a region: two products of 11 by 14 bits and some more."""

REGIONS = ("accumulators", "weights", "records", "output", "image")
"""Regions of a CONV, in the order in which they are checked."""

PREPARED = data.StructLayout(
    {
        "wait": len(Engine),
        "prefetch": 1,
        "index": INDEX_BITS,
        "requantizes": 1,
        "drained": 1,
        "last_rows": data.StructLayout(dict.fromkeys(REGIONS, _REGION_BITS)),
        "weights": WEIGHT_COMMAND,
        "records": RECORD_COMMAND,
        "vectors": VECTOR_COMMAND,
        "drains": DRAIN_COMMAND,
    }
)
"""A CONV whose shares are worked out. They hold if all regions that it uses are in range."""


@dataclass(frozen=True)
class _Axis:
    """What the two axes of the output have in common."""

    last: Value  # outputs less one
    positions_last: Value  # positions of the stream less one
    tail: Value
    period: Value
    rows: Value
    out_step: Value


class Preparation(wiring.Component):
    """Compute the shares of each CONV, and the last row of each region that it uses.

    Latency is one cycle; throughput is one command per cycle.

    Parameters
    ----------
    config : Config
        Geometry.

    Members
    -------
    i : In(stream.Signature(command_layout(Opcode.CONV)))
        Commands of the queue.
    o : Out(stream.Signature(PREPARED))
        The same commands, prepared.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(Opcode.CONV))),
                "o": Out(stream.Signature(PREPARED)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, command = self.config, self.i.payload
        depthwise = command.depthwise
        dense = Signal()
        m.d.comb += dense.eq(command.byte_step != 0)

        def less_one(name: str) -> Signal:
            """Return a field of at least one, less one: still unsigned."""
            result = Signal(len(command[name]), name=f"{name}_less_one")
            m.d.comb += result.eq(command[name] - 1)
            return result

        last_row, last_column, last_block = map(less_one, ("rows", "columns", "blocks"))
        kernel_rows, kernel_columns = map(less_one, ("kernel_rows", "kernel_columns"))
        last_image_row = less_one("height")
        tap_rows, line_rows = Signal(ROW_BITS), Signal(ROW_BITS)
        vectors = Signal(len(command.rows) + len(command.columns))
        tiles = Signal(len(command.blocks) + len(command.kernel_rows) + len(command.kernel_columns))
        m.d.comb += [
            tap_rows.eq(command.dilation_y * command.act_pitch),
            line_rows.eq(command.stride_y * command.act_pitch),
            vectors.eq(command.rows * command.columns),
            tiles.eq(
                Mux(depthwise, 1, command.blocks * (command.kernel_rows * command.kernel_columns))
            ),
        ]

        # The axes, and which of them is the inner one. In depthwise mode a position is an input
        # vector, so that strides show between sums; in dense mode a vector follows the next.
        def if_depthwise(value: Value, other: Value | int) -> Value:
            return Mux(depthwise, value, other)

        y = _Axis(
            last=last_row,
            positions_last=last_row * if_depthwise(command.stride_y, 1)
            + if_depthwise(kernel_rows, 0),
            tail=if_depthwise(kernel_rows, 0),
            period=if_depthwise(command.stride_y, 1),
            rows=if_depthwise(tap_rows, line_rows),
            out_step=command.out_pitch,
        )
        step_x = Mux(dense, 1, if_depthwise(command.dilation_x, command.stride_x))
        x = _Axis(
            last=last_column,
            positions_last=last_column * if_depthwise(command.stride_x, 1)
            + if_depthwise(kernel_columns, dense),
            tail=if_depthwise(kernel_columns, 0),
            period=if_depthwise(command.stride_x, 1),
            rows=step_x,
            out_step=command.out_step,
        )
        by_y = command.inner == Axis.Y

        prepared = Signal(PREPARED)
        m.d.comb += [
            prepared.wait.eq(command.wait),
            prepared.prefetch.eq(command.prefetch),
            prepared.index.eq(command.index),
            prepared.requantizes.eq(command.drain == Drain.REQUANTIZE),
            prepared.drained.eq(command.drain != Drain.KEEP),
            prepared.last_rows.accumulators.eq(command.acc_row + vectors - 1),
            prepared.last_rows.weights.eq(
                command.weight_row + (tiles << exact_log2(config.array_size)) - 1
            ),
            prepared.last_rows.records.eq(
                command.record_row
                + Mux(
                    command.record_form == RecordForm.SHORT,
                    config.short_record_rows - 1,
                    config.record_rows - 1,
                )
            ),
            prepared.last_rows.output.eq(
                (last_row * command.out_pitch + last_column * command.out_step)
                + (command.out_row + Mux(command.drain == Drain.RAW, RAW_ROWS - 1, 0))
            ),
            prepared.last_rows.image.eq(
                (last_block * command.act_block_pitch + last_image_row * command.act_pitch)
                + (command.act_row + command.width - 1)
            ),
            prepared.weights.weight_row.eq(command.weight_row),
            prepared.weights.k_tiles.eq(tiles),
            prepared.records.record_row.eq(command.record_row),
            prepared.records.record_form.eq(command.record_form),
            prepared.records.index.eq(command.index),
            prepared.vectors.dense.eq(dense),
            prepared.vectors.step_y.eq(if_depthwise(command.dilation_y, command.stride_y)),
            prepared.vectors.step_x.eq(step_x),
            prepared.vectors.origin.eq(
                command.act_row - command.pad_top * command.act_pitch - command.pad_left
            ),
            prepared.vectors.tap_rows.eq(tap_rows),
            prepared.vectors.last_block.eq(last_block),
            # A depthwise kernel is in the stream itself.
            prepared.vectors.last_kernel_row.eq(Mux(depthwise, 0, kernel_rows)),
            prepared.vectors.last_kernel_column.eq(Mux(depthwise, 0, kernel_columns)),
            prepared.drains.m.eq(vectors),
            prepared.drains.k_tiles.eq(tiles),
            prepared.drains.inner_last.eq(Mux(by_y, y.last, x.last)),
            prepared.drains.inner_step.eq(Mux(by_y, y.out_step, x.out_step)),
            prepared.drains.outer_step.eq(Mux(by_y, x.out_step, y.out_step)),
        ]
        for axis, first, second in (
            (prepared.vectors.inner_axis, x, y),
            (prepared.vectors.outer_axis, y, x),
        ):
            m.d.comb += [
                axis.last.eq(Mux(by_y, second.positions_last, first.positions_last)),
                axis.tail.eq(Mux(by_y, second.tail, first.tail)),
                axis.period.eq(Mux(by_y, second.period, first.period)),
                axis.rows.eq(Mux(by_y, second.rows, first.rows)),
            ]
        for share, layout in (
            (prepared.vectors, VECTOR_COMMAND),
            (prepared.drains, DRAIN_COMMAND),
        ):
            same = [name for name in layout.members if name in command.shape().members]
            m.d.comb += [share[name].eq(command[name]) for name in same]

        advance = Signal()
        m.d.comb += [
            advance.eq(self.o.ready | ~self.o.valid),
            self.i.ready.eq(advance),
        ]
        with m.If(advance):
            m.d.sync += [self.o.payload.eq(prepared), self.o.valid.eq(self.i.valid)]
        return m
