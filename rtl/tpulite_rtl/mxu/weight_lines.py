"""The way of weights to the elements of an array that also takes tiles of int4."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite_rtl.mxu.processing_element import WEIGHT_WIDTH
from tpulite_rtl.mxu.skew import Skew

__all__ = ["WeightLines", "weight_layout"]

_INT4 = 4
"""Bits of a weight of int4."""


def weight_layout(config: Config) -> data.StructLayout:
    """Return the layout of a weight row, the array row that it goes to, and if it has two of it."""
    n = config.array_size
    weights = data.ArrayLayout(signed(WEIGHT_WIDTH), n)
    int4 = {"int4": 1} if config.int4 else {}
    return data.StructLayout({"weights": weights, "row": range(n), **int4})


class WeightLines(wiring.Component):
    """Delay weights by a cycle for each column, as activations are, and say which elements take.

    The rows of a tile come without a gap. In a column an element is told to take its weight one
    cycle before its activation of the tile's first vector comes, or earlier. Row j of a tile of
    int4 is for the array's rows 2 j and 2 j + 1, and comes as early as row j of another; the weight
    for row 2 j + 1 is a cycle later, as its element may still need its place.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.array_size
        super().__init__(
            {
                # Weight rows.
                "i": In(stream.Signature(weight_layout(config), always_ready=True)),
                # Weights for the even and for the odd rows of each column.
                "even": Out(signed(WEIGHT_WIDTH)).array(n),
                "odd": Out(signed(WEIGHT_WIDTH)).array(n),
                # Bit r + c, of int4 bit (r + 1) // 2 + c: the element of row r and column c takes.
                "int8": Out(2 * n - 1),
                "int4": Out(3 * n // 2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n, row = self.config.array_size, self.i.payload
        lanes = data.StructLayout({"weight": signed(WEIGHT_WIDTH), "int4": 1})
        m.submodules.skew = skew = Skew(lanes, tuple(range(n)))
        for col in range(n):
            lane = skew.o[col]
            upper = Signal(signed(_INT4), name=f"upper{col}", reset_less=True)
            upper_int4 = Signal(name=f"upper_int4_{col}", reset_less=True)
            m.d.sync += [upper.eq(lane.weight[_INT4:]), upper_int4.eq(lane.int4)]
            m.d.comb += [
                skew.i[col].weight.eq(row.weights[col]),
                skew.i[col].int4.eq(row.int4),
                self.even[col].eq(Mux(lane.int4, lane.weight[:_INT4].as_signed(), lane.weight)),
                self.odd[col].eq(Mux(upper_int4, upper, lane.weight)),
            ]
        begins = self.i.valid & (row.row == 0)
        for takes, kind in ((self.int8, ~row.int4), (self.int4, row.int4)):
            since = Signal(len(takes) - 1)
            m.d.comb += takes.eq(Cat(begins & kind, since))
            m.d.sync += since.eq(takes)
        return m
