"""The chip beside the ARM cores of a KV260: in their address space, and at their DRAM.

A KV260 has no DRAM at the fabric, and no clock or UART without the processor. So here the ARM cores
are LiteX's CPU, and the chip's master is at S_AXI_HP0_FPD of the processor, a port to its DRAM that
LiteX 2024.12 does not know.
"""

from pathlib import Path

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import axi
from litex_boards.platforms import xilinx_kv260
from migen import ClockDomain, ClockSignal, ResetSignal

from tpulite.arch.config import BEAT_BYTES
from tpulite_litex.core import add_tpulite

__all__ = ["REGISTERS", "KV260System"]

REGISTERS = 0xA001_0000
"""Of the chip, behind M_AXI_HPM0_FPD and LiteX's own registers."""

_DRAM_BYTES = 0x8000_0000
"""What lies from address 0; the upper half of 4 GiB is elsewhere."""

_FLASH_BYTES = 0x400_0000

_ADDRESS_BITS, _ID_BITS = 49, 6
"""Of the port."""

_ADDRESS = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")
_CHANNELS = {
    "aw": _ADDRESS, "w": ("data", "strb", "last"), "b": ("id", "resp"),
    "ar": _ADDRESS, "r": ("id", "data", "resp", "last"),
}  # fmt: skip
_TO_MEMORY = ("aw", "w", "ar")


class _Clocks(LiteXModule):
    """The processor's first clock and reset."""

    def __init__(self) -> None:
        self.cd_sys = ClockDomain()
        self.comb += [
            ClockSignal("sys").eq(ClockSignal("ps")),
            ResetSignal("sys").eq(ResetSignal("ps")),
        ]


class KV260System(SoCCore):
    """The ARM cores and the chip, for an operating system: no BIOS, and no firmware.

    Parameters
    ----------
    verilog : Path
        The chip.
    clock : float
        Of the fabric, in Hz, which the processor gives.
    """

    def __init__(self, verilog: Path, clock: float) -> None:
        platform = xilinx_kv260.Platform()
        self.crg = _Clocks()
        super().__init__(
            platform,
            clk_freq=clock,
            ident="tpulite on a KV260",
            cpu_type="zynqmp",
            integrated_sram_size=0,
            with_uart=False,
        )
        # What LiteX asks of each system is DRAM and flash of the processor.
        self.bus.add_region("sram", SoCRegion(self.mem_map["sram"], _DRAM_BYTES))
        self.bus.add_region("rom", SoCRegion(self.mem_map["rom"], _FLASH_BYTES, linker=True))
        add_tpulite(self, verilog, origin=REGISTERS, memory=_dram_port(self.cpu, clock))


def _dram_port(cpu, clock: float) -> axi.AXIInterface:
    """Return the port of the processor to its DRAM, as wide as the chip's master."""
    port = axi.AXIInterface(8 * BEAT_BYTES, _ADDRESS_BITS, id_width=_ID_BITS)
    cpu.config |= {
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": clock / 1e6,
        "PSU__USE__S_AXI_GP2": 1,
        "PSU__SAXIGP2__DATA_WIDTH": 8 * BEAT_BYTES,
    }
    cpu.cpu_params["i_saxihp0_fpd_aclk"] = ClockSignal("sys")
    for name, fields in _CHANNELS.items():
        channel = getattr(port, name)
        there, back = ("i", "o") if name in _TO_MEMORY else ("o", "i")
        for field in (*fields, "valid"):
            cpu.cpu_params[f"{there}_saxigp2_{name}{field}"] = getattr(channel, field)
        cpu.cpu_params[f"{back}_saxigp2_{name}ready"] = channel.ready
    return port
