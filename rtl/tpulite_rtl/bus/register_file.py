"""The registers that the host reaches over AXI4-Lite."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.memory import WINDOWS
from tpulite.arch.registers import (
    COUNTER_OFFSETS,
    REGISTERS,
    Access,
    Control,
    Interrupt,
    RunState,
)
from tpulite_rtl.bus.axi import axi4_lite_members
from tpulite_rtl.bus.registers import (
    CONTROL,
    INTERRUPT,
    PROGRAM,
    RUN_STATE_BITS,
    WINDOW_ARRAY,
    CountersSignature,
)
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["OFFSET_BITS", "RegisterFile"]

OFFSET_BITS = 12
"""Width of a register offset: the chip takes a page of 4 KiB."""

_OKAY, _SLVERR = 0b00, 0b10

_LEGAL = {
    Control.START: (RunState.IDLE,),
    Control.STOP: (RunState.RUNNING,),
    Control.RESET: (RunState.IDLE, RunState.QUIESCED),
}
"""States of the chip in which a request is legal."""


class RegisterFile(wiring.Component):
    """Everything in :data:`tpulite.arch.registers.REGISTERS`, over AXI4-Lite.

    A write takes effect in the cycle after its address and its data, in whatever order they come,
    have both been accepted; its response follows in the next. A read is answered in the cycle
    after its address was accepted, that of a counter when it is found. One write and one read are
    in progress at a time.

    SLVERR answers an offset without register, a write to a read-only register, and a request in
    CONTROL that is illegal in the chip's state or names more than one bit; such a write changes
    nothing. Bits that a register does not keep are ignored and read as zero. The two lowest bits of
    an offset are ignored, a write-only register reads as zero.

    Parameters
    ----------
    config : Config
        The machine, whose hash the host can read.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                # AXI4-Lite subordinate with 32 bits of data.
                **axi4_lite_members("s_axil", address_bits=OFFSET_BITS),
                # An enabled interrupt is pending.
                "irq": Out(1),
                # Legal requests of the host, in the cycle after they were written.
                "control": Out(CONTROL),
                # State of the chip.
                "state": In(RUN_STATE_BITS),
                # Sets pending interrupts, even in a cycle in which the host clears them.
                "interrupt": In(INTERRUPT),
                # The fault that stopped the chip.
                "error": In(FAULT),
                # Where counters are read.
                "counters": Out(CountersSignature()),
                # Address, a multiple of 16, and length. A length beyond its width counts as the
                # largest.
                "program": Out(PROGRAM),
                # Windows; base and size are multiples of 16.
                "windows": Out(WINDOW_ARRAY),
                # Cycles without progress that are a fault; 0 never.
                "watchdog": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        awake = Signal()  # nothing is accepted during reset
        m.d.sync += awake.eq(1)
        stored = {
            register.name: Signal(32, name=register.name.lower(), init=register.reset)
            for register in REGISTERS
            if register.access == Access.READ_WRITE
        }
        pending = Signal(INTERRUPT)
        self._outputs(m, stored, pending)
        cleared = self._write_channels(m, stored, awake)
        m.d.sync += pending.eq((pending.as_value() & ~cleared) | self.interrupt.as_value())
        self._read_channel(m, self._readable(stored, pending), awake)
        return m

    def _outputs(self, m: Module, stored: dict[str, Signal], pending: data.View) -> None:
        def address(name: str) -> Value:
            return Cat(stored[f"{name}_LOW"], stored[f"{name}_HIGH"])

        length = stored["PROGRAM_LENGTH"]
        m.d.comb += [
            self.irq.eq((pending.as_value() & stored["IRQ_ENABLE"]).any()),
            self.watchdog.eq(stored["WATCHDOG"]),
            self.program.address.eq(address("PROGRAM")),
            self.program.length.eq(Mux(length[INDEX_BITS:].any(), ~0, length)),
        ]
        for i in range(WINDOWS):
            window = self.windows[i]
            m.d.comb += [
                window.base.eq(address(f"WINDOW{i}")),
                window.size.eq(stored[f"WINDOW{i}_SIZE"]),
                window.permission.eq(stored[f"WINDOW{i}_PERMISSION"]),
            ]

    def _write_channels(self, m: Module, stored: dict[str, Signal], awake: Signal) -> Value:
        """Add the write channels; return the interrupts that the host clears in this cycle."""
        offset = Signal(OFFSET_BITS)
        offset_valid = Signal()
        value = Signal(32)
        strobes = Signal(4)
        value_valid = Signal()
        m.d.comb += [
            self.s_axil_awready.eq(awake & ~offset_valid),
            self.s_axil_wready.eq(awake & ~value_valid),
        ]
        with m.If(self.s_axil_awvalid & self.s_axil_awready):
            m.d.sync += [offset.eq(self.s_axil_awaddr), offset_valid.eq(1)]
        with m.If(self.s_axil_wvalid & self.s_axil_wready):
            m.d.sync += [
                value.eq(self.s_axil_wdata),
                strobes.eq(self.s_axil_wstrb),
                value_valid.eq(1),
            ]

        write = Signal()
        okay = Signal()
        written = Signal(32)
        cleared = Signal(len(Interrupt))
        m.d.comb += [
            write.eq(offset_valid & value_valid & ~self.s_axil_bvalid),
            written.eq(value & Cat(strobe.replicate(8) for strobe in strobes)),
        ]
        m.d.sync += self.control.eq(0)
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(write):
            m.d.sync += [
                offset_valid.eq(0),
                value_valid.eq(0),
                self.s_axil_bvalid.eq(1),
                self.s_axil_bresp.eq(Mux(okay, _OKAY, _SLVERR)),
            ]
            with m.Switch(offset[2:]):
                for register in REGISTERS:
                    with m.Case(register.offset >> 2):
                        match register.access:
                            case Access.READ_WRITE:
                                m.d.comb += okay.eq(1)
                                for i, strobe in enumerate(strobes):  # an enable for each byte
                                    with m.If(strobe):
                                        byte = stored[register.name].word_select(i, 8)
                                        kept = register.kept >> 8 * i & 0xFF
                                        m.d.sync += byte.eq(value.word_select(i, 8) & kept)
                            case Access.WRITE_ONE_TO_CLEAR:
                                m.d.comb += [okay.eq(1), cleared.eq(written)]
                            case Access.WRITE:
                                m.d.comb += okay.eq(self._is_legal(written))
                                m.d.sync += self.control.eq(Mux(okay, written, 0))
        return cleared

    def _is_legal(self, requests: Value) -> Value:
        legal = requests == 0
        for request, states in _LEGAL.items():
            for state in states:
                legal |= (requests == request) & (self.state == state)
        return legal

    def _readable(self, stored: dict[str, Signal], pending: data.View) -> dict[str, Value]:
        values: dict[str, Value] = dict(stored)
        values |= {
            "CONFIG_HASH": C(self.config.hash, 32),
            "STATUS": self.state,
            "IRQ_STATUS": pending.as_value(),
            "ERROR_CODE": self.error.code,
            "ERROR_INDEX": self.error.index,
            "ERROR_LOW": self.error.address[:32],
            "ERROR_HIGH": self.error.address[32:],
        }
        return values

    def _read_channel(self, m: Module, values: dict[str, Value], awake: Signal) -> None:
        counters, address = self.counters, self.s_axil_araddr[2:]
        m.d.comb += self.s_axil_arready.eq(awake & ~self.s_axil_rvalid & ~counters.wanted)
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(counters.wanted & counters.found):
            m.d.sync += [
                counters.wanted.eq(0),
                self.s_axil_rvalid.eq(1),
                self.s_axil_rresp.eq(_OKAY),
                self.s_axil_rdata.eq(counters.value),
            ]
        with m.If(self.s_axil_arvalid & self.s_axil_arready):
            m.d.sync += [
                counters.row.eq(address),
                self.s_axil_rvalid.eq(1),
                self.s_axil_rresp.eq(_SLVERR),
                self.s_axil_rdata.eq(0),
            ]
            with m.Switch(address):
                with m.Case(*(offset >> 2 for offset in COUNTER_OFFSETS.values())):
                    m.d.sync += [counters.wanted.eq(1), self.s_axil_rvalid.eq(0)]
                for register in REGISTERS:
                    if register.name.lower() in COUNTER_OFFSETS:
                        continue
                    with m.Case(register.offset >> 2):
                        # What nothing drives is constant: the identification, or write-only.
                        value = values.get(register.name, C(register.reset, 32))
                        m.d.sync += [self.s_axil_rresp.eq(_OKAY), self.s_axil_rdata.eq(value)]
