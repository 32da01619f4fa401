"""The Verilated chip as a device."""

import ctypes
import time
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming
from tpulite.arch.registers import RunState, offset_of
from tpulite.runtime import driver
from tpulite.runtime.device import Job, RunResult
from tpulite_verilated.library import build_library, cached_verilog, load_library
from tpulite_verilated.trace import ROW_WORDS, EngineTrace, trace_from_rows

__all__ = ["RtlDevice"]

_MIN_LATENCY = 2
_OKAY = 0
_LOOK = 4096
"""Cycles between two looks at a run: a fraction of a second."""


class RtlDevice:
    """A device that simulates the chip, cycle for cycle, with DRAM in C++.

    Follows :class:`tpulite.runtime.device.Device`. The first use of a configuration builds its
    simulator, which takes about a minute.

    Parameters
    ----------
    config : Config
        The machine.
    dram_bytes : int
        Size of DRAM.
    timing : MemoryTiming
        Of DRAM, in clock edges; latencies at least 2 each. Beside a pair of memories, a run reads
        its constants and commands from that of constants.
    stall : float
        Fraction of the cycles in which each AXI channel pauses, at random.
    jitter : int
        Largest random number of edges that is added to each latency.
    seed : int
        Seed of this randomness.
    read_errors, write_errors : iterable of range
        Addresses whose reads, beat by beat, or writes, a whole burst, are answered with an error;
        such a burst writes nothing.
    mute_after : int, optional
        Reads, and likewise writes, that are answered; those that follow never are.
    trace : bool
        Record :attr:`traces`. This costs speed.
    max_cycles : int
        Cycles after which a run without an interrupt is given up.
    verilog : str, optional
        The chip, if not the one that the configuration gives.

    Attributes
    ----------
    traces : dict
        :class:`EngineTrace` of each engine in the last run; empty unless ``trace``.
    watch : callable, optional
        Gets the cycles of a run that have passed, now and then.
    cycles, seconds : int, float
        Simulated cycles and the time that they took, over all runs.
    """

    def __init__(  # noqa: PLR0913 - what can be set of the chip and of its memory
        self,
        config: Config,
        *,
        dram_bytes: int = 1 << 26,
        timing: MemoryTiming = REFERENCE_MEMORY,
        stall: float = 0.0,
        jitter: int = 0,
        seed: int = 0,
        read_errors: Iterable[range] = (),
        write_errors: Iterable[range] = (),
        mute_after: int | None = None,
        trace: bool = False,
        max_cycles: int = 100_000_000,
        verilog: str | None = None,
    ) -> None:
        latencies = (timing.read_latency, timing.write_response, timing.constants.read_latency)
        if min(latencies) < _MIN_LATENCY:
            raise ValueError(f"Latencies must be at least {_MIN_LATENCY} edges, not {timing!r}")
        if not 0 <= stall < 1:
            raise ValueError(f"Fraction of stalled cycles must be in [0, 1), not {stall!r}")
        self.config = config
        self.dram_bytes = dram_bytes
        self.timing = timing
        self.trace = trace
        self.max_cycles = max_cycles
        self.traces: dict[Engine, EngineTrace] = {}
        self.watch: Callable[[int], None] | None = None
        self.cycles = 0
        self.seconds = 0.0
        if verilog is None:
            verilog = cached_verilog(config)
        title = f"the {config.array_size}x{config.array_size} chip"
        self._library = load_library(build_library(verilog, title=title))
        self._chip = self._library.chip_new(
            dram_bytes, timing.read_latency, timing.write_response, jitter, stall, seed
        )
        self._library.chip_set_data_path(
            self._chip, timing.beat_cycles, timing.burst_cycles, timing.shared
        )
        self._dram = np.ctypeslib.as_array(self._library.chip_dram(self._chip), (dram_bytes,))
        self.set_errors(read_errors, write_errors)
        self.set_mute_after(mute_after)
        driver.execute(driver.identify(config), self.read_register, self.write_register, self.wait)

    def __del__(self) -> None:
        if hasattr(self, "_chip"):
            del self._dram
            self._library.chip_free(self._chip)

    @property
    def cycles_per_second(self) -> float:
        """Simulated cycles per second of the runs so far."""
        return self.cycles / self.seconds if self.seconds else 0.0

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        values = np.frombuffer(np.ascontiguousarray(data).tobytes(), dtype=np.uint8)
        self._check(address, values.size)
        self._dram[address : address + values.size] = values

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return ``size`` bytes of DRAM as a fresh uint8 array; ValueError if outside."""
        self._check(address, size)
        return self._dram[address : address + size].copy()

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault; the buffer keeps its contents between runs.

        Raises
        ------
        TimeoutError
            If there is no interrupt within ``max_cycles``.
        """
        if isinstance(self.timing, MemoryPair):
            self._set_constants(job.constants)
        self._library.chip_trace(self._chip, self.trace)
        result = self._execute(driver.run(job))
        if self.trace:
            self.traces = self._read_traces(result.counters["cycles"])
        return result

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        self._execute(driver.soft_reset())

    def full_reset(self) -> None:
        """Reset the chip and what is outstanding in the memory; DRAM stays."""
        self._library.chip_reset(self._chip)

    def set_errors(self, read: Iterable[range] = (), write: Iterable[range] = ()) -> None:
        """Replace the addresses that are answered with an error."""
        for is_write, ranges in ((0, read), (1, write)):
            self._library.chip_set_errors(self._chip, is_write, *_bounds(ranges))

    def _set_constants(self, ranges: Iterable[range]) -> None:
        """Say what lies in the memory of constants."""
        timing = self.timing.constants
        cycles = timing.read_latency, timing.beat_cycles, timing.burst_cycles
        self._library.chip_set_constants(self._chip, *cycles, *_bounds(ranges))

    def set_mute_after(self, bursts: int | None) -> None:
        """Answer so many more reads, and writes, counted from the last full reset."""
        self._library.chip_set_mute_after(self._chip, -1 if bursts is None else bursts)

    def read_register(self, offset: int) -> int:
        """Read a register of the chip.

        Raises
        ------
        OSError
            If the chip does not answer OKAY.
        """
        value = ctypes.c_uint32()
        response = self._library.chip_read_register(self._chip, offset, ctypes.byref(value))
        self._respond(response, "read", offset)
        return value.value

    def write_register(self, offset: int, value: int) -> None:
        """Write a register of the chip.

        Raises
        ------
        OSError
            If the chip does not answer OKAY.
        """
        response = self._library.chip_write_register(self._chip, offset, value)
        self._respond(response, "write", offset)

    def step(self, cycles: int) -> None:
        """Let clock cycles pass."""
        self._library.chip_step(self._chip, cycles)

    def _execute(self, sequence: driver.Sequence[driver.T]) -> driver.T:
        return driver.execute(sequence, self.read_register, self.write_register, self.wait)

    def wait(self) -> None:
        """Wait for the interrupt of a program that runs.

        Raises
        ------
        TimeoutError
            If there is none within ``max_cycles``.
        """
        before = self._library.chip_cycles(self._chip)
        started = time.perf_counter()
        interrupt, left = False, self.max_cycles
        while left and not interrupt:
            # Between two calls Python can tell how far it is, and be interrupted.
            interrupt = self._library.chip_wait_interrupt(self._chip, min(left, _LOOK))
            left -= min(left, _LOOK)
            if self.watch is not None:
                self.watch(self._library.chip_cycles(self._chip) - before)
        self.seconds += time.perf_counter() - started
        self.cycles += self._library.chip_cycles(self._chip) - before
        if not interrupt:
            state = RunState(self.read_register(offset_of("STATUS")))
            raise TimeoutError(
                f"The chip is {state.name} and gives no interrupt after {self.max_cycles} cycles"
            )
        self._interrupted_at = self._library.chip_cycles(self._chip)

    def _read_traces(self, cycles: int) -> dict[Engine, EngineTrace]:
        first = self._interrupted_at - cycles
        traces = {}
        for engine in Engine:
            size = self._library.chip_trace_size(self._chip, engine)
            rows = np.zeros((0, ROW_WORDS), dtype=np.int64)
            if size:
                pointer = self._library.chip_trace_rows(self._chip, engine)
                rows = np.ctypeslib.as_array(pointer, (size, ROW_WORDS))
            traces[engine] = trace_from_rows(rows, first=first)
        return traces

    def _check(self, address: int, size: int) -> None:
        if address < 0 or size < 0 or address + size > self.dram_bytes:
            raise ValueError(
                f"Bytes {address} to {address + size} must lie in DRAM of {self.dram_bytes} bytes"
            )

    def _respond(self, response: int, access: str, offset: int) -> None:
        if response != _OKAY:
            answer = "does not answer" if response < 0 else f"answers {response} to"
            raise OSError(f"The chip {answer} a {access} of register {offset:#x}")


def _bounds(ranges: Iterable[range]) -> tuple[ctypes.Array, int]:
    """Return ranges as the library takes them, and how many they are."""
    flat = [bound for span in ranges for bound in (span.start, span.stop)]
    return (ctypes.c_uint64 * len(flat))(*flat), len(flat) // 2
