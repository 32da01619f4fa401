"""Command processor: from START over the queues to END."""

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.isa import ENGINE_OF, Engine
from tpulite_rtl.bus.axi import ReadSignature
from tpulite_rtl.bus.registers import (
    CONTROL,
    INTERRUPT,
    PROGRAM,
    RUN_STATE_BITS,
    CountersSignature,
)
from tpulite_rtl.cp.command_fetch import CommandFetch
from tpulite_rtl.cp.counters import CONFLICT_BITS, Counters
from tpulite_rtl.cp.dispatcher import Dispatcher
from tpulite_rtl.cp.progress_monitor import ProgressMonitor
from tpulite_rtl.cp.run_control import RunControl
from tpulite_rtl.cp.token_counters import TokenCounters
from tpulite_rtl.lib.interfaces import FAULT, EngineSignature
from tpulite_rtl.lib.layout import command_layout

__all__ = ["CommandProcessor"]


class CommandProcessor(wiring.Component):
    """Fetch a program, dispatch its commands to the engines, order them by tokens, account for it.

    The first burst is requested in the cycle after START; a command is offered to its engine two
    cycles after its last beat.

    Of several faults in one cycle an engine's counts before the dispatcher's and that before the
    fetch's, because their commands are older; among engines the order is fixed.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # Reset the engines at the end of this cycle: a register, high in the cycle after
                # START, soft reset and reset. Engines are stopped meanwhile.
                "clear": Out(1),
                # Read channels of command fetch.
                "read": Out(ReadSignature()),
                # A read beat, write beat or write response was transferred on AXI in this cycle.
                "read_beat": In(1),
                "write_beat": In(1),
                "response": In(1),
                # The unified buffer accepted a request in the cycle before.
                "accessed": In(1),
                # A vector enters the array.
                "entered": In(1),
                # Requests that the unified buffer refused in the cycle before.
                "conflicts": In(CONFLICT_BITS),
                # From the register file, see there.
                "control": In(CONTROL),
                "program": In(PROGRAM),
                "watchdog": In(32),
                # For the register file, see there.
                "state": Out(RUN_STATE_BITS),
                "interrupt": Out(INTERRUPT),
                "error": Out(FAULT),
                "counters": In(CountersSignature()),
                # The engines.
                **{
                    f"engine_{engine.name.lower()}": In(
                        EngineSignature(command_layout(opcode, config))
                    )
                    for opcode, engine in ENGINE_OF.items()
                },
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        engines = {engine: getattr(self, f"engine_{engine.name.lower()}") for engine in Engine}
        fetch = CommandFetch(self.config)
        dispatcher = Dispatcher(self.config)
        tokens = TokenCounters()
        run = RunControl(sources=len(Engine) + 2)
        monitor = ProgressMonitor()
        counters = Counters()
        m.submodules.fetch = fetch  # resets itself at the start
        m.submodules.dispatcher = ResetInserter(run.clear)(dispatcher)
        m.submodules.tokens = ResetInserter(run.clear)(tokens)
        m.submodules.run = run
        m.submodules.monitor = monitor
        m.submodules.counters = counters
        wiring.connect(m, counters.values, wiring.flipped(self.counters))

        # From DRAM to the engines.
        wiring.connect(m, fetch.read, wiring.flipped(self.read))
        wiring.connect(m, fetch.o, dispatcher.i)
        for engine, port in engines.items():
            queue = getattr(dispatcher, f"o_{engine.name.lower()}")
            wiring.connect(m, queue, wiring.flipped(port.command))
            wiring.connect(m, tokens.take[engine], wiring.flipped(port.take))
            wiring.connect(m, tokens.give[engine], wiring.flipped(port.give))
        m.d.comb += [
            fetch.program.eq(self.program),
            fetch.start.eq(run.start),
            fetch.stop.eq(run.stop),
            fetch.ended.eq(dispatcher.ended),
            dispatcher.address.eq(fetch.address),
            dispatcher.idle.eq(Cat(port.idle for port in engines.values())),
            dispatcher.quiet.eq(run.quiet),
            dispatcher.stop.eq(run.stop),
        ]

        # Start and stop. The first command comes to an engine long after it was reset.
        clear = Signal(init=1)
        m.d.sync += clear.eq(run.clear)
        reports = [port.fault for port in engines.values()] + [dispatcher.fault, fetch.fault]
        m.d.comb += [fault.eq(report) for fault, report in zip(run.faults, reports, strict=True)]
        m.d.comb += [port.stop.eq(run.halt) for port in engines.values()]
        m.d.comb += [
            run.control.eq(self.control),
            run.watchdog.eq(self.watchdog),
            run.done.eq(dispatcher.done),
            run.quiet.eq(fetch.quiet & Cat(port.quiet for port in engines.values()).all()),
            run.progress.eq(monitor.progress),
            run.oldest.eq(monitor.oldest),
            self.state.eq(run.state),
            self.error.eq(run.error),
            self.interrupt.eq(run.interrupt),
            self.clear.eq(clear),
        ]

        # Accounts.
        dispatched = fetch.o.valid & fetch.o.ready
        transferred = self.read_beat | self.write_beat | self.response
        m.d.comb += [
            monitor.moved.eq(dispatched | transferred | self.accessed | self.entered),
            monitor.next_index.eq(fetch.o.p.index),
            counters.start.eq(run.start),
            counters.running.eq(run.running),
            counters.conflicts.eq(self.conflicts),
            counters.read_beat.eq(self.read_beat),
            counters.write_beat.eq(self.write_beat),
        ]
        for engine, port in engines.items():
            m.d.comb += [
                monitor.held[engine].eq(~port.idle | port.command.valid),
                monitor.indices[engine].eq(port.index),
                counters.states[engine].eq(port.state),
            ]
        return m
