"""A memory that answers command fetch, at the streams of its read channels."""

import random

import cocotb
from cocotb.triggers import ClockCycles

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES
from tpulite_rtl.bus.axi import BURST, READ_BEAT
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

__all__ = ["FetchMemory", "some_address"]

_BEATS = COMMAND_BYTES // BEAT_BYTES
_MOST_PAGES = 8
"""More than a program of the benches covers."""


class FetchMemory:
    """Answers bursts in order, beat by beat, and checks that each is one.

    Parameters
    ----------
    dut
        The design, with a ``read`` member.
    burst_beats : int
        Longest legal burst.
    idle, stall : float
        Fractions of cycles without beat, and without readiness for a burst.
    """

    def __init__(self, dut, *, burst_beats: int, idle: float = 0.0, stall: float = 0.0) -> None:
        self.latency = 5
        self.bursts: list[tuple[int, int]] = []
        self.requested = 0
        self.answered = 0
        self.bad_beats: set[int] = set()
        self.words: list[int] = []
        self.address = 0
        self.beats = StreamDriver(dut, "read__r", idle=idle)
        self.requests = StreamSink(dut, "read__ar", stall=stall)
        self._burst_beats = burst_beats
        self._clock = dut.clk
        StreamMonitor(dut, "read__ar", callback=self._burst)
        StreamMonitor(dut, "read__r", callback=self._answer)

    def place(self, words: list[int], *, address: int) -> None:
        """Put a program of 256-bit words at an address and forget the one before."""
        self.words, self.address = words, address
        self.requested = self.answered = 0
        self.bursts.clear()
        self.bad_beats.clear()

    def _burst(self, payload: int) -> None:
        burst = BURST.from_bits(payload)
        beats = burst.len + 1
        assert burst.address == self.address + BEAT_BYTES * self.requested
        assert beats <= self._burst_beats
        last = burst.address + BEAT_BYTES * beats - 1
        assert burst.address // PAGE_BYTES == last // PAGE_BYTES, "burst crosses 4 KiB"
        assert self.requested + beats <= _BEATS * len(self.words), "burst beyond the program"
        self.bursts.append((burst.address, beats))
        cocotb.start_soon(self._read(range(self.requested, self.requested + beats)))
        self.requested += beats

    async def _read(self, beats: range) -> None:
        await ClockCycles(self._clock, self.latency)
        for beat in beats:
            word = self.words[beat // _BEATS] >> (8 * BEAT_BYTES * (beat % _BEATS))
            values = {
                "data": word % (1 << 8 * BEAT_BYTES),
                "error": beat in self.bad_beats,
                "last": beat == beats[-1],
            }
            self.beats.append(READ_BEAT.const(values).as_bits())

    def _answer(self, _payload: int) -> None:
        self.answered += 1


def some_address() -> int:
    """Return an address, a multiple of 16, that is not far below the end of a page, or its last."""
    pages = (1 << ADDRESS_BITS) // PAGE_BYTES - _MOST_PAGES
    beats = random.choice([1, random.randrange(1, 100), random.randrange(1, 100)])
    return random.randrange(1, pages) * PAGE_BYTES - BEAT_BYTES * beats
