"""Both sides of the port where counters are read."""

from cocotb.triggers import RisingEdge

from tpulite_rtl.bus.registers import COUNTER_ROWS
from tpulite_rtl.cp.counters import TURNS

LATE = 7
"""Cycles that the value of a counter lacks when it is found."""


async def read_counter(dut, port: str, name: str) -> int:
    """Read a counter while nothing counts."""
    wanted, row = getattr(dut, f"{port}__wanted"), getattr(dut, f"{port}__row")
    found, value = getattr(dut, f"{port}__found"), getattr(dut, f"{port}__value")
    row.value, wanted.value = COUNTER_ROWS[name], 1
    for _cycle in range(TURNS + LATE):
        await RisingEdge(dut.clk)
        if found.value:
            wanted.value = 0
            return value.value.to_unsigned()
    raise AssertionError(f"{name} was not found")


async def answer_counters(dut, port: str, values: dict[str, int], pauses) -> None:
    """Give the values that are wanted, after some cycles each."""
    names = {row: name for name, row in COUNTER_ROWS.items()}
    wanted, row = getattr(dut, f"{port}__wanted"), getattr(dut, f"{port}__row")
    found, value = getattr(dut, f"{port}__found"), getattr(dut, f"{port}__value")
    while True:
        await RisingEdge(dut.clk)
        if wanted.value == 1 and not next(pauses):
            value.value, found.value = values[names[int(row.value)]], 1
            await RisingEdge(dut.clk)
            value.value, found.value = 0, 0
            await RisingEdge(dut.clk)
