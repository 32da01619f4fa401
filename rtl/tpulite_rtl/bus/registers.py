"""Values of the registers as the components behind them see them."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from tpulite.arch.memory import ADDRESS_BITS, WINDOWS
from tpulite.arch.registers import COUNTER_OFFSETS, Control, Interrupt, RunState
from tpulite_rtl.dma.window import WINDOW_LAYOUT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = [
    "CONTROL",
    "COUNTER_ROWS",
    "INTERRUPT",
    "PROGRAM",
    "RUN_STATE_BITS",
    "WINDOW_ARRAY",
    "CountersSignature",
]

CONTROL = data.StructLayout({name.lower(): 1 for name in Control.__members__})
"""Requests of the host: each bit is high for one cycle."""

INTERRUPT = data.StructLayout({name.lower(): 1 for name in Interrupt.__members__})
"""Causes of the interrupt: each bit is high for one cycle."""

PROGRAM = data.StructLayout({"address": ADDRESS_BITS, "length": INDEX_BITS})
"""Where the program lies and how many commands it has; stable while it runs."""

WINDOW_ARRAY = data.ArrayLayout(WINDOW_LAYOUT, WINDOWS)
"""The DRAM windows; stable while a program runs."""

_FIRST_COUNTER = min(COUNTER_OFFSETS.values())

COUNTER_ROWS = {name: (at - _FIRST_COUNTER) // 4 for name, at in COUNTER_OFFSETS.items()}
"""Rows of the counters, by their register names in lower case: their order at the host."""

RUN_STATE_BITS = max(RunState).bit_length()
"""Width of a :class:`~tpulite.arch.registers.RunState`."""


class CountersSignature(wiring.Signature):
    """Where a counter is read, seen from who reads."""

    def __init__(self) -> None:
        super().__init__(
            {
                # Read the counter in ``row``. Both stay until ``found``, and ``wanted`` falls a
                # cycle later.
                "wanted": Out(1),
                # One of :data:`COUNTER_ROWS`.
                "row": Out(bits_for(max(COUNTER_ROWS.values()))),
                # ``value`` is the counter in some cycle since ``wanted`` rose.
                "found": In(1),
                "value": In(32),
            }
        )
