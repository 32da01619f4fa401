"""Lets rows of the array see a depthwise stream late."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
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

_TIMES = (2, 1, 0)
"""How often the delay is that of each line of a kernel."""

SETTLED = 7
"""A delay is taken N - 7 cycles after the first vector of its command, two before it shows.

docs/depthwise.md says why: "Between two commands".
"""


class DelayLines(wiring.Component):
    """Delay the buses of a depthwise stream for the rows of the first two lines of a 3x3 kernel.

    docs/depthwise.md has a figure. Activations come skewed: that of column c is c cycles late, and
    so is every change from one command to the next, except of the delay itself. While the last
    columns need the old delay, the first do not look at the lines yet.

    Parameters
    ----------
    config : Config
        Geometry; the array has 16 columns or more.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.array_size
        super().__init__(
            {
                # Activations of the columns, skewed.
                "now": In(signed(8)).array(n),
                # Those of the next cycle.
                "next": In(signed(8)).array(n),
                # Delay of the command whose vector enters column 0 in the next cycle.
                "delay": In(DELAY),
                # That command's first vector did N - 7 cycles ago.
                "settled": In(1),
                # Odd vectors beside ``now``, skewed.
                "odd": In(signed(8)).array(n),
                # The vector that enters column 0 in this cycle is one of a pair.
                "pair": In(1),
                # Buses for the rows of a kernel.
                "o": Out(signed(8)).array(LINE * LINE, n),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        n = self.config.array_size

        used = Signal(DELAY, reset_less=True)
        with m.If(self.settled):
            m.d.sync += used.eq(self.delay)
        # Whether the vector that is in column c in the next cycle has a delay.
        late = _by_column(m, "later", self.delay.any(), n)
        place = Signal(range(_TIMES[0] * len(DELAY)))
        m.d.sync += place.eq(place + 1)

        lines: list[list[Value]] = []
        for line, times in enumerate(_TIMES[:-1]):
            old = self._old(
                m, f"line_{line}", self.now, times, place - times * used + _AHEAD, place
            )
            lines.append([Mux(*each) for each in zip(late, old, self.next, strict=True)])
        lines.append(list(self.next))
        even = [_registers(m, f"bus_{line}", values) for line, values in enumerate(lines[:-1])]
        even.append(list(self.now))
        odd = self._odd(m, lines, place, used)
        for line in range(LINE):
            for tap in range(LINE):
                buses = odd if tap == LINE - 1 else even
                for out, bus in zip(self.o[LINE * line + tap], buses[line], strict=True):
                    m.d.comb += out.eq(bus)
        return m

    def _odd(
        self, m: Module, lines: list[list[Value]], place: Signal, used: Signal
    ) -> list[list[Value]]:
        """Return the buses of the last row of each line, which is that line but for pairs."""
        # A sum ends a cycle after its last pair, so that these need the old delay a cycle longer.
        used_odd = Signal.like(used)
        m.d.sync += used_odd.eq(used)
        pair = _by_column(m, "pair_was", self.pair, self.config.array_size)
        buses = []
        for line, times in enumerate(_TIMES):
            values = list(self.odd)
            if times:
                row = place - times * used_odd + _AHEAD - 1
                values = self._old(m, f"odd_{line}", self.odd, times, row, place)
            chosen = [Mux(*each) for each in zip(pair, values, lines[line], strict=True)]
            buses.append(_registers(m, f"odd_bus_{line}", chosen))
        return buses

    def _old(
        self, m: Module, name: str, values: list, times: int, row: Value, place: Signal
    ) -> list[Value]:
        """Write the activations of all columns to a place; return those read from another row."""
        m.submodules[name] = ram = TwoPortRam(8 * len(values), times * len(DELAY))
        m.d.comb += [
            ram.write_enable.eq(1),
            ram.write_row.eq(place),
            ram.write_data.eq(Cat(values)),
            ram.read_enable.eq(1),
            ram.read_row.eq(row),
        ]
        return [ram.read_data.word_select(column, 8) for column in range(len(values))]


def _by_column(m: Module, name: str, first: Value, n: int) -> Value:
    """Return a bit of the vector in each column, from that of the one in the first."""
    later = Signal(n - 1, name=name, reset_less=True)
    bits = Cat(first, later)
    m.d.sync += later.eq(bits)
    return bits


def _registers(m: Module, name: str, values: list[Value]) -> list[Value]:
    """Return registers of activations."""
    buses = []
    for column, value in enumerate(values):
        bus = Signal(8, name=f"{name}_{column}", reset_less=True)
        m.d.sync += bus.eq(value)
        buses.append(bus)
    return buses
