"""Accumulates what leaves the array and passes complete sums on to the requantizer."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, Opcode
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import ROW_BITS
from tpulite_rtl.lib.layout import field_shape, with_int16
from tpulite_rtl.lib.memory import TwoPortRam
from tpulite_rtl.mxu.systolic_array import psum_width
from tpulite_rtl.mxu.weight_sequencer import TILES_BITS
from tpulite_rtl.vpu.requantizer import requant_input

__all__ = ["DRAIN_COMMAND", "IN_FLIGHT", "Accumulator"]

_FIELDS = ("acc_row", "accumulate", "drain", "out_row", "signal")

DRAIN_COMMAND = data.StructLayout(
    {
        **{name: field_shape(Opcode.CONV, name) for name in _FIELDS},
        "last_row": field_shape(Opcode.CONV, "acc_row"),  # of the accumulators, from acc_row on
        "last_tile": TILES_BITS,  # k-tiles less one
        "inner_last": field_shape(Opcode.CONV, "columns"),  # output vectors on this axis, less one
        "inner_step": ROW_BITS,  # rows from an output vector to the next
        "outer_step": ROW_BITS,  # rows from the first one of a line to that of the next
    }
)
"""What the drain needs of a CONV. The inner axis runs fastest."""

IN_FLIGHT = 8
"""Commands whose vectors may be between their issue and the accumulators."""


_BYTES = 4
"""Of an accumulator."""


def _from_byte(value: Value, byte: Value) -> Value:
    """Return a sum that begins with a byte of an accumulator, or behind it."""
    return Array(value << 8 * number for number in range(_BYTES + 1))[byte]


class Accumulator(wiring.Component):
    """Read-modify-write of the accumulator buffer, and the way out on the last k-tile.

    Sums come in the order in which vectors were issued; the command that they belong to is the
    head of a FIFO, so the data carries no control. On the first k-tile (unless ``accumulate``) the
    sum replaces the accumulator; on the last k-tile of a draining command it goes to the
    requantizer instead, with the row of the unified buffer that it goes to. One vector a cycle, in
    any order of rows; a sum of cycle t leaves in cycle t + 2.

    Of a pair, 256 times the first sum and the second one are added to the accumulator of the first,
    both times 256**digit.
    The total leaves twice, in cycles t + 2 and t + 3 of the second one, for the upper and the lower
    bytes of results; no other sum leaves in cycle t + 3.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        sums = data.ArrayLayout(signed(psum_width(config)), config.array_size)
        super().__init__(
            {
                # Commands, each here before its first sum comes.
                "command": In(stream.Signature(with_int16(config, DRAIN_COMMAND))),
                # Sums over a k-tile.
                "i": In(stream.Signature(sums, always_ready=True)),
                # Complete sums, and the completion of every command.
                "o": Out(stream.Signature(requant_input(config), always_ready=True)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        n = config.array_size
        accumulators = data.ArrayLayout(signed(32), n)

        # A command, and whether it has one row of accumulators, and one k-tile.
        queued = {"command": self.command.payload.shape(), "one_row": 1, "one_tile": 1}
        commands = StreamFifo(data.StructLayout(queued), IN_FLIGHT)
        m.submodules.commands = commands
        command, arriving = commands.o.payload.command, self.command.payload
        m.d.comb += [
            commands.i.valid.eq(self.command.valid),
            self.command.ready.eq(commands.i.ready),
            commands.i.payload.command.eq(arriving),
            commands.i.payload.one_row.eq(arriving.acc_row == arriving.last_row),
            commands.i.payload.one_tile.eq(arriving.last_tile == 0),
        ]
        m.submodules.memory = memory = TwoPortRam(32 * n, config.acc_rows)

        # Cycle 0: which command, tile and vector is it? Ends are compared a vector ahead; those of
        # a command's first vector and first tile, when it is queued.
        next_tile = Signal(command.last_tile.shape(), init=1)
        at_start, next_row = Signal(init=1), Signal(command.acc_row.shape(), reset_less=True)
        first_tile = Signal(init=1)
        row, following = Signal.like(next_row), Signal.like(next_row)
        next_ends, next_is_last = Signal(reset_less=True), Signal(reset_less=True)
        at_end, last_tile = Signal(), Signal()
        m.d.comb += [
            row.eq(Mux(at_start, command.acc_row, next_row)),
            following.eq(row + 1),
            at_end.eq(Mux(at_start, commands.o.payload.one_row, next_ends)),
            last_tile.eq(Mux(first_tile, commands.o.payload.one_tile, next_is_last)),
            commands.o.ready.eq(self.i.valid & at_end & last_tile),
            memory.read_row.eq(row),
            memory.read_enable.eq(self.i.valid),
        ]
        with m.If(self.i.valid):
            m.d.sync += [
                next_row.eq(following),
                next_ends.eq(following == command.last_row),
                at_start.eq(at_end),
            ]
            with m.If(at_end):
                m.d.sync += [
                    next_tile.eq(next_tile + 1),
                    next_is_last.eq(next_tile == command.last_tile),
                    first_tile.eq(last_tile),
                ]
                with m.If(last_tile):
                    m.d.sync += next_tile.eq(1)

        # Cycle 1: the accumulator has arrived.
        valid, overwrite, keep = Signal(), Signal(), Signal(reset_less=True)
        acc_row = Signal(command.acc_row.shape(), reset_less=True)
        sums = Signal(accumulators if config.int16 else self.i.payload.shape(), reset_less=True)
        control = Signal(requant_input(config), reset_less=True)
        total = Signal(accumulators)
        # What the last sum but one wrote while it was read, and what the last one will write, is
        # not what the memory says.
        write_valid, written_row = Signal(), Signal.like(acc_row)
        written = self.o.payload.sums.as_value()
        changes = valid & keep & (acc_row == memory.read_row)
        changed = write_valid & (written_row == memory.read_row)
        changing, known = Signal(), Signal()  # from the registers, not from the memory
        held = Signal.like(written, reset_less=True)
        recent = Mux(overwrite, 0, Mux(changing, written, held))
        old = data.View(accumulators, Mux(known, recent, memory.read_data))
        for lane in range(n):
            m.d.comb += total[lane].eq(sums[lane] + old[lane])
        requantize = (command.drain == Drain.REQUANTIZE) & last_tile
        raw = (command.drain == Drain.RAW) & last_tile
        out_row = self._out_row(m, command, at_start=at_start)
        begins = first_tile & ~command.accumulate
        m.d.sync += valid.eq(self.i.valid)
        with m.If(changed):
            m.d.sync += held.eq(written)
        with m.If(self.i.valid):
            m.d.sync += [
                overwrite.eq(begins),
                changing.eq(changes),
                known.eq(begins | changes | changed),
                keep.eq(~requantize & ~raw),
                acc_row.eq(memory.read_row),
                *(() if config.int16 else (sums.eq(self.i.payload),)),
                control.raw.eq(raw),
                control.first.eq(requantize & at_start),
                control.write.eq(requantize | raw),
                control.row.eq(out_row),
                control.done.eq(at_end & last_tile),
                control.signal.eq(command.signal),
            ]
        again = Signal(
            data.StructLayout({name: control[name].shape() for name in ("done", "row", "signal")})
        )
        if config.int16:
            lower = Signal()  # vector of a pair, whose accumulator is that of the upper one
            upper, leaves = command.int16 & ~lower, requantize & lower
            m.d.comb += memory.read_row.eq(Cat(row[0] & ~lower, row[1:]))
            starts, upper_row = Signal(), Signal.like(out_row)
            byte = Signal(range(_BYTES + 1))  # of the accumulator, with which the sum begins
            m.d.comb += byte.eq(command.digit + upper)
            with m.If(self.i.valid):
                m.d.sync += [
                    *(sums[lane].eq(_from_byte(self.i.payload[lane], byte)) for lane in range(n)),
                    lower.eq(upper),
                    starts.eq(at_start),
                    upper_row.eq(out_row),
                    control.int16.eq(leaves),
                    control.again.eq(0),
                    again.signal.eq(command.signal),
                    again.done.eq(at_end & last_tile),
                    again.row.eq(out_row),
                ]
                with m.If(upper):
                    m.d.sync += [keep.eq(1), control.write.eq(0)]
                with m.If(lower):
                    m.d.sync += [
                        overwrite.eq(0),
                        known.eq(changes | changed),
                        control.first.eq(requantize & starts),
                    ]
                with m.If(leaves):
                    m.d.sync += [control.row.eq(upper_row), control.done.eq(0)]

        # Cycle 2: back, or out.
        m.d.sync += [
            write_valid.eq(valid & keep),
            self.o.valid.eq(valid & (~keep | control.done)),
        ]
        with m.If(valid):
            m.d.sync += [
                self.o.payload.eq(control),
                self.o.payload.sums.eq(total),
                written_row.eq(acc_row),
            ]
        if config.int16:
            self._send_again(m, again, valid & control.int16)
        m.d.comb += [
            memory.write_enable.eq(write_valid),
            memory.write_row.eq(written_row),
            memory.write_data.eq(written),
        ]
        return m

    def _send_again(self, m: Module, lower: data.View, leaves: Value) -> None:
        """Send the last sums a cycle later once more, for the lower bytes of their results."""
        waiting, output = Signal(lower.shape(), reset_less=True), self.o.payload
        waits = Signal()
        m.d.sync += [waits.eq(leaves), waiting.eq(lower)]
        with m.If(waits):
            m.d.sync += [
                self.o.valid.eq(1),
                output.int16.eq(1),
                output.again.eq(1),
                output.first.eq(0),
                output.raw.eq(0),
                output.write.eq(1),
                output.row.eq(waiting.row),
                output.done.eq(waiting.done),
                output.signal.eq(waiting.signal),
            ]

    def _out_row(self, m: Module, command: data.View, *, at_start: Value) -> Signal:
        """Return the row of the unified buffer to which the vector of cycle 0 goes."""
        row, line = Signal(ROW_BITS, name="out_row"), Signal(ROW_BITS, name="out_line")
        next_row, next_line = Signal(ROW_BITS), Signal(ROW_BITS)
        inner = Signal(command.inner_last.shape())
        line_end = Signal()
        m.d.comb += [
            line_end.eq(inner == command.inner_last),
            row.eq(Mux(at_start, command.out_row, next_row)),
            line.eq(Mux(at_start, command.out_row, next_line)),
        ]
        with m.If(self.i.valid):
            m.d.sync += [
                inner.eq(inner + 1),
                next_row.eq(row + command.inner_step),
                next_line.eq(line),
            ]
            with m.If(line_end):
                m.d.sync += [
                    inner.eq(0),
                    next_row.eq(line + command.outer_step),
                    next_line.eq(line + command.outer_step),
                ]
        return row
