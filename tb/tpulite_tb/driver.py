"""Executes the register sequences of :mod:`tpulite.runtime.driver` in a cocotb bench."""

from typing import Any, TypeVar

from cocotb.triggers import RisingEdge

from tpulite.runtime.driver import Access, Sequence, Wait

__all__ = ["RegisterPort", "execute"]

T = TypeVar("T")

_RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")
_ALL_BYTES = 0xF


class RegisterPort:
    """A host on AXI4-Lite that does one access after the other.

    Parameters
    ----------
    entity
        The design, with ``clk`` and ``s_axil_*``.
    """

    def __init__(self, entity) -> None:
        self._edge = RisingEdge(entity.clk)
        self._ports: dict[str, dict[str, Any]] = {
            channel: {
                name: getattr(entity, f"s_axil_{channel}{name}", None)
                for name in ("valid", "ready", "addr", "prot", "data", "strb", "resp")
            }
            for channel in ("aw", "w", "b", "ar", "r")
        }
        for channel in ("aw", "w", "ar"):
            self._ports[channel]["valid"].value = 0
        for channel in ("b", "r"):
            self._ports[channel]["ready"].value = 0

    async def read(self, offset: int) -> int:
        """Read a register; OSError if the answer is not OKAY."""
        await self._send({"ar": {"addr": offset, "prot": 0}})
        return await self._receive("r", f"read of register {offset:#x}")

    async def write(self, offset: int, value: int) -> None:
        """Write a register; OSError if the answer is not OKAY."""
        data = {"data": value, "strb": _ALL_BYTES}
        await self._send({"aw": {"addr": offset, "prot": 0}, "w": data})
        await self._receive("b", f"write of register {offset:#x}")

    async def _send(self, requests: dict[str, dict[str, int]]) -> None:
        """Offer on some channels at once, until each has taken it."""
        await self._edge
        for channel, values in requests.items():
            for name, value in (values | {"valid": 1}).items():
                if (port := self._ports[channel][name]) is not None:
                    port.value = value
        waiting = list(requests)
        while waiting:
            await self._edge
            for channel in [name for name in waiting if self._ports[name]["ready"].value]:
                self._ports[channel]["valid"].value = 0
                waiting.remove(channel)

    async def _receive(self, channel: str, access: str) -> int:
        """Take an answer; return its data, if it has any."""
        ports = self._ports[channel]
        ports["ready"].value = 1
        await self._edge
        while not ports["valid"].value:
            await self._edge
        ports["ready"].value = 0
        if response := int(ports["resp"].value):
            raise OSError(f"The chip answers {_RESPONSES[response]} to a {access}")
        return 0 if ports["data"] is None else int(ports["data"].value)


async def execute(entity, registers: RegisterPort, sequence: Sequence[T]) -> T:
    """Execute a sequence.

    Parameters
    ----------
    entity
        The design, with ``irq`` and ``clk``.
    registers : RegisterPort
        Its register port.
    sequence : Sequence
        What to do; :func:`tpulite.runtime.driver.run` for example.

    Returns
    -------
    T
        What the sequence returns.

    Raises
    ------
    OSError
        If an access is not answered OKAY.
    """
    answer = None
    while True:
        try:
            step = sequence.send(answer)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value
        answer = None
        match step:
            case Access(offset, None):
                answer = await registers.read(offset)
            case Access(offset, int(value)):
                await registers.write(offset, value)
            case Wait():
                if not entity.irq.value:
                    await RisingEdge(entity.irq)
