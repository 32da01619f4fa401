"""Executes the register sequences of :mod:`tpulite.runtime.driver` in a cocotb bench."""

from typing import TypeVar

from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteMaster, AxiResp

from tpulite.runtime.driver import Access, Sequence, Wait

__all__ = ["execute"]

T = TypeVar("T")


async def execute(entity, registers: AxiLiteMaster, sequence: Sequence[T]) -> T:
    """Execute a sequence.

    Parameters
    ----------
    entity
        The design, with ``irq`` and ``clk``.
    registers : AxiLiteMaster
        Master on its register port.
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
                read = await registers.read(offset, 4)
                _check(read.resp, "read", offset)
                answer = int.from_bytes(read.data, "little")
            case Access(offset, int(value)):
                write = await registers.write(offset, value.to_bytes(4, "little"))
                _check(write.resp, "write", offset)
            case Wait():
                edge = RisingEdge(entity.clk)
                while not entity.irq.value:
                    await edge


def _check(response: AxiResp, access: str, offset: int) -> None:
    if response != AxiResp.OKAY:
        raise OSError(f"The chip answers {response.name} to a {access} of register {offset:#x}")
