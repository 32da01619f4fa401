"""DRAM for cocotb benches, exact to the clock edge.

``tpulite_verilated`` holds the same memory in C++; a test holds them to the same edges.
"""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite_tb.edges import at_each_edge, reader

__all__ = ["MIN_LATENCY", "ReferenceMemory"]

MIN_LATENCY = 2
"""Shortest latency in edges: a request is seen at one edge, answered from the next on."""

_ERROR = 0b10
"""The bit of a response that says SLVERR or DECERR; without it, it is OKAY or EXOKAY."""


class ReferenceMemory:
    """DRAM behind an AXI4 subordinate with the timing of :class:`MemoryTiming`, in clock edges.

    AR, AW and W are always ready; reads are answered in the order of their requests, any number
    outstanding. To be as hard as AXI allows on a master that does not wait for
    responses, a read returns what the memory held at its request, and a write is seen by reads only
    from its response on. Every other transaction is answered EXOKAY, or DECERR instead of SLVERR.
    Beside a pair of memories, :attr:`constants` says what lies in that of
    constants.

    Parameters
    ----------
    entity
        The design, with ``clk`` and ``rst``.
    prefix : str
        What the names of the AXI signals start with.
    size : int
        Bytes. Accesses beyond answer an error.
    timing : MemoryTiming
        Latencies, at least :data:`MIN_LATENCY` each.
    stall : float
        Fraction of the cycles in which each channel pauses, at random.
    jitter : int
        Largest random number of edges that is added to each latency.
    read_errors, write_errors : iterable of range
        Addresses whose reads, beat by beat, or writes, a whole burst, are answered by an error;
        such a burst writes nothing. The lists may be changed at any time.
    mute_after : int, optional
        Reads, and likewise writes, that are answered; those that follow never are. May be changed
        at any time.

    Attributes
    ----------
    constants : list of range
        Addresses that lie in the memory of constants, if ``timing`` is a pair: a write there is
        answered by an error. May be changed between runs.
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
        latencies = (timing.read_latency, timing.write_response, timing.constants.read_latency)
        if min(latencies) < MIN_LATENCY:
            raise ValueError(f"Latencies must be at least {MIN_LATENCY} edges, not {timing!r}")
        self.size = size
        self.timing = timing
        self.jitter = jitter
        self.read_errors = list(read_errors)
        self.write_errors = list(write_errors)
        self.mute_after = mute_after
        self.constants: list[range] = []
        self.edges = 0
        self.mem = bytearray(size)
        self._rng = random.Random(random.getrandbits(64))
        self._stall = stall
        self._ar = _Sink(entity, f"{prefix}_ar", ("id", "addr", "len"))
        self._aw = _Sink(entity, f"{prefix}_aw", ("id", "addr", "len"))
        self._w = _Sink(entity, f"{prefix}_w", ("data", "strb"))
        self._r = _Source(entity, f"{prefix}_r", ("id", "data", "resp", "last"))
        self._b = _Source(entity, f"{prefix}_b", ("id", "resp"))
        self._in_reset = reader(entity.rst)
        self._forget()
        at_each_edge(entity.clk, self._step)

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
        return stop > self.size or _lies(address, beats, errors)

    def _check(self, address: int, size: int) -> None:
        if address < 0 or address + size > self.size:
            raise ValueError(f"[{address:#x}, {address + size:#x}) is outside {self.size:#x} bytes")

    def _forget(self) -> None:
        """Forget what is outstanding, as at a reset."""
        self._requests: deque[_Write] = deque()
        self._beats: deque[tuple[int, int, int]] = deque()
        self._numbers = {"read": 0, "write": 0}
        # Edges from which on data paths are free.
        self._free = {"read": 0, "write": 0, "constants": 0}
        for source in (self._r, self._b):
            source.forget()
        for sink in (self._ar, self._aw, self._w):
            sink.drive(ready=False)

    def _step(self) -> None:
        self.edges += 1
        if self._in_reset():
            self._forget()
            return
        # Before the requests: a read sees what is answered from this edge on.
        if response := self._b.step(self.edges, paused=self._pauses()):
            for address, byte in response.stores:
                self.mem[address] = byte
        self._r.step(self.edges, paused=self._pauses())
        if request := self._ar.taken():
            self._read(*request)
        if request := self._aw.taken():
            number, address, length = request
            self._requests.append(_Write(number, address, length, self.edges))
        if beat := self._w.taken():
            word, strobe = beat
            self._beats.append((word, strobe, self.edges))
        self._write()
        for sink in (self._ar, self._aw, self._w):
            sink.drive(ready=not self._pauses())

    def _read(self, number: int, first: int, length: int) -> None:
        """Queue the beats of a burst, with what the memory holds now."""
        timing, path = self.timing, "read"
        if _lies(first, length + 1, self.constants):
            timing, path = self.timing.constants, "constants"
        begin = max(self.edges, self._free[path])
        self._free[path] = begin + (length + 1) * timing.beat_cycles + timing.burst_cycles
        odd = self._numbers["read"] & 1
        due = self._due("read", begin, timing.read_latency)
        for index in range(length + 1):
            address = first + index * BEAT_BYTES
            fails = self.fails(address, 1, self.read_errors)
            data = b"" if fails else self.mem[address : address + BEAT_BYTES]
            word = int.from_bytes(data, "little")
            values = (number, word, _ERROR * fails | odd, int(index == length))
            self._r.queue.append(_Answer(due + index * timing.beat_cycles, values))

    def _write(self) -> None:
        """Queue the responses of bursts that are complete."""
        while self._requests and len(self._beats) > self._requests[0].length:
            request = self._requests.popleft()
            edge, stores = request.edge, []
            for index in range(request.length + 1):
                word, strobe, accepted = self._beats.popleft()
                edge = max(edge, accepted)
                first = request.address + index * BEAT_BYTES
                data = word.to_bytes(BEAT_BYTES, "little")
                stores += [(first + j, data[j]) for j in range(BEAT_BYTES) if strobe >> j & 1]
            edge = self._written(edge, request.length + 1)
            refused = [*self.write_errors, *self.constants]
            fails = self.fails(request.address, request.length + 1, refused)
            values = (request.number, _ERROR * fails | self._numbers["write"] & 1)
            due = self._due("write", edge, self.timing.write_response)
            self._b.queue.append(_Answer(due, values, () if fails else tuple(stores)))

    def _written(self, edge: int, beats: int) -> int:
        """Return the edge at which a burst that is complete at ``edge`` has been written."""
        timing, path = self.timing, "read" if self.timing.shared else "write"
        edge = max(edge, self._free[path] + beats * timing.beat_cycles)
        self._free[path] = edge + timing.burst_cycles
        return edge

    def _due(self, kind: str, edge: int, latency: int) -> float:
        """Return the edge of the answer to the next transaction, asked at ``edge``."""
        number = self._numbers[kind]
        self._numbers[kind] += 1
        if self.mute_after is not None and number >= self.mute_after:
            return float("inf")
        return edge + latency + (self._rng.randint(0, self.jitter) if self.jitter else 0)

    def _pauses(self) -> bool:
        """Draw whether a channel pauses in the next cycle."""
        return bool(self._stall) and self._rng.random() < self._stall


def _lies(address: int, beats: int, ranges: Iterable[range]) -> bool:
    """Return whether a burst touches one of some ranges."""
    stop = address + beats * BEAT_BYTES
    return any(address < each.stop and each.start < stop for each in ranges)


@dataclass(frozen=True)
class _Write:
    """A request of AW, and the edge at which it was accepted."""

    number: int
    address: int
    length: int
    edge: int


@dataclass(frozen=True)
class _Answer:
    """A beat of R or B for an edge, and the bytes that it makes visible."""

    due: float
    values: tuple[int, ...]
    stores: tuple[tuple[int, int], ...] = ()


class _Sink:
    """A channel of requests."""

    def __init__(self, entity, channel: str, names: tuple[str, ...]) -> None:
        self._is_valid = reader(getattr(entity, f"{channel}valid"))
        self._read = [reader(getattr(entity, f"{channel}{name}")) for name in names]
        self._port = getattr(entity, f"{channel}ready")
        self._ready: bool | None = None

    def drive(self, *, ready: bool) -> None:
        """Be ready in the next cycle, or not."""
        if ready != self._ready:
            self._port.value = self._ready = ready

    def taken(self) -> tuple[int, ...] | None:
        """Return what is transferred at this edge, if anything is."""
        return tuple(read() for read in self._read) if self._ready and self._is_valid() else None


class _Source:
    """A channel of answers: each is offered for its own edge, not earlier, in order."""

    def __init__(self, entity, channel: str, names: tuple[str, ...]) -> None:
        self._ports = [getattr(entity, f"{channel}{name}") for name in names]
        self._is_ready = reader(getattr(entity, f"{channel}ready"))
        self._port = getattr(entity, f"{channel}valid")
        self._valid: bool | None = None
        self.queue: deque[_Answer] = deque()

    def forget(self) -> None:
        """Withdraw what is offered, and what waits."""
        self.queue.clear()
        self._drive(valid=False)

    def step(self, edge: int, *, paused: bool) -> _Answer | None:
        """Return what is offered anew after this edge, if anything is."""
        if self._valid and not self._is_ready():
            return None
        offers = bool(self.queue) and self.queue[0].due <= edge + 1 and not paused
        self._drive(valid=offers)
        if not offers:
            return None
        answer = self.queue.popleft()
        for port, value in zip(self._ports, answer.values, strict=True):
            port.value = value
        return answer

    def _drive(self, *, valid: bool) -> None:
        if valid != self._valid:
            self._port.value = self._valid = valid
