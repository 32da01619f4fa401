"""The vector path with the lanes of the requantizer, which nobody else uses unless a test does."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite_rtl.lib.interfaces import EngineSignature, ReadPortSignature, WritePortSignature
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.vpu.requantizer import Requantizer
from tpulite_rtl.vpu.vector_engine import VectorEngine

__all__ = ["VectorPath"]


class VectorPath(wiring.Component):
    """A vector engine and a requantizer, into which sums of 0 enter in the cycles of ``drains``."""

    mutated = "engine"  # the requantizer has a bench of its own

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "engine": Out(EngineSignature(command_layout(Opcode.VECTOR))),
                "read_a": Out(ReadPortSignature(config)),
                "read_b": Out(ReadPortSignature(config)),
                "write": Out(WritePortSignature(config)),
                "conflict": Out(1),
                "drains": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        """Connect them."""
        m = Module()
        m.submodules.engine = engine = VectorEngine(self.config)
        m.submodules.requantizer = requantizer = Requantizer(self.config)
        for name in ("engine", "read_a", "read_b", "write"):
            wiring.connect(m, getattr(engine, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, engine.requantizer, requantizer.vector)
        m.d.comb += [
            self.conflict.eq(engine.conflict),
            requantizer.i.payload.write.eq(1),
            requantizer.i.valid.eq(self.drains),
            requantizer.write.request.ready.eq(1),
        ]
        return m
