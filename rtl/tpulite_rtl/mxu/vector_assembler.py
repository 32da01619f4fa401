"""Turns issued slots and the rows that were read for them into vectors for the array."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.timing import row_read
from tpulite_rtl.mxu.slots import slot_layout
from tpulite_rtl.mxu.systolic_array import early_layout, vector_layout

__all__ = ["VectorAssembler", "issued_layout"]


_ISSUED = (
    *("read", "enters", "emits", "first", "depthwise", "dense"),
    *("delay", "wide", "pair", "odd_read", "shift", "pad"),
)


def issued_layout(config: Config) -> data.StructLayout:
    """Return what of an issued slot belongs to its vector; see ``slot_layout``."""
    slot = slot_layout(config)
    names = (*_ISSUED, "loads", "zero_point") if config.has_transposed_tiles else _ISSUED
    return data.StructLayout({name: slot[name].shape for name in names})


class VectorAssembler(wiring.Component):
    """Choose row or padding, and in dense mode cut the vector out of the last two.

    A slot issued in cycle t enters the array in cycle ``t + latency``.

    Parameters
    ----------
    config : Config
        Geometry.

    Attributes
    ----------
    latency : int
        Cycles from a slot to its vector.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = row_read(config) + 1
        row = In(unsigned(8 * config.row_bytes))
        super().__init__(
            {
                # Slots as they are issued.
                "i": In(stream.Signature(issued_layout(config), always_ready=True)),
                # The row that was requested ``row_read`` cycles ago.
                "row": row,
                # The odd row of a pair, requested with ``row``; only in a machine with delay lines.
                **({"odd_row": row} if config.has_delay_lines else {}),
                # Vectors. In depthwise mode also those count that are not valid, as ``first``
                # always does.
                "o": Out(stream.Signature(vector_layout(config), always_ready=True)),
                # What is known of the vector of the next cycle.
                "early": Out(early_layout(config)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self.config.row_bytes
        slot, valid = self.i.payload, self.i.valid
        for cycle in range(row_read(self.config)):
            later = Signal(issued_layout(self.config), name=f"slot_{cycle + 1}", reset_less=True)
            later_valid = Signal(name=f"valid_{cycle + 1}")
            m.d.sync += [later.eq(slot), later_valid.eq(valid)]
            slot, valid = later, later_valid

        # The window: what has entered last, and what before.
        newest, older = Signal(8 * n, reset_less=True), Signal(8 * n, reset_less=True)
        entering = Signal(8 * n)
        padding = slot.pad.as_unsigned().replicate(n)
        m.d.comb += entering.eq(Mux(slot.read, self.row, padding))
        with m.If(valid & slot.enters):
            m.d.sync += [newest.eq(entering), older.eq(newest)]

        # The row comes late, so how far its bytes move is known before, and so is the rest of what
        # is cut out of the window: all that is left is an AND and an OR.
        low = Mux(slot.enters, newest, older)
        high = Mux(slot.enters, 0, newest)
        cut = Cat(low, high).bit_select(slot.shift << 3, 8 * n)
        parts = [Mux(slot.dense, cut, 0), Mux(slot.dense, 0, entering)]
        for moved in range(1, n):
            moves = Signal(name=f"moves_{moved}")
            m.d.comb += moves.eq(slot.dense & slot.enters & (slot.shift == n - moved))
            parts.append(Mux(moves, entering << (8 * moved), 0)[: 8 * n])
        activations = reduce(or_, parts)
        m.d.comb += [
            self.early.activation.eq(entering[:8]),  # delays are not for dense mode
            self.early.delay.eq(slot.delay),
            self.early.wide.eq(slot.wide),
        ]
        m.d.sync += [
            self.o.valid.eq(valid & slot.emits),
            self.o.payload.first.eq(valid & slot.first),
            self.o.payload.delay.eq(slot.delay),
            self.o.payload.depthwise.eq(slot.depthwise),
            self.o.payload.activations.eq(activations),
        ]
        if self.config.has_delay_lines:
            m.d.sync += [
                self.o.payload.wide.eq(slot.wide),
                self.o.payload.pair.eq(slot.pair),
                self.o.payload.odd.eq(Mux(slot.odd_read, self.odd_row, padding)),
            ]
        if self.config.has_transposed_tiles:
            loads = valid & slot.loads
            m.d.sync += [
                self.o.payload.loads.eq(loads),
                self.o.payload.zero_point.eq(Mux(loads, slot.zero_point, 0)),
            ]
        return m
