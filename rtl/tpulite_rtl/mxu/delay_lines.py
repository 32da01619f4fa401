"""Lets rows of the array see a depthwise stream late."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.config import Config
from tpulite.arch.interleave import LINE, LINES, MOST_DELAY, WIDE_LINE
from tpulite_rtl.lib.memory import TwoPortRam

__all__ = ["DELAY", "LATE_ROWS", "SETTLED", "DelayLines"]

DELAY = range(MOST_DELAY + 1)
"""Delays of the shorter line; 0 if none is used."""

LATE_ROWS = (LINES - 1) * WIDE_LINE
"""Rows of the array that hold taps of the first two lines of a kernel."""

_AHEAD = 2
"""Cycles from asking for a row of the memory to its vector on the buses."""

_TIMES = (2, 1, 0)
"""How often the delay is that of each line of a kernel."""

SETTLED = 7
"""A delay is taken N - 7 cycles after the first vector of its command, two before it shows.

docs/depthwise.md says why: "Between two commands".
"""


class DelayLines(wiring.Component):
    """Delay the buses of a depthwise stream for the rows of the first two lines of a kernel.

    The kernel has three lines of three taps, or of five if it is wide.
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
                # Lines of that command's kernel have five taps.
                "wide": In(1),
                # That command's first vector did N - 7 cycles ago.
                "settled": In(1),
                # Odd vectors beside ``now``, skewed.
                "odd": In(signed(8)).array(n),
                # The vector that enters column 0 in this cycle is one of a pair.
                "pair": In(1),
                # Buses for the first rows of the array; the others see ``now``.
                "o": Out(signed(8)).array(LATE_ROWS, n),
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

        # What a row sees depends on the taps of a line.
        wide = _by_column(m, "wider", self.wide, n)
        seen: dict[tuple[int, int], list[Value]] = {}
        for row in range(LATE_ROWS):
            narrow, wider = _lines_of(row)
            each = zip(wide, lines[wider], lines[narrow], strict=True)
            seen[narrow, wider] = [Mux(*one) for one in each]
        last = [LINE * line + LINE - 1 for line in range(LINES)]
        odd = self._odd(m, [seen[_lines_of(row)] for row in last], place, used)
        buses: dict[tuple[int, int], list[Value]] = {}
        for row in range(LATE_ROWS):
            shared = _lines_of(row)
            if row in last:
                bus = odd[last.index(row)]
            else:
                if shared not in buses:
                    buses[shared] = _registers(m, "bus_{}_{}".format(*shared), seen[shared])
                bus = buses[shared]
            for out, value in zip(self.o[row], bus, strict=True):
                m.d.comb += out.eq(value)
        return m

    def _odd(
        self, m: Module, lines: list[list[Value]], place: Signal, used: Signal
    ) -> list[list[Value]]:
        """Return the buses of the last row of each line of three, which is ``lines`` but for pairs.

        Of a wide kernel these rows see no pairs.
        """
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


def _lines_of(row: int) -> tuple[int, int]:
    """Return the line of the kernel that a row belongs to: of three taps, and of five."""
    return min(row // LINE, LINES - 1), row // WIDE_LINE


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
