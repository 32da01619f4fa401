"""The system for LiteX's simulator: a CPU, a model of SDRAM behind LiteDRAM, and the chip."""

from pathlib import Path

from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAMPHYModel
from litex.build.generic_platform import Pins, Subsignal
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.soc.cores.uart import RS232PHYModel, UARTBone
from litex.soc.integration.common import get_mem_data
from litex.soc.integration.soc_core import SoCCore
from migen import ClockDomain, ResetSignal
from migen.genlib.resetsync import AsyncResetSynchronizer

from tpulite_litex.core import add_tpulite
from tpulite_litex.system import CLOCK

__all__ = ["SimulatedSystem"]

_BRIDGE_CLOCK = CLOCK // 10
"""Frequency that the bridge is told, in Hz: after a tenth of a second it forgets half a command."""

_DRAM_CLOCK = 100_000_000
"""Frequency that the timing of the SDRAM is computed for, in Hz."""

_DRAM_BITS = 32
_ROM_BYTES = 0x10000
_SRAM_BYTES = 0x2000

_SERIAL = (
    Subsignal("source_valid", Pins(1)),
    Subsignal("source_ready", Pins(1)),
    Subsignal("source_data", Pins(8)),
    Subsignal("sink_valid", Pins(1)),
    Subsignal("sink_ready", Pins(1)),
    Subsignal("sink_data", Pins(8)),
)


class SimulatedSystem(SoCCore):
    """A system that boots from main memory; its second UART is a bridge to the bus.

    Parameters
    ----------
    verilog : Path
        The chip.
    firmware : Path, optional
        What main memory holds from the start.
    cpu : str
        LiteX's name of the CPU.
    chip_clock : bool
        Whether the chip has a clock of its own, ``chip_clk``.
    """

    def __init__(self, verilog: Path, firmware: Path | None, cpu: str, *, chip_clock: bool) -> None:
        io = [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("chip_clk", 0, Pins(1))]
        io += [("serial", number, *_SERIAL) for number in range(2)]
        platform = SimPlatform("SIM", io)
        self.crg = CRG(platform.request("sys_clk"))
        super().__init__(
            platform,
            clk_freq=CLOCK,
            ident="tpulite in LiteX's simulator",
            cpu_type=cpu,
            uart_name="sim",
            integrated_rom_size=_ROM_BYTES,
            integrated_sram_size=_SRAM_BYTES,
            timer_uptime=True,
        )
        contents = []
        if firmware is not None:
            contents = get_mem_data(str(firmware), data_width=32, endianness="little")
        module = MT48LC16M16(_DRAM_CLOCK, "1:1")
        self.sdrphy = SDRAMPHYModel(
            module=module, data_width=_DRAM_BITS, clk_freq=_DRAM_CLOCK, init=contents
        )
        # Without a second cache nothing but VexRiscv's own, which writes through, is to be flushed.
        self.add_sdram("sdram", phy=self.sdrphy, module=module, l2_cache_size=0)
        if chip_clock:
            self.cd_chip = ClockDomain()
            self.comb += self.cd_chip.clk.eq(platform.request("chip_clk"))
            self.specials += AsyncResetSynchronizer(self.cd_chip, ResetSignal("sys"))
        add_tpulite(self, verilog, domain="chip" if chip_clock else "sys")
        self._add_bridge()
        platform.add_debug(self)  # with a register that ends the simulation

        for name in ("BIOS_NO_PROMPT", "BIOS_NO_DELAYS", "BIOS_NO_CRC"):
            self.add_config(name)
        self.add_constant("SDRAM_TEST_DISABLE")  # it would overwrite the firmware
        self.add_constant("ROM_BOOT_ADDRESS", self.bus.regions["main_ram"].origin)

    def _add_bridge(self) -> None:
        """Let a host reach the bus over the second UART."""
        self.bridge_phy = RS232PHYModel(self.platform.request("serial", 1))
        self.bridge = UARTBone(self.bridge_phy, _BRIDGE_CLOCK)
        self.bus.add_master(name="bridge", master=self.bridge.wishbone)
