"""A stand-in for the chip, to test testbenches and device models without it."""

from amaranth.back import verilog
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import Out

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Engine
from tpulite.arch.registers import (
    COUNTER_OFFSETS,
    IDENTIFICATION,
    VERSION,
    Control,
    EngineState,
    Fault,
    Interrupt,
    RunState,
    offset_of,
)
from tpulite_rtl.bus.axi import axi4_lite_members, axi4_members
from tpulite_rtl.lib.interfaces import STATE_BITS
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["TOP", "CopyChip", "copy_chip_verilog"]

TOP = "tpulite"
"""Name of the chip's top module."""

BURST_BEATS = 16


class CopyChip(wiring.Component):
    """A machine with the ports of the chip that copies window 0 to window 1.

    Windows are multiples of 256 bytes. PROGRAM_LENGTH seeds a random generator that makes it pause
    on every channel; with 0 it never pauses. It keeps up to 8 reads outstanding, follows the
    register sequence of the chip, counts CYCLES, READ_BEATS and WRITE_BEATS, reports an AXI error
    as a fault at address 0, and shows each read burst as a command of LOAD in its trace.

    Parameters
    ----------
    config : Config
        What it claims to be.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        trace = {}
        for engine in Engine:
            trace[f"trace_{engine.name.lower()}_state"] = Out(STATE_BITS)
            trace[f"trace_{engine.name.lower()}_index"] = Out(INDEX_BITS)
        super().__init__(
            axi4_members("m_axi")
            | axi4_lite_members("s_axil", address_bits=12)
            | {"irq": Out(1)}
            | trace
        )

    def elaborate(self, platform) -> Module:  # noqa: D102, documented by its class
        m = Module()

        identity = {"ID": IDENTIFICATION, "VERSION": VERSION, "CONFIG_HASH": self.config.hash}
        by_name = {name: Signal(32, name=name.lower()) for name in _REGISTERS}
        counter = {name: Signal(32, name=name) for name in _COUNTERS}
        running = Signal()
        start = Signal()
        m.d.comb += self.irq.eq((by_name["IRQ_STATUS"] & by_name["IRQ_ENABLE"]) != 0)

        # AXI4-Lite: one write and one read at a time.
        write = Signal()
        m.d.comb += [
            write.eq(self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid),
            self.s_axil_awready.eq(write),
            self.s_axil_wready.eq(write),
            self.s_axil_arready.eq(~self.s_axil_rvalid),
        ]
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(self.s_axil_arvalid & self.s_axil_arready):
            m.d.sync += [self.s_axil_rvalid.eq(1), self.s_axil_rdata.eq(0)]
            with m.Switch(self.s_axil_araddr):
                for name, value in identity.items():
                    with m.Case(offset_of(name)):
                        m.d.sync += self.s_axil_rdata.eq(value)
                for name, register in by_name.items():
                    with m.Case(offset_of(name)):
                        m.d.sync += self.s_axil_rdata.eq(register)
                for name, register in counter.items():
                    with m.Case(COUNTER_OFFSETS[name]):
                        m.d.sync += self.s_axil_rdata.eq(register)
        with m.If(write):
            m.d.sync += [self.s_axil_bvalid.eq(1), self.s_axil_bresp.eq(0)]
            with m.Switch(self.s_axil_awaddr):
                with m.Case(offset_of("IRQ_STATUS")):
                    status = by_name["IRQ_STATUS"]
                    m.d.sync += status.eq(status & ~self.s_axil_wdata)
                with m.Case(offset_of("CONTROL")):
                    m.d.comb += start.eq(self.s_axil_wdata == Control.START)
                    with m.If(running):
                        m.d.sync += self.s_axil_bresp.eq(2)
                for name in _WRITABLE:
                    with m.Case(offset_of(name)):
                        m.d.sync += by_name[name].eq(self.s_axil_wdata)

        # Random pauses, one bit a channel: valid may rise late, but never falls before its time.
        random = Signal(32)
        pause = Signal(5)
        held = Signal(5)
        feedback = random[31] ^ random[21] ^ random[1] ^ random[0]
        m.d.sync += random.eq(Cat(feedback, random[:-1]))
        m.d.comb += pause.eq(Cat(random[i] & random[i + 7] for i in range(5)) & ~held)

        # The read side runs ahead of the write side by at most the FIFO.
        m.submodules.data = data = fifo.SyncFIFOBuffered(width=8 * BEAT_BYTES, depth=256)
        bursts = by_name["WINDOW0_SIZE"][8:]
        requested, received, written, sent, answered = (Signal(24) for _ in range(5))
        read_beat, write_beat = Signal(range(BURST_BEATS)), Signal(range(BURST_BEATS))
        error = Signal()
        source = Cat(by_name["WINDOW0_LOW"], by_name["WINDOW0_HIGH"][:8])
        target = Cat(by_name["WINDOW1_LOW"], by_name["WINDOW1_HIGH"][:8])
        may_read = running & (requested < bursts) & (requested - received < 8)
        may_write = running & (written < bursts) & (written == sent) & (data.level >= BURST_BEATS)
        m.d.comb += [
            self.m_axi_araddr.eq(source + (requested << 8)),
            self.m_axi_awaddr.eq(target + (written << 8)),
            self.m_axi_arid.eq(requested[0]),
            self.m_axi_arvalid.eq(may_read & ~pause[0]),
            self.m_axi_rready.eq(data.w_rdy & ~pause[1]),
            data.w_en.eq(self.m_axi_rvalid & self.m_axi_rready),
            data.w_data.eq(self.m_axi_rdata),
            self.m_axi_awvalid.eq(may_write & ~pause[2]),
            self.m_axi_wvalid.eq((sent < written) & data.r_rdy & ~pause[3]),
            self.m_axi_wdata.eq(data.r_data),
            self.m_axi_wstrb.eq(~0),
            self.m_axi_wlast.eq(write_beat == BURST_BEATS - 1),
            data.r_en.eq(self.m_axi_wvalid & self.m_axi_wready),
            self.m_axi_bready.eq(~pause[4]),
        ]
        for channel in ("ar", "aw"):
            m.d.comb += [
                getattr(self, f"m_axi_{channel}len").eq(BURST_BEATS - 1),
                getattr(self, f"m_axi_{channel}size").eq(4),
                getattr(self, f"m_axi_{channel}burst").eq(1),
            ]
        for bit, channel in ((0, "ar"), (2, "aw"), (3, "w")):
            valid, ready = (getattr(self, f"m_axi_{channel}{s}") for s in ("valid", "ready"))
            m.d.sync += held[bit].eq(valid & ~ready)

        with m.If(self.m_axi_arvalid & self.m_axi_arready):
            m.d.sync += requested.eq(requested + 1)
        with m.If(data.w_en):
            m.d.sync += [
                read_beat.eq(read_beat + 1),
                received.eq(received + self.m_axi_rlast),
                error.eq(error | self.m_axi_rresp[1]),
                counter["read_beats"].eq(counter["read_beats"] + 1),
            ]
        with m.If(self.m_axi_awvalid & self.m_axi_awready):
            m.d.sync += written.eq(written + 1)
        with m.If(data.r_en):
            m.d.sync += [
                write_beat.eq(write_beat + 1),
                sent.eq(sent + self.m_axi_wlast),
                counter["write_beats"].eq(counter["write_beats"] + 1),
            ]
        answer = Signal()
        m.d.comb += answer.eq(self.m_axi_bvalid & self.m_axi_bready)
        with m.If(answer):
            m.d.sync += [
                answered.eq(answered + 1),
                error.eq(error | self.m_axi_bresp[1]),
            ]

        with m.If(running):
            m.d.sync += counter["cycles"].eq(counter["cycles"] + 1)
            with m.If(answered == bursts):
                m.d.sync += [
                    running.eq(0),
                    by_name["STATUS"].eq(Mux(error, RunState.QUIESCED, RunState.IDLE)),
                    by_name["IRQ_STATUS"].eq(Mux(error, Interrupt.FAULT, Interrupt.DONE)),
                    by_name["ERROR_CODE"].eq(Mux(error, Fault.READ, Fault.NONE)),
                ]
        with m.If(start & ~running):
            m.d.sync += [running.eq(1), error.eq(0), by_name["STATUS"].eq(RunState.RUNNING)]
            m.d.sync += [x.eq(0) for x in (requested, received, written, sent, answered)]
            m.d.sync += [x.eq(0) for x in counter.values()]
            m.d.sync += random.eq(by_name["PROGRAM_LENGTH"])

        for engine in Engine:
            m.d.comb += getattr(self, f"trace_{engine.name.lower()}_state").eq(EngineState.IDLE)
        with m.If(running & (received < bursts)):
            m.d.comb += [
                self.trace_load_state.eq(Mux(data.w_en, EngineState.BUSY, EngineState.AXI)),
                self.trace_load_index.eq(received),
            ]
        return m


_WRITABLE = (
    *("IRQ_ENABLE", "PROGRAM_LENGTH", "WINDOW0_LOW", "WINDOW0_HIGH", "WINDOW0_SIZE"),
    *("WINDOW1_LOW", "WINDOW1_HIGH"),
)
_REGISTERS = (*_WRITABLE, "STATUS", "IRQ_STATUS", "ERROR_CODE")
_COUNTERS = ("cycles", "read_beats", "write_beats")


def copy_chip_verilog(config: Config) -> str:
    """Return the Verilog of a :class:`CopyChip` under the chip's module name."""
    chip = CopyChip(config)
    return verilog.convert(chip, name=TOP, strip_internal_attrs=True, emit_src=False)
