"""The reference memory for cocotb benches: cocotbext-axi's RAM, exact to the clock edge.

``tpulite_rtl.verilated`` holds the same memory in C++; a test holds them to the same edges.
"""

import logging
import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NoReturn

import cocotb
import numpy as np
from cocotb.queue import Queue
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus
from cocotbext.axi.axi_channels import AxiBSource, AxiRSource
from cocotbext.axi.axi_ram import AxiRamRead, AxiRamWrite
from cocotbext.axi.constants import AxiResp

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming

__all__ = ["MIN_LATENCY", "ReferenceMemory"]

MIN_LATENCY = 2
"""Shortest latency in edges: a request is seen at one edge, answered from the next on."""


class ReferenceMemory:
    """DRAM behind an AXI4 subordinate with the timing of :class:`MemoryTiming`, in clock edges.

    AR, AW and W are always ready; reads are answered in the order of their requests, one beat a
    cycle, any number outstanding. To be as hard as AXI allows on a master that does not wait for
    responses, a read returns what the memory held at its request, and a write is seen by reads only
    from its response on.

    Parameters
    ----------
    entity
        The design, with ``clk`` and ``rst``.
    prefix : str
        What the names of the AXI signals start with.
    size : int
        Bytes. Accesses beyond answer SLVERR.
    timing : MemoryTiming
        Latencies, at least :data:`MIN_LATENCY` each.
    stall : float
        Fraction of the cycles in which each channel pauses, at random.
    jitter : int
        Largest random number of edges that is added to each latency.
    read_errors, write_errors : iterable of range
        Addresses whose reads, beat by beat, or writes, a whole burst, are answered SLVERR; such a
        burst writes nothing. The lists may be changed at any time.
    mute_after : int, optional
        Reads, and likewise writes, that are answered; those that follow never are. May be changed
        at any time.
    """

    def __init__(  # noqa: PLR0913 - what can be set of a memory
        self,
        entity,
        prefix: str = "m_axi",
        *,
        size: int = 1 << 20,
        timing: MemoryTiming = REFERENCE_MEMORY,
        stall: float = 0.0,
        jitter: int = 0,
        read_errors: Iterable[range] = (),
        write_errors: Iterable[range] = (),
        mute_after: int | None = None,
    ) -> None:
        if min(timing.read_latency, timing.write_response) < MIN_LATENCY:
            raise ValueError(f"Latencies must be at least {MIN_LATENCY} edges, not {timing!r}")
        self.size = size
        self.timing = timing
        self.jitter = jitter
        self.read_errors = list(read_errors)
        self.write_errors = list(write_errors)
        self.mute_after = mute_after
        self.edges = 0
        self.mem = bytearray(size)
        self._rng = random.Random(random.getrandbits(64))
        logging.getLogger(f"cocotb.{entity._name}.{prefix}").setLevel(logging.ERROR)
        for channel in ("ar", "r", "aw", "w", "b"):
            logging.getLogger(f"cocotb.{entity._name}.{prefix}_{channel}").setLevel(logging.ERROR)
        # Before the channels, so that at every edge it runs before them.
        cocotb.start_soon(self._count(RisingEdge(entity.clk)))
        bus = AxiBus.from_prefix(entity, prefix)
        self._reads = _Reads(self, bus.read, entity.clk, entity.rst)
        self._writes = _Writes(self, bus.write, entity.clk, entity.rst)
        if stall:
            reads, writes = self._reads, self._writes
            for channel in (reads.ar_channel, reads.r_channel, writes.aw_channel):
                channel.set_pause_generator(self._pauses(stall))
            for channel in (writes.w_channel, writes.b_channel):
                channel.set_pause_generator(self._pauses(stall))

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into the memory."""
        data = bytes(data)
        self._check(address, len(data))
        self.mem[address : address + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of the memory."""
        self._check(address, size)
        return bytes(self.mem[address : address + size])

    def fails(self, address: int, beats: int, errors: list[range]) -> bool:
        """Return whether an access is answered with an error."""
        stop = address + beats * BEAT_BYTES
        return stop > self.size or any(address < x.stop and x.start < stop for x in errors)

    def due(self, edge: int, latency: int, number: int) -> float:
        """Return the edge of the answer to the transaction of that number, asked at ``edge``."""
        if self.mute_after is not None and number >= self.mute_after:
            return float("inf")
        return edge + latency + (self._rng.randint(0, self.jitter) if self.jitter else 0)

    def _check(self, address: int, size: int) -> None:
        if address < 0 or address + size > self.size:
            raise ValueError(f"[{address:#x}, {address + size:#x}) is outside {self.size:#x} bytes")

    def _pauses(self, stall: float) -> Iterator[bool]:
        rng = random.Random(self._rng.getrandbits(64))
        while True:
            yield rng.random() < stall

    async def _count(self, edge: RisingEdge) -> None:
        while True:
            await edge
            self.edges += 1


