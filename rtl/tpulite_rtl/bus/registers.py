"""Values of the registers as the components behind them see them."""

from amaranth.lib import data

from tpulite.arch.memory import ADDRESS_BITS, WINDOWS
from tpulite.arch.registers import COUNTER_OFFSETS, Control, Interrupt, RunState
from tpulite_rtl.dma.window import WINDOW_LAYOUT
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["CONTROL", "COUNTERS", "INTERRUPT", "PROGRAM", "RUN_STATE_BITS", "WINDOW_ARRAY"]

CONTROL = data.StructLayout({name.lower(): 1 for name in Control.__members__})
"""Requests of the host: each bit is high for one cycle."""

INTERRUPT = data.StructLayout({name.lower(): 1 for name in Interrupt.__members__})
"""Causes of the interrupt: each bit is high for one cycle."""

PROGRAM = data.StructLayout({"address": ADDRESS_BITS, "length": INDEX_BITS})
"""Where the program lies and how many commands it has; stable while it runs."""

WINDOW_ARRAY = data.ArrayLayout(WINDOW_LAYOUT, WINDOWS)
"""The DRAM windows; stable while a program runs."""

COUNTERS = data.StructLayout(dict.fromkeys(COUNTER_OFFSETS, 32))
"""The counters by their register names in lower case."""

RUN_STATE_BITS = max(RunState).bit_length()
"""Width of a :class:`~tpulite.arch.registers.RunState`."""
