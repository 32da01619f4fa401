"""An engine of plain Python at the command processor's port."""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, ENGINE_OF, Command, Engine, Opcode
from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import EngineState, Fault, RunState
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import built

__all__ = ["EngineModel"]

_OPCODE_OF = {engine: opcode for opcode, engine in ENGINE_OF.items()}
_WORKING = (EngineState.BUSY, EngineState.BUFFER, EngineState.AXI)
"""What an engine shows at work; the last one only those that have AXI."""


class EngineModel:
    """Waits for the tokens of a command, takes its time, gives the tokens; fails where told.

    It moves at falling edges, so that everything has settled before the next rising edge.

    Parameters
    ----------
    dut
        The command processor.
    engine : Engine
        Which engine it is.
    log : list
        Where it notes each start and each completion: ``(what, engine, index)``.

    Attributes
    ----------
    received : dict
        The commands that it was given, by index.
    fault_address : int
        What it says of its last fault; drawn.
    """

    def __init__(self, dut, engine: Engine, log: list[tuple[str, Engine, int]]) -> None:
        self.engine = engine
        self.slow = 0.8
        self.fault_at: int | None = None
        self.fault_address = 0
        self.received: dict[int, Command] = {}
        self.log = log
        self._layout = built(COMMANDS[_OPCODE_OF[engine]], Config())
        self._dut = dut
        self._quiet_in = 0
        self._forget()
        cocotb.start_soon(self._run())

    def port(self, name: str):
        """Return a signal of the engine's port."""
        return getattr(self._dut, f"engine_{self.engine.name.lower()}__{name}")

    def _forget(self) -> None:
        self.port("command__ready").value = 0
        self.port("take__valid").value = 0
        self.port("give__valid").value = 0
        self.port("idle").value = 1
        self.port("quiet").value = 1
        self.port("state").value = EngineState.IDLE
        self.port("index").value = 0
        self.port("fault").value = 0

    async def _run(self) -> None:
        while True:
            await FallingEdge(self._dut.clk)
            stopped = self._dut.rst.value or self.port("stop").value
            if stopped or not self.port("command__valid").value:
                continue
            word = self.port("command__payload").value.to_unsigned()
            index = word >> self._layout.width
            fields = self._layout.unpack(word % (1 << self._layout.width))
            opcode = fields.pop("opcode")
            self.received[index] = Command.make(Opcode(opcode), **fields)
            self.port("index").value = index
            self.port("state").value = EngineState.TOKEN
            if not await self._hand_over("take", fields["wait"]):
                continue
            self.log.append(("start", self.engine, index))
            self.port("command__ready").value = 1
            await FallingEdge(self._dut.clk)
            self.port("command__ready").value = 0
            self.port("idle").value = 0
            shown = _WORKING if self.engine in (Engine.LOAD, Engine.STORE) else _WORKING[:2]
            self.port("state").value = shown[index % len(shown)]
            if not await self._work():
                continue
            if self.fault_at == index:
                await self._fail(index)
                continue
            if not await self._hand_over("give", fields["signal"]):
                continue
            self.log.append(("complete", self.engine, index))
            self.port("idle").value = 1
            self.port("state").value = EngineState.IDLE

    async def _work(self) -> bool:
        """Let some cycles pass; false if the chip was cleared meanwhile."""
        while random.random() < self.slow:
            await RisingEdge(self._dut.clk)
            if self._dut.clear.value:
                self._forget()
                return False
            await FallingEdge(self._dut.clk)
        return True

    async def _hand_over(self, name: str, mask: int) -> bool:
        """Offer a mask until it is accepted, or until the chip is cleared."""
        self.port(f"{name}__payload").value = mask
        self.port(f"{name}__valid").value = 1
        accepted = False
        while not accepted:
            # Offers are made at the falling edge, so this sees what the rising edge will do.
            await RisingEdge(self._dut.clk)
            if self._dut.clear.value:
                self._forget()
                return False
            accepted = bool(self.port(f"{name}__ready").value)
            await FallingEdge(self._dut.clk)
            if name == "take" and self.port("stop").value and not accepted:
                self.port(f"{name}__valid").value = 0
                await self._cleared()
                return False
        self.port(f"{name}__valid").value = 0
        return True

    async def _fail(self, index: int) -> None:
        """Show a fault, be quiet a little later, and wait for the soft reset."""
        self.fault_address = random.getrandbits(ADDRESS_BITS)
        fault = {
            "valid": 1,
            "code": Fault.WINDOW,
            "index": index,
            "address": self.fault_address,
        }
        self.port("quiet").value = 0
        self.port("fault").value = FAULT.const(fault).as_bits()
        await FallingEdge(self._dut.clk)
        self.port("fault").value = 0
        await ClockCycles(self._dut.clk, 20)
        assert self._dut.state.value == RunState.STOPPING
        self.port("quiet").value = 1
        await self._cleared()

    async def _cleared(self) -> None:
        await RisingEdge(self._dut.clk)
        while not self._dut.clear.value:
            await RisingEdge(self._dut.clk)
        self._forget()
