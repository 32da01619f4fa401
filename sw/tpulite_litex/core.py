"""The chip as a LiteX module: registers on the bus, DRAM through LiteDRAM, an interrupt."""

from pathlib import Path

from litedram.frontend.axi import LiteDRAMAXI2Native
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import axi, stream
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal
from migen.genlib.cdc import MultiReg

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import ADDRESS_BITS
from tpulite_litex.device import REGISTERS
from tpulite_litex.guard import AddressGuard
from tpulite_rtl.bus.axi import ID_BITS
from tpulite_rtl.bus.register_file import OFFSET_BITS
from tpulite_rtl.verilog import TOP

__all__ = ["TpuliteCore", "add_tpulite"]

REGION_BYTES = 4096
"""Of the bus; the registers take the first of them."""

_LITE = {
    "aw": ("addr", "prot"), "w": ("data", "strb"), "b": ("resp",),
    "ar": ("addr", "prot"), "r": ("data", "resp"),
}  # fmt: skip
_ADDRESS = ("id", "addr", "len", "size", "burst", "cache", "prot")
_FULL = {
    "aw": _ADDRESS, "w": ("data", "strb", "last"), "b": ("id", "resp"),
    "ar": _ADDRESS, "r": ("id", "data", "resp", "last"),
}  # fmt: skip
_FROM_MASTER = ("aw", "w", "ar")


class TpuliteCore(LiteXModule):
    """The chip's Verilog with LiteX's interfaces.

    Parameters
    ----------
    platform : GenericPlatform
        Gets the source.
    verilog : Path
        The chip, as ``tpulite verilog`` writes it.
    domain : str
        Clock domain of the chip; the interfaces are the system's.

    Attributes
    ----------
    registers : AXILiteInterface
        Subordinate, 32 bits of data.
    memory : AXIInterface
        Master, 128 bits of data, INCR bursts that do not cross 4,096 bytes.
    ev : EventManager
        The interrupt, high until it is cleared in the chip's IRQ_STATUS.
    """

    def __init__(self, platform, verilog: Path, domain: str = "sys") -> None:
        self.registers = axi.AXILiteInterface(data_width=32, address_width=32)
        registers = axi.AXILiteInterface(data_width=32, address_width=32)
        self.crossing = axi.AXILiteClockDomainCrossing(self.registers, registers, "sys", domain)
        self.memory = axi.AXIInterface(
            data_width=8 * BEAT_BYTES, address_width=ADDRESS_BITS, id_width=ID_BITS
        )
        self.ev = EventManager()
        self.ev.interrupt = EventSourceLevel(description="A program ended, or the chip stopped.")
        self.ev.finalize()

        interrupt = Signal()
        if domain == "sys":
            self.comb += self.ev.interrupt.trigger.eq(interrupt)
        else:
            self.specials += MultiReg(interrupt, self.ev.interrupt.trigger)
        ports = {"i_clk": ClockSignal(domain), "i_rst": ResetSignal(domain), "o_irq": interrupt}
        ports |= _ports("s_axil", registers, _LITE, master=False)
        ports |= _ports("m_axi", self._crossed(domain), _FULL, master=True)
        for name in ("s_axil_awaddr", "s_axil_araddr"):
            ports[f"i_{name}"] = ports[f"i_{name}"][:OFFSET_BITS]
        self.specials += Instance(TOP, **ports)
        platform.add_source(str(verilog))

    def _crossed(self, domain: str):
        """Return the memory's interface in a clock domain: each channel passes a FIFO.

        In the same domain it is one of registers, so no path leads from within the chip through
        LiteDRAM's converters and arbiters.
        """
        inner = axi.AXIInterface(
            data_width=8 * BEAT_BYTES, address_width=ADDRESS_BITS, id_width=ID_BITS
        )
        for name in _FULL:
            source, sink = getattr(inner, name), getattr(self.memory, name)
            from_, to = domain, "sys"
            if name not in _FROM_MASTER:
                source, sink, from_, to = sink, source, to, from_
            if domain == "sys":
                crossing = stream.Buffer(source.description, pipe_ready=True)
            else:
                crossing = stream.ClockDomainCrossing(source.description, from_, to)
            self.submodules += crossing
            self.comb += [source.connect(crossing.sink), crossing.source.connect(sink)]
        return inner


def add_tpulite(
    soc, verilog: Path, *, origin: int = REGISTERS, domain: str = "sys", memory=None
) -> TpuliteCore:
    """Add the chip to a system that has LiteDRAM, or another memory, and return it.

    LiteX converts the registers' bus, and LiteDRAM the width of the memory's port. The generated
    headers have ``TPULITE_BASE`` and ``TPULITE_INTERRUPT``.

    Parameters
    ----------
    soc : LiteXSoC
        The system, after ``add_sdram`` if its memory is LiteDRAM.
    verilog : Path
        The chip.
    origin : int
        Address of the registers, in a part of the CPU's map that it does not cache.
    domain : str
        Clock domain of the chip. Another one than the system's, with a reset together with it, is
        crossed by LiteX's asynchronous FIFOs.
    memory : AXIInterface, optional
        Memory that is not LiteDRAM, of 128 bits. It answers with an error where there is none.
    """
    core = TpuliteCore(soc.platform, verilog, domain)
    soc.add_module("tpulite", core)
    region = SoCRegion(origin=origin, size=REGION_BYTES, cached=False)
    soc.bus.add_slave("tpulite", core.registers, region)
    if soc.irq.enabled:
        soc.irq.add("tpulite", use_loc_if_exists=True)
    if memory is None:
        _add_litedram(soc, core)
    else:
        soc.comb += core.memory.connect(memory)
    return core


def _add_litedram(soc, core: TpuliteCore) -> None:
    """Connect the chip's master to a port of LiteDRAM."""
    port = soc.sdram.crossbar.get_port(data_width=core.memory.data_width)
    memory = soc.bus.regions["main_ram"]
    guard = AddressGuard(core.memory, origin=memory.origin, size=memory.size)
    soc.submodules.tpulite_guard = guard
    soc.submodules.tpulite_memory = LiteDRAMAXI2Native(
        guard.memory, port, base_address=memory.origin
    )


def _ports(prefix: str, bus, channels: dict[str, tuple[str, ...]], *, master: bool) -> dict:
    """Return the connections of a bus to the ports of an Instance."""
    ports = {}
    for name, fields in channels.items():
        channel = getattr(bus, name)
        driven = master == (name in _FROM_MASTER)
        directions = dict.fromkeys((*fields, "valid"), "o" if driven else "i")
        directions["ready"] = "i" if driven else "o"
        for field, direction in directions.items():
            ports[f"{direction}_{prefix}_{name}{field}"] = getattr(channel, field)
    return ports
