"""Windows of operand A become one vector each: the maximum or the sum of every channel."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import VECTOR, Opcode, VectorOp
from tpulite.arch.numerics import INT8
from tpulite_rtl.lib.layout import field_shape, operation_shape

__all__ = ["SUM_BITS", "WindowReducer", "operand_pair", "reduced_pair"]

_LARGEST = {field.name: field.range[-1] for field in VECTOR.fields}

SUM_BITS = (INT8[0] * _LARGEST["window_rows"] * _LARGEST["window_columns"]).bit_length() + 1
"""Width of a sum of the largest window."""


def operand_pair(config: Config) -> data.StructLayout:
    """Return the payload that carries a vector of A, of B, and its place in the window."""
    row = unsigned(8 * config.row_bytes)
    return data.StructLayout({"a": row, "b": row, "first": 1, "last": 1})


def reduced_pair(config: Config) -> data.StructLayout:
    """Return the payload that carries what became of a window of A, and a vector of B.

    With softmax ``ends`` says that the window is complete.
    """
    return data.StructLayout(
        {
            "a": data.ArrayLayout(signed(SUM_BITS), config.array_size),
            "b": data.ArrayLayout(signed(8), config.array_size),
            "ends": int(config.has_softmax),
        }
    )


class WindowReducer(wiring.Component):
    """Reduce windows of vectors; a window of one passes unchanged.

    Latency is one cycle, throughput one vector of A per cycle.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # SUM adds, MAX takes the maximum, NORM takes vectors as they are, others have
                # windows of one vector. Stable while a window is inside.
                "operation": In(operation_shape(config)),
                "tail": In(field_shape(Opcode.VECTOR, "tail")),
                # Vectors; ``b`` counts with the last one of a window, of NORM with the first.
                "i": In(stream.Signature(operand_pair(config))),
                # Results, one for each window; of NORM one for each vector.
                "o": Out(stream.Signature(reduced_pair(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pair, o = self.i.payload, self.o
        softmax = self.config.has_softmax
        accepted, leaves, passes = Signal(), Signal(), Signal()
        m.d.comb += [
            passes.eq((self.operation == VectorOp.NORM) & softmax),
            leaves.eq(pair.last | passes),
            self.i.ready.eq(~leaves | ~o.valid | o.ready),
            accepted.eq(self.i.valid & self.i.ready),
        ]
        result = Signal(o.payload.shape(), reset_less=True)
        m.d.comb += o.payload.eq(result)
        with m.If(accepted & leaves):
            m.d.sync += [o.valid.eq(1), result.ends.eq(pair.last)]
        with m.Elif(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(accepted & leaves & (pair.first | ~passes)):
            m.d.sync += result.b.as_value().eq(pair.b)

        adds = (self.operation == VectorOp.SUM) & ~pair.first
        vector = data.View(data.ArrayLayout(signed(8), self.config.array_size), pair.a)
        for channel in range(self.config.array_size):
            partial = Signal(signed(SUM_BITS), name=f"partial_{channel}", reset_less=True)
            reduced = Signal(signed(SUM_BITS), name=f"reduced_{channel}")
            byte, largest = vector[channel], partial[:8].as_signed()
            if softmax and channel:
                beyond = Signal(name=f"beyond_{channel}")
                is_cut = (self.operation == VectorOp.MAX) & (self.tail != 0)
                m.d.sync += beyond.eq(is_cut & (self.tail <= channel))
                byte = Mux(beyond & pair.last, INT8[0], byte)
            larger = Mux(pair.first | passes | (byte > largest), byte, largest)
            m.d.comb += reduced.eq(Mux(adds, partial + byte, larger))
            with m.If(accepted):
                m.d.sync += partial.eq(reduced)
                with m.If(leaves):
                    m.d.sync += result.a[channel].eq(reduced)
        return m
