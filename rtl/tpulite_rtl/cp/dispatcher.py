"""Dispatcher: commands are sent to the engines' queues."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, ENGINE_OF, Engine, Opcode
from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import Fault
from tpulite_rtl.cp.command_fetch import FETCHED
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import built, command_layout

__all__ = ["Dispatcher"]


class Dispatcher(wiring.Component):
    """Send each command to the queue of its engine, in program order.

    A command is offered to its engine in the cycle after it was accepted; throughput is one
    command per cycle. A full queue holds back everything behind. An illegal command is not
    accepted, nor is anything after END or while ``stop`` is high; only reset leads on.

    Parameters
    ----------
    config : Config
        Depth of the queues.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Commands as they lie in DRAM, checked.
                "i": In(stream.Signature(FETCHED)),
                # Where the command lies that is offered.
                "address": In(ADDRESS_BITS),
                # Which engines hold no command.
                "idle": In(len(Engine)),
                # Nothing is outstanding on AXI.
                "quiet": In(1),
                # Dispatch nothing.
                "stop": In(1),
                # END was accepted.
                "ended": Out(1),
                # END was accepted, the queues are empty and the engines idle and quiet.
                "done": Out(1),
                # OPCODE or FIELD, until ``stop``.
                "fault": Out(FAULT),
                # Commands of each engine, from its queue.
                **{
                    f"o_{engine.name.lower()}": Out(
                        stream.Signature(command_layout(opcode, config))
                    )
                    for opcode, engine in ENGINE_OF.items()
                },
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        word, verdict, index = self.i.p.word, self.i.p.verdict, self.i.p.index

        willing = Signal()  # of what is legal: offers come later than verdicts
        offered = Signal()
        legal = Signal()
        m.d.comb += [
            willing.eq(verdict.legal & ~self.stop & ~self.ended),
            offered.eq(self.i.valid & ~self.stop & ~self.ended),
            legal.eq(offered & verdict.legal),
            self.fault.valid.eq(offered & ~verdict.legal),
            self.fault.code.eq(Mux(verdict.known, Fault.FIELD, Fault.OPCODE)),
            self.fault.index.eq(index),
            self.fault.address.eq(self.address),
        ]

        ends = verdict.opcode == Opcode.END
        takers = [ends]
        with m.If(legal & ends):
            m.d.sync += self.ended.eq(1)

        empty = Signal(len(Engine))
        for code, engine in ENGINE_OF.items():
            name = engine.name.lower()
            queue = StreamFifo(command_layout(code, self.config), self.config.queue_depth)
            m.submodules[f"queue_{name}"] = queue
            wiring.connect(m, queue.o, wiring.flipped(getattr(self, f"o_{name}")))
            m.d.comb += [
                Value.cast(queue.i.p).eq(
                    Cat(word[: built(COMMANDS[code], self.config).width], index)
                ),
                empty[engine].eq(~queue.o.valid),
            ]
            takers.append((verdict.opcode == code) & queue.i.ready)
            m.d.comb += queue.i.valid.eq(legal & (verdict.opcode == code))
        m.d.comb += self.i.ready.eq(willing & Cat(takers).any())

        # The others copy a command before they take its tokens; the vector path takes them at once,
        # when a RAM would be late.
        waits = StreamFifo(self.o_vpu.p.wait.shape(), self.config.queue_depth)
        m.submodules.waits_vpu = waits
        vpu_queue = m.submodules.queue_vpu
        m.d.comb += [
            waits.i.p.eq(vpu_queue.i.p.wait),
            waits.i.valid.eq(vpu_queue.i.valid),
            waits.o.ready.eq(self.o_vpu.ready),
            self.o_vpu.p.wait.eq(waits.o.p),
        ]

        m.d.comb += self.done.eq(self.ended & empty.all() & self.idle.all() & self.quiet)
        return m
