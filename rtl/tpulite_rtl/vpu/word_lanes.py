"""What NORM and SHARE look up, slice by slice, and what becomes of a NORM's words."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import timing
from tpulite.arch.config import Config
from tpulite.arch.isa import NORM, Opcode
from tpulite_rtl.lib.layout import field_shape, struct_layout
from tpulite_rtl.lib.pipeline import delay
from tpulite_rtl.vpu.divider import Divider

__all__ = ["WORD_STAGE", "WordLanes"]

_MAXIMUM_STAGE = 2  # in which the maximum is there
_ADDRESS_STAGE = 3
WORD_STAGE = timing.ELEMENTWISE
"""Stage in which words are there, so that they enter the requantizer as other sums do."""
_TOTAL_STAGE = timing.NORM_STEPS - 1
_PARTS, _PART = 4, 4  # a row's maximum is that of so many parts at least, of so many bytes at most


class WordLanes(wiring.Component):
    """Find the words of ``config.word_lanes`` channels a cycle, and norms of their sums.

    Stages: choose the channels of a slice, and parts of the maximum; the maximum; differences; the
    table; words, without those beyond the tail. Of a NORM, stages more add words to their sum,
    which goes to the divider.

    Parameters
    ----------
    config : Config
        Geometry.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._slices = config.array_size // config.word_lanes
        vector = data.ArrayLayout(signed(8), config.array_size)
        lanes = config.word_lanes
        super().__init__(
            {
                # The operation is NORM, not SHARE.
                "is_norm": In(1),
                # Of the command.
                "tail": In(field_shape(Opcode.VECTOR, "tail")),
                # Stages up to the words move on.
                "moves": In(1),
                # A slice of a vector enters,
                "valid": In(1),
                # this one.
                "slice": In(range(self._slices)),
                # All channels of the vector.
                "a": In(vector),
                # All channels of a row of maxima, or of a NORM.
                "b": In(vector),
                # It is the last vector of a window.
                "ends": In(1),
                # The divider has no room for what this slice completes: it must not enter.
                "held": Out(1),
                # What to look up in the table.
                "address": Out(data.ArrayLayout(unsigned(8), lanes)),
                # The words of the addresses of the cycle before; they stay if nothing moves.
                "words": In(data.ArrayLayout(unsigned(32), lanes)),
                # Words, :data:`WORD_STAGE` cycles after their slice.
                "sums": Out(data.ArrayLayout(signed(32), lanes)),
                # Of a SHARE, the cycle after the word.
                "norm": Out(struct_layout(NORM)),
                # Rows of a NORM, ``timing.NORM_STEPS - 1 + timing.DIVIDER`` cycles after the last
                # slice.
                "o": Out(stream.Signature(unsigned(8 * config.row_bytes), always_ready=True)),
                # A slice of a NORM is inside.
                "busy": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.config.word_lanes
        is_norm = self.is_norm
        enters, completes, waiting = Signal(), Signal(), Signal(range(timing.DIVIDER_INTERVAL))
        m.d.comb += [
            completes.eq(self.ends & (self.slice == self._slices - 1) & is_norm),
            self.held.eq(completes & (waiting != 0)),
            enters.eq(self.valid & self.moves & ~self.held),
        ]
        with m.If(enters & completes):
            m.d.sync += waiting.eq(timing.DIVIDER_INTERVAL - 1)
        with m.Elif(waiting != 0):
            m.d.sync += waiting.eq(waiting - 1)

        maximum = self._maximum(m)
        for lane in range(lanes):
            channels = range(lane, self.config.array_size, lanes)
            kept = Signal(name=f"kept_{lane}")
            tails = Array(Const(channel, len(self.tail)) for channel in channels)
            everything = ~self.ends | (self.tail == 0) | ~is_norm
            m.d.comb += kept.eq(everything | (tails[self.slice] < self.tail))
            keeps = self._follow(m, kept, WORD_STAGE - 1, f"kept_{lane}")
            byte = Array(self.a[channel] for channel in channels)[self.slice]
            bytes_ = self._follow(m, byte, _MAXIMUM_STAGE, f"byte_{lane}")
            word = Signal(32, name=f"word_{lane}", reset_less=True)
            with m.If(self.moves):
                m.d.sync += [
                    self.address[lane].eq(maximum - bytes_[-1]),
                    word.eq(Mux(keeps[-1], self.words[lane], 0)),
                ]
            m.d.comb += self.sums[lane].eq(word)
        self._hold(m)
        self._add(m, enters & is_norm, completes, maximum)
        return m

    def _follow(self, m: Module, value: Value, stages: int, name: str) -> list:
        return delay(m, value, stages, name, enables=[self.moves] * stages)

    def _maximum(self, m: Module) -> Signal:
        """Return the largest byte of B, or that of its NORM, in stage 2."""
        size = min(_PART, self.config.array_size // _PARTS)
        parts = []
        for part in range(self.config.array_size // size):
            largest = Signal(signed(8), name=f"largest_{part}", reset_less=True)
            found = _largest([self.b[part * size + i] for i in range(size)])
            chosen = Mux(self.is_norm, found, self.b[0])
            with m.If(self.moves):
                m.d.sync += largest.eq(chosen)
            parts.append(largest)
        maximum = Signal(signed(8), reset_less=True)
        with m.If(self.moves):
            m.d.sync += maximum.eq(_largest(parts))
        return maximum

    def _hold(self, m: Module) -> None:
        """Keep the norm of a SHARE until the words of all slices have entered the requantizer."""
        first = Signal()
        m.d.comb += first.eq(self.valid & (self.slice == 0))
        firsts = self._follow(m, first, WORD_STAGE, "first")
        kept = Signal(struct_layout(NORM), reset_less=True)
        # The row stays as long as its slices enter: four cycles at least.
        with m.If(firsts[3] & self.moves):
            m.d.sync += kept.eq(self.b.as_value()[: NORM.width])
        with m.If(firsts[WORD_STAGE] & self.moves):
            m.d.sync += self.norm.eq(kept)

    def _add(self, m: Module, valid: Value, completes: Value, maximum: Signal) -> None:
        """Add up the words of a window; make rows of its maximum and what the divider finds."""
        m.submodules.divider = divider = Divider()
        valids = delay(m, valid, _TOTAL_STAGE, "norm_valid")
        ends = delay(m, valid & completes, _TOTAL_STAGE, "norm_ends")

        words = [self.sums[lane].as_unsigned() for lane in range(self.config.word_lanes)]
        pairs = []
        for i, pair in enumerate(zip(words[::2], [*words[1::2], Const(0, 1)], strict=False)):
            total = Signal(32, name=f"pair_{i}", reset_less=True)
            m.d.sync += total.eq(sum(pair))
            pairs.append(total)
        part, total = Signal(32, reset_less=True), Signal(32, reset_less=True)
        fresh = Signal(init=1)  # the next words are the first ones of a window
        m.d.sync += part.eq(sum(pairs))
        with m.If(valids[_TOTAL_STAGE - 1]):
            m.d.sync += [
                total.eq(Mux(fresh, 0, total) + part),
                fresh.eq(ends[_TOTAL_STAGE - 1]),
            ]
        # The next window's maximum may come before the sum.
        largest = Signal(signed(8), reset_less=True)
        with m.If(ends[_MAXIMUM_STAGE]):
            m.d.sync += largest.eq(maximum)
        m.d.comb += [
            divider.i.valid.eq(ends[_TOTAL_STAGE]),
            divider.i.payload.total.eq(total),
            divider.i.payload.maximum.eq(largest),
            self.o.payload.eq(divider.o.payload.as_value()),
            self.o.valid.eq(divider.o.valid),
            self.busy.eq(Cat(valids, divider.busy).any()),
        ]


def _largest(values: list) -> Value:
    """Return the largest of a power of two of values."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [Mux(a > b, a, b) for a, b in pairs]
    return values[0]
