"""Dispatcher: commands are decoded, checked and sent to the engines' queues."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tpulite.arch.bitfield import Layout
from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import COMMANDS, CONV, ENGINE_OF, Axis, Drain, Engine, Opcode
from tpulite.arch.registers import Fault
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_fetch import FETCHED
from tpulite_rtl.lib.fifo import StreamFifo
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import command_layout, struct_layout

__all__ = ["Dispatcher"]

_OPCODE = COMMANDS[Opcode.END].fields[0]


class Dispatcher(wiring.Component):
    """Send each command to the queue of its engine, in program order.

    A command is offered to its engine in the cycle after it was accepted; throughput is one
    command per cycle. A full queue holds back everything behind. An illegal command is not
    accepted, nor is anything after END or while ``stop`` is high; only reset leads on.

    Parameters
    ----------
    config : Config
        Depth of the queues, and what decides which fields are legal together.

    Members
    -------
    i : In(stream.Signature(FETCHED))
        Commands as they lie in DRAM.
    program : In(PROGRAM)
        Where the program lies, for the address of a fault.
    o_load, o_store, o_mxu, o_vpu : Out(stream.Signature(command_layout(opcode)))
        Commands of each engine, from its queue.
    idle : In(len(Engine))
        Which engines hold no command.
    quiet : In(1)
        Nothing is outstanding on AXI.
    stop : In(1)
        Dispatch nothing.
    ended : Out(1)
        END was accepted.
    done : Out(1)
        END was accepted, the queues are empty and the engines idle and quiet.
    fault : Out(FAULT)
        OPCODE or FIELD, until ``stop``.
    """

    i: stream.Interface
    program: data.View
    idle: Signal
    quiet: Signal
    stop: Signal
    ended: Signal
    done: Signal
    fault: data.View

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(FETCHED)),
                "program": In(PROGRAM),
                "idle": In(len(Engine)),
                "quiet": In(1),
                "stop": In(1),
                "ended": Out(1),
                "done": Out(1),
                "fault": Out(FAULT),
            }
            | {
                f"o_{engine.name.lower()}": Out(stream.Signature(command_layout(opcode)))
                for opcode, engine in ENGINE_OF.items()
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        word, index = self.i.p.word, self.i.p.index
        opcode = word[: _OPCODE.width]

        known = Signal()
        illegal = Signal()
        with m.Switch(opcode):
            for code, layout in COMMANDS.items():
                with m.Case(code):
                    problems = [_is_illegal(layout, word)]
                    if code == Opcode.CONV:
                        problems.append(_is_illegal_together(self.config, word))
                    m.d.comb += [known.eq(1), illegal.eq(Cat(problems).any())]

        offered = Signal()
        legal = Signal()
        m.d.comb += [
            offered.eq(self.i.valid & ~self.stop & ~self.ended),
            legal.eq(offered & known & ~illegal),
            self.fault.valid.eq(offered & ~(known & ~illegal)),
            self.fault.code.eq(Mux(known, Fault.FIELD, Fault.OPCODE)),
            self.fault.index.eq(index),
            self.fault.address.eq(self.program.address + index * COMMAND_BYTES),
        ]

        with m.If(legal & (opcode == Opcode.END)):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += self.ended.eq(1)

        empty = Signal(len(Engine))
        for code, engine in ENGINE_OF.items():
            name = engine.name.lower()
            queue = StreamFifo(command_layout(code), self.config.queue_depth)
            m.submodules[f"queue_{name}"] = queue
            wiring.connect(m, queue.o, wiring.flipped(getattr(self, f"o_{name}")))
            m.d.comb += [
                Value.cast(queue.i.p).eq(Cat(word[: COMMANDS[code].width], index)),
                empty[engine].eq(~queue.o.valid),
            ]
            with m.If(legal & (opcode == code)):
                m.d.comb += [queue.i.valid.eq(1), self.i.ready.eq(queue.i.ready)]

        m.d.comb += self.done.eq(self.ended & empty.all() & self.idle.all() & self.quiet)
        return m


def _is_illegal(layout: Layout, word: Value) -> Value:
    """Return whether a field has an illegal value or a bit beyond the layout is set."""
    fields = data.View(struct_layout(layout), word[: layout.width])
    problems = [word[layout.width :].any()]
    for field in layout.fields:
        value = fields[field.name]
        if field.minimum is not None:
            problems.append(value < field.minimum)
        if field.multiple > 1:
            problems.append(value[: exact_log2(field.multiple)].any())
        if field.enum is not None:
            problems.append(~Cat(value == member for member in field.enum).any())
    return Cat(problems).any()


def _is_illegal_together(config: Config, word: Value) -> Value:
    """Return whether the fields of a CONV contradict: ``tpulite.arch.isa.illegal_combination``."""
    conv = data.View(struct_layout(CONV), word[: CONV.width])
    in_lanes = config.lanes < config.array_size
    problems = [
        conv.byte_step > config.array_size,
        (conv.byte_step != 0) & (conv.depthwise | (conv.inner != Axis.X)),
        conv.depthwise & (conv.blocks != 1),
        conv.depthwise & (conv.drain == Drain.RAW),
        conv.depthwise & (conv.drain != Drain.KEEP) & in_lanes,
    ]
    return Cat(problems).any()