class _StampedQueue(Queue):
    """Queue that remembers at which edge each transfer was accepted."""

    def __init__(self, memory: ReferenceMemory) -> None:
        super().__init__()
        self._memory = memory

    def _put(self, item) -> None:
        item.edge = self._memory.edges
        super()._put(item)


class _DueSource:
    """Source that offers each beat for its own edge ``due``, not earlier, in order."""

    memory: ReferenceMemory

    async def _run(self) -> None:
        edge = RisingEdge(self.clock)
        while True:
            await edge
            if self.valid.value and not self.ready.value:
                continue
            beats: deque = self.queue._queue
            if beats and beats[0].due <= self.memory.edges + 1 and not self.pause:
                beat = self.queue.get_nowait()
                for address, byte in beat.stores:
                    self.memory.mem[address] = byte
                self.bus.drive(beat)
                self.valid.value = 1
            else:
                self.valid.value = 0


class _DueRSource(_DueSource, AxiRSource):
    pass


class _DueBSource(_DueSource, AxiBSource):
    pass


class _Reads(AxiRamRead):
    def __init__(self, memory: ReferenceMemory, bus, clock, reset) -> None:
        super().__init__(bus, clock, reset, mem=memory.mem)
        self.memory = memory
        self.ar_channel.queue = _StampedQueue(memory)
        self.ar_channel.queue_occupancy_limit = -1  # always ready
        self.r_channel = _DueRSource(bus.r, clock, reset)  # pyright: ignore[reportCallIssue]
        self.r_channel.memory = memory

    async def _process_read(self) -> NoReturn:
        number = 0
        while True:
            ar = await self.ar_channel.recv()
            due = self.memory.due(ar.edge, self.memory.timing.read_latency, number)
            number += 1
            beats = int(ar.arlen) + 1
            for i in range(beats):
                address = int(ar.araddr) + i * BEAT_BYTES
                r = self.r_channel._transaction_obj()
                r.rid = int(ar.arid)
                r.rlast = i == beats - 1
                fails = self.memory.fails(address, 1, self.memory.read_errors)
                r.rresp = AxiResp.SLVERR if fails else AxiResp.OKAY
                data = b"" if fails else self.memory.mem[address : address + BEAT_BYTES]
                r.rdata = int.from_bytes(data, "little")
                r.due = due
                r.stores = ()
                self.r_channel.queue.put_nowait(r)


class _Writes(AxiRamWrite):
    def __init__(self, memory: ReferenceMemory, bus, clock, reset) -> None:
        super().__init__(bus, clock, reset, mem=memory.mem)
        self.memory = memory
        for channel in (self.aw_channel, self.w_channel):
            channel.queue = _StampedQueue(memory)
            channel.queue_occupancy_limit = -1  # always ready
        self.b_channel = _DueBSource(bus.b, clock, reset)  # pyright: ignore[reportCallIssue]
        self.b_channel.memory = memory

    async def _process_write(self) -> NoReturn:
        number = 0
        while True:
            aw = await self.aw_channel.recv()
            edge = aw.edge
            beats = int(aw.awlen) + 1
            stores: list[tuple[int, int]] = []
            for i in range(beats):
                w = await self.w_channel.recv()
                edge = max(edge, w.edge)
                data = int(w.wdata).to_bytes(BEAT_BYTES, "little")
                strobe = int(w.wstrb)
                address = int(aw.awaddr) + i * BEAT_BYTES
                stores += [(address + j, data[j]) for j in range(BEAT_BYTES) if strobe >> j & 1]
            b = self.b_channel._transaction_obj()
            b.bid = int(aw.awid)
            fails = self.memory.fails(int(aw.awaddr), beats, self.memory.write_errors)
            b.bresp = AxiResp.SLVERR if fails else AxiResp.OKAY
            b.due = self.memory.due(edge, self.memory.timing.write_response, number)
            number += 1
            b.stores = () if fails else stores
            self.b_channel.queue.put_nowait(b)
