"""The chip: instances and their connections, nothing else."""

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Elaboratable,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite_rtl.bus.axi import axi4_lite_members, axi4_members
from tpulite_rtl.bus.axi_master import AxiMaster
from tpulite_rtl.bus.axi_ports import connect_channels
from tpulite_rtl.bus.register_file import OFFSET_BITS, RegisterFile
from tpulite_rtl.cp.command_processor import CommandProcessor
from tpulite_rtl.dma.load_engine import LoadEngine
from tpulite_rtl.dma.store_engine import StoreEngine
from tpulite_rtl.lib.clock_gate import engine_clocks
from tpulite_rtl.lib.interfaces import STATE_BITS
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_rtl.mxu.matrix_unit import MatrixUnit
from tpulite_rtl.ub.unified_buffer import UnifiedBuffer
from tpulite_rtl.vpu.vector_engine import VectorEngine

__all__ = ["BOARD_PORTS", "PORTS", "Chip"]

BOARD_PORTS: dict[str, wiring.Member] = {
    # AXI4-Lite subordinate: the registers of :mod:`tpulite.arch.registers`.
    **axi4_lite_members("s_axil", address_bits=OFFSET_BITS),
    # AXI4 master to DRAM.
    **axi4_members("m_axi"),
    # Interrupt, high until it is cleared.
    "irq": Out(1),
}
"""The chip's ports on an FPGA, those of its clock and reset apart: equal for all configurations."""

PORTS: dict[str, wiring.Member] = {
    **BOARD_PORTS,
    # What each engine does in this cycle, and the command that this counts for. They are for
    # simulation; leave them open on an FPGA.
    **{f"trace_{engine.name.lower()}_state": Out(STATE_BITS) for engine in Engine},
    **{f"trace_{engine.name.lower()}_index": Out(INDEX_BITS) for engine in Engine},
}
"""Those of simulation, too."""


class Chip(wiring.Component):
    """The whole machine.

    There is one clock. Reset may come and go at any time, as two registers take it to the clock; it
    must last for four cycles, and nothing is accepted until it has gone.

    Parameters
    ----------
    config : Config
        The machine.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(PORTS)

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        registers = RegisterFile(config)
        processor = CommandProcessor(config)
        axi = AxiMaster()
        load, store = LoadEngine(config), StoreEngine(config)
        mxu, vpu = MatrixUnit(config), VectorEngine(config)
        buffer = UnifiedBuffer(
            config,
            readers=("activation", "weight", "record", "vpu_a", "vpu_b", "store"),
            writers=("drain", "load", "vpu"),
        )
        # Both resets are registers: that of the engines is soft reset, too. They begin low, so that
        # Icarus sees an edge: logic of what never changes would stay unknown.
        m.domains += ClockDomain("core")
        core = DomainRenamer("core")
        m.d.comb += ClockSignal("core").eq(ClockSignal())
        m.submodules.reset = _ResetSynchronizer()
        m.submodules.registers = core(registers)
        m.submodules.processor = core(processor)
        m.submodules.axi = core(axi)
        m.submodules.buffer = core(buffer)
        engines = {"load": load, "store": store, "mxu": mxu, "vpu": vpu}
        domains = engine_clocks(
            m,
            {name: engine.engine for name, engine in engines.items()},
            clear=processor.clear,
            users={"mxu": "vpu"},  # the lanes of the requantizer
            gates=Build.of(platform).clock_gates,
        )
        for name, engine in engines.items():
            m.submodules[name] = DomainRenamer(domains[name])(engine)
            connect(m, engine.engine, getattr(processor, f"engine_{name}"))
            m.d.comb += [
                getattr(self, f"trace_{name}_state").eq(engine.engine.state),
                getattr(self, f"trace_{name}_index").eq(engine.engine.index),
            ]

        # DRAM.
        connect(m, processor.read, axi.fetch)
        connect(m, load.axi, axi.load)
        connect(m, store.axi, axi.store)
        for bus in (axi, registers):
            connect_channels(m, bus, self, slices=config.axi_slices)

        # Unified buffer.
        connect(m, mxu.read_activation, buffer.read_activation)
        connect(m, mxu.read_weight, buffer.read_weight)
        connect(m, mxu.read_record, buffer.read_record)
        connect(m, mxu.write, buffer.write_drain)
        connect(m, vpu.read_a, buffer.read_vpu_a)
        connect(m, vpu.read_b, buffer.read_vpu_b)
        connect(m, vpu.write, buffer.write_vpu)
        connect(m, store.read, buffer.read_store)
        connect(m, load.write, buffer.write_load)

        connect(m, vpu.requantizer, mxu.vector)

        # Host.
        connect(m, registers.counters, processor.counters)
        m.d.comb += [
            self.irq.eq(registers.irq),
            processor.control.eq(registers.control),
            processor.program.eq(registers.program),
            processor.watchdog.eq(registers.watchdog),
            registers.state.eq(processor.state),
            registers.interrupt.eq(processor.interrupt),
            registers.error.eq(processor.error),
            load.windows.eq(registers.windows),
            store.windows.eq(registers.windows),
            buffer.steady.eq(mxu.steady),
            processor.conflicts.eq(buffer.conflicts),
            processor.read_beat.eq(axi.read_beat),
            processor.write_beat.eq(axi.write_beat),
            processor.response.eq(axi.response),
            processor.accessed.eq(buffer.accessed),
            processor.entered.eq(mxu.entered),
        ]
        return m


class _ResetSynchronizer(Elaboratable):
    """Two registers that take the reset to the clock. Tools keep them together by ASYNC_REG."""

    def elaborate(self, platform) -> Module:
        m = Module()
        reset = ResetSignal()
        for stage in range(2):
            register = Signal(name=f"stage{stage}", reset_less=True, attrs={"ASYNC_REG": "TRUE"})
            m.d.core += register.eq(reset)
            reset = register
        m.d.comb += ResetSignal("core").eq(reset)
        return m
