"""Walks through the image of a CONV: which vector, or which padding, comes next."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Drain, RecordForm
from tpulite_rtl.lib.apart import apart
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.mxu.slots import slot_layout, vector_command

__all__ = ["ImageWalker"]

_COORDINATE_BITS = 20
"""Width of a signed coordinate: 30,705 positions at dilation 15 reach 460,560."""

_AHEAD = 2
"""Slots that wait for the buffer: two keep one a cycle, though each step looks at registers."""

_LOOPS = ("inner", "outer", "kernel_column", "kernel_row", "block")


class ImageWalker(wiring.Component):
    """Turn each CONV into its slots, one a cycle, without a gap between commands.

    Five nested loops, the innermost first: position on the inner axis, position on the outer axis,
    kernel column, kernel row, channel block. A position is an output vector; in depthwise mode, an
    input vector of the stream; in dense mode a row of the region has one position more, before its
    first output, that only fills the window. A pair of vectors is one position, that of the even
    one; the odd one lies a column before it. A transposed weight tile has N slots before those of
    its vectors. Everything is counted by increments.

    The first slot is offered two cycles after the command was, and one more each cycle.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands in order.
                "command": In(stream.Signature(vector_command(config))),
                # Slots.
                "o": Out(stream.Signature(slot_layout(config))),
                # A command is here, or a slot of it.
                "busy": Out(1),
                # This command.
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Slots wait for the buffer here, so that no step does.
        m.submodules.slots = slots = StreamFifo(slot_layout(self.config), _AHEAD)
        connect(m, slots.o, flipped(self.o))
        share = vector_command(self.config)
        command = Signal(share, reset_less=True)
        now = Signal(share)  # the command of the next cycle's slot
        active = Signal()
        load, step = Signal(), Signal()
        apart(active)
        loading = Signal()  # rows of a transposed weight tile enter, and the loops wait
        walks = step & ~loading if self.config.has_transposed_tiles else step

        # The loops: steps left after this one, whether there are none, and the row at which each
        # one's step began. Exactly one loop goes on in a step, the innermost that has not ended.
        moves = Signal(init=1)  # a vector enters: always but in dense mode
        limits = _limits(command)
        inner_rows, step_x = command.inner_axis.rows, command.step_x
        left = [
            Signal(len(limit), name=f"{loop}_left")
            for loop, limit in zip(_LOOPS, limits, strict=True)
        ]
        upper = Const(0)
        if self.config.int16:  # pairs are even in number and counted down; their vectors adjoin
            upper = command.int16 & left[0][0]
            inner_rows, step_x = (Mux(upper, 1, value) for value in (inner_rows, step_x))
        strides = (
            Mux(moves, inner_rows, 0),
            command.outer_axis.rows,
            command.dilation_x,
            command.tap_rows,
            command.act_block_pitch,
        )
        rows = [Signal(ROW_BITS, name=f"{loop}_row") for loop in _LOOPS]
        ended = [Signal(name=f"{loop}_ended") for loop in _LOOPS]
        goes = []
        for depth, loop in enumerate(_LOOPS):
            go, row = Signal(name=f"{loop}_goes"), Signal(ROW_BITS, name=f"{loop}_next_row")
            m.d.comb += [
                go.eq(walks & Cat(ended[:depth]).all() & ~ended[depth]),
                row.eq(rows[depth] + strides[depth]),
            ]
            goes.append(go)
            with m.If(go):
                m.d.sync += [left[depth].eq(left[depth] - 1), ended[depth].eq(left[depth] == 1)]
                m.d.sync += [inner.eq(row) for inner in rows[: depth + 1]]
                for inner in range(depth):
                    m.d.sync += [left[inner].eq(limits[inner]), ended[inner].eq(limits[inner] == 0)]
        with m.If(load):
            m.d.sync += command.eq(self.command.payload)
            for count, none, limit in zip(left, ended, _limits(now), strict=True):
                m.d.sync += [count.eq(limit), none.eq(limit == 0)]
            m.d.sync += [row.eq(now.origin) for row in rows]
        m.d.comb += now.eq(Mux(load, self.command.payload, command))

        # Where the next command begins is worked out before it is known whether it is loaded.
        by_y = command.inner == Axis.Y
        x = self._coordinate(
            m,
            "x",
            start=Mux(load, -self.command.payload.pad_left, -command.pad_left),
            restart=load | goes[3] | goes[4],
            next_tap=goes[2],
            back=goes[1] & ~by_y,
            advance=(goes[0] & ~by_y & moves) | (goes[1] & by_y),
            dilation=command.dilation_x,
            step=step_x,
        )
        y = self._coordinate(
            m,
            "y",
            start=Mux(load, -self.command.payload.pad_top, -command.pad_top),
            restart=load | goes[4],
            next_tap=goes[3],
            back=goes[2] | (goes[1] & by_y),
            advance=(goes[0] & by_y) | (goes[1] & ~by_y),
            dilation=command.dilation_y,
            step=command.step_y,
        )

        # Depthwise mode: sums begin at some positions only. With delay lines the last vector of a
        # sum is its position.
        late, next_late = command.delay.any(), now.delay.any()
        begins = [
            self._begins(m, name, axis, next_axis, left[i], late, next_late, restart, goes[i])
            for i, (name, axis, next_axis, restart) in enumerate(
                (
                    ("inner", command.inner_axis, now.inner_axis, load | (walks & ended[0])),
                    (
                        "outer",
                        command.outer_axis,
                        now.outer_axis,
                        load | (walks & ended[0] & ended[1]),
                    ),
                )
            )
        ]

        # Dense mode: the window moves on if the next output begins in its second vector.
        shift = Signal(range(self.config.array_size))
        next_shift = Signal(range(2 * self.config.array_size))
        line_start = Signal()
        m.d.comb += [
            line_start.eq(left[0] == command.inner_axis.last),
            next_shift.eq(shift + command.byte_step),
        ]
        with m.If(load | (walks & (line_start | ended[0]))):
            m.d.sync += [shift.eq(0), moves.eq(1)]
        with m.Elif(step & command.dense):
            m.d.sync += [shift.eq(next_shift), moves.eq(next_shift[-1])]

        slot = Signal(slot_layout(self.config))
        begun = Signal()  # the k-tile has had its first sum
        last_tile, last_sum, inside = Signal(), Signal(), Signal()
        row, reads = rows[0], moves & inside
        emits = Cat(begins).all() & ~(command.dense & line_start)
        weight_row = Signal(ROW_BITS)  # of a transposed tile
        if self.config.has_transposed_tiles:
            row, reads, emits = Mux(loading, weight_row, row), reads | loading, emits & ~loading
        m.d.comb += [
            last_tile.eq(Cat(ended[2:]).all()),
            last_sum.eq(
                (left[0] == Mux(late, 0, command.inner_axis.tail))
                & (left[1] == Mux(late, 0, command.outer_axis.tail))
            ),
            # Coordinates below zero are huge here.
            inside.eq((y.as_unsigned() < command.height) & (x.as_unsigned() < command.width)),
            slot.row.eq(row),
            slot.read.eq(reads),
            slot.enters.eq(moves),
            slot.emits.eq(emits),
            slot.first.eq((slot.emits | late) & ~begun),
            slot.claims.eq(slot.first & (command.drain == Drain.REQUANTIZE) & last_tile),
            slot.reports.eq(slot.emits & last_tile & ((command.drain != Drain.KEEP) | last_sum)),
            slot.paced.eq(Mux(command.depthwise, slot.first, slot.reports)),
            slot.raw.eq(command.drain == Drain.RAW),
            slot.short.eq(command.record_form == RecordForm.SHORT),
            slot.depthwise.eq(command.depthwise),
            slot.dense.eq(command.dense),
            slot.delay.eq(command.delay),
            slot.shift.eq(shift),
            slot.pad.eq(command.pad),
            slot.zero_point.eq(command.weight_zero_point),
            slot.index.eq(command.index),
        ]
        if self.config.int16:
            leaves = last_tile & ((command.drain != Drain.KEEP) | last_sum)
            m.d.comb += [
                slot.lower.eq(command.int16 & ~upper),
                slot.pad.eq(command.pad ^ Cat(Const(0, 7), slot.lower)),
                slot.reports.eq(slot.emits & leaves & ~upper),
            ]
        if self.config.int4:
            m.d.comb += slot.int4.eq(command.int4)
        if self.config.has_delay_lines:
            # If there are delays, a line of the kernel has three taps, five, or two pairs.
            in_image = (y.as_unsigned() < command.height) & (x.as_unsigned() <= command.width)
            m.d.comb += [
                slot.wide.eq(late & command.inner_axis.tail[2]),
                slot.pair.eq(late & command.inner_axis.tail[0]),
                slot.odd_row.eq(rows[0] - 1),
                slot.odd_read.eq(slot.pair & in_image & x.any()),
            ]
        if self.config.has_transposed_tiles:
            left_rows = Signal(range(self.config.array_size), init=self.config.array_size - 1)
            m.d.comb += [slot.transposed.eq(command.transposed), slot.loads.eq(loading)]
            with m.If(step & loading):
                m.d.sync += [
                    weight_row.eq(weight_row + 1),
                    left_rows.eq(left_rows - 1),
                    loading.eq(left_rows != 0),
                ]
            with m.If(load):
                arriving = self.command.payload
                m.d.sync += [loading.eq(arriving.transposed), weight_row.eq(arriving.weight_row)]
            with m.Elif(walks & ended[0] & ended[1]):
                m.d.sync += loading.eq(command.transposed)
        with m.If(walks):
            m.d.sync += begun.eq((begun | slot.first) & ~(ended[0] & ended[1]))

        # The next command is loaded in the cycle of the last step. What comes is loaded, a command
        # or not, as that becomes known late.
        m.d.comb += [
            step.eq(active & slots.i.ready),
            load.eq(~active | (walks & Cat(ended).all())),
            self.command.ready.eq(load),
            self.busy.eq(active | self.o.valid),
            self.index.eq(Mux(self.o.valid, self.o.payload.index, command.index)),
            slots.i.valid.eq(step),
            slots.i.payload.eq(slot),
        ]
        with m.If(load):
            m.d.sync += active.eq(self.command.valid)
        return m

    @staticmethod
    def _coordinate(  # noqa: PLR0913 - signals that it connects
        m: Module,
        name: str,
        *,
        start: Value,
        restart: Value,
        next_tap: Value,
        back: Value,
        advance: Value,
        dilation: Value,
        step: Value,
    ) -> Signal:
        """Return a coordinate of the position; ``back`` leads to the first one of the tap."""
        coordinate = Signal(signed(_COORDINATE_BITS), name=name)
        tap, moved = Signal.like(coordinate, name=f"tap_{name}"), Signal.like(coordinate)
        m.d.comb += moved.eq(tap + dilation)
        with m.If(restart):
            m.d.sync += [coordinate.eq(start), tap.eq(start)]
        with m.Elif(next_tap):
            m.d.sync += [coordinate.eq(moved), tap.eq(moved)]
        with m.Elif(back):
            m.d.sync += coordinate.eq(tap)
        with m.Elif(advance):
            m.d.sync += coordinate.eq(coordinate + step)
        return coordinate

    @staticmethod
    def _begins(  # noqa: PLR0913 - signals that it connects
        m: Module,
        name: str,
        axis: data.View,
        next_axis: data.View,
        left: Signal,
        late: Value,
        next_late: Value,
        restart: Value,
        go: Value,
    ) -> Value:
        """Return whether a sum may begin at this position of an axis, or if ``late`` end."""
        wait = Signal(len(axis.period), name=f"{name}_wait")
        with m.If(restart):
            m.d.sync += wait.eq(Mux(next_late, next_axis.tail, 0))
        with m.Elif(go):
            m.d.sync += wait.eq(Mux(wait == 0, axis.period, wait) - 1)
        return (wait == 0) & (late | (left >= axis.tail))


def _limits(command: data.View) -> tuple[Value, ...]:
    """Return the steps of each loop, less one."""
    return (
        command.inner_axis.last,
        command.outer_axis.last,
        command.last_kernel_column,
        command.last_kernel_row,
        command.last_block,
    )
