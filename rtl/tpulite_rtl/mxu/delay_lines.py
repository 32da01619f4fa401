"""Lets rows of the array see a depthwise stream late."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, MOST_INTERLEAVED
from tpulite_rtl.lib.memory import TwoPortRam

__all__ = ["DELAY", "SETTLED", "DelayLines"]

DELAY = range(MOST_INTERLEAVED - LINE + 1)
"""Delays of the shorter line; 0 if none is used."""

_AHEAD = 2
"""Cycles from asking for a row of the memory to its vector on the buses."""

SETTLED = 7
"""A delay is taken N - 7 cycles after the first vector of its command, two before it shows.

The last sum of the command before ends in row 8, so that its rows 3 to 5 need the bus of the last
column until N - 5 cycles after that vector. The first sum of this one needs the line of row 0 in
column 0 2 d cycles after it: see :func:`tpulite.arch.interleave.least_interleaved`.
"""


class DelayLines(wiring.Component):
    """Delay the buses of a depthwise stream for the rows of the first two lines of a 3x3 kernel.

    With a delay of d the rows of line 0 see the stream 2 d cycles late, those of line 1 d cycles,
    all others at once; see :mod:`tpulite.arch.interleave`. Activations come skewed: that of column
    c is c cycles late, and so is every change from one command to the next. But for the delay
    itself: while the last columns need the old one, the first do not look at the lines yet.

    Parameters
    ----------
    config : Config
        Geometry; the array has 16 columns or more.

    Members
    -------
    now : In(signed(8)).array(N)
        Activations of the columns, skewed.
    next : In(signed(8)).array(N)
        Those of the next cycle.
    delay : In(DELAY)
        Delay of the command whose vector enters column 0 in the next cycle.
    settled : In(1)
        That command's first vector did N - 7 cycles ago.
    o : Out(signed(8)).array(LINE, N)
        Buses for the rows of each line of a kernel.
    """

    now: list
    next: list
    delay: Signal
    settled: Signal
    o: list

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.array_size
        super().__init__(
            {
                "now": In(signed(8)).array(n),
                "next": In(signed(8)).array(n),
                "delay": In(DELAY),
                "settled": In(1),
                "o": Out(signed(8)).array(LINE, n),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self.config.array_size

        used = Signal(DELAY, reset_less=True)
        with m.If(self.settled):
            m.d.sync += used.eq(self.delay)
        # Whether the vector that is in column c in the next cycle has a delay.
        later = Signal(n - 1, reset_less=True)
        late = Cat(self.delay.any(), later)
        m.d.sync += later.eq(late)

        for line, times in ((0, 2), (1, 1)):
            ram = TwoPortRam(8 * n, times * len(DELAY))
            m.submodules[f"line_{line}"] = ram
            place = Signal(range(ram.depth), name=f"place_{line}")
            m.d.sync += place.eq(place + 1)
            m.d.comb += [
                ram.write_enable.eq(1),
                ram.write_row.eq(place),
                ram.write_data.eq(Cat(self.now)),
                ram.read_enable.eq(1),
                ram.read_row.eq(place - times * used + _AHEAD),
            ]
            for column in range(n):
                bus = Signal(8, name=f"bus_{line}_{column}", reset_less=True)
                old = ram.read_data.word_select(column, 8)
                m.d.sync += bus.eq(Mux(late[column], old, self.next[column]))
                m.d.comb += self.o[line][column].eq(bus)
        m.d.comb += [bus.eq(now) for bus, now in zip(self.o[2], self.now, strict=True)]
        return m
