"""The whole chip on a cocotb bench: memory, monitor, registers, and the usual sessions."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import numpy as np
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import MemoryPair
from tpulite.runtime import driver
from tpulite.runtime.device import Job, RunResult
from tpulite_tb.axi_memory import ReferenceMemory
from tpulite_tb.axi_monitor import AxiMonitor
from tpulite_tb.driver import RegisterPort, execute
from tpulite_tb.edges import at_each_edge, reader
from tpulite_tb.harness import reset
from tpulite_verilated.trace import ROW_WORDS, EngineTrace, trace_from_rows

__all__ = ["BenchDevice", "ChipBench"]

P = ParamSpec("P")
T = TypeVar("T")


class ChipBench:
    """The chip with DRAM and a host.

    Parameters
    ----------
    entity
        The design: the chip's ports.
    config : Config
        The machine that it must be.
    dram_bytes : int
        Size of DRAM.
    monitor : bool
        Watch the AXI protocol; a broken rule fails the test. This costs speed.
    trace : bool
        Record :attr:`traces`. This costs speed.
    **memory_options
        Options of :class:`ReferenceMemory`.

    Attributes
    ----------
    device : BenchDevice
        The chip for code that is not ``async``; see :meth:`call`.
    traces : dict
        :class:`EngineTrace` of each engine in the last run; empty unless ``trace``.
    """

    def __init__(
        self,
        entity,
        config: Config,
        *,
        dram_bytes: int = 1 << 22,
        monitor: bool = True,
        trace: bool = False,
        **memory_options,
    ) -> None:
        self.entity = entity
        self.config = config
        self.memory = ReferenceMemory(entity, size=dram_bytes, **memory_options)
        self.monitor = AxiMonitor(entity, max_beats=config.burst_beats) if monitor else None
        self.registers = RegisterPort(entity)
        self.device = BenchDevice(self)
        self.traces: dict[Engine, EngineTrace] = {}
        self._recorder = _Recorder(entity) if trace else None

    async def start(self) -> None:
        """Start the clock, reset the chip and check that it is the right one."""
        await reset(self.entity)
        await self.execute(driver.identify(self.config))

    async def full_reset(self) -> None:
        """Reset the chip and what is outstanding in the memory; DRAM stays."""
        self.entity.rst.value = 1
        await ClockCycles(self.entity.clk, 4)
        self.entity.rst.value = 0
        await ClockCycles(self.entity.clk, 2)

    async def execute(self, sequence: driver.Sequence[T]) -> T:
        """Execute a register sequence of :mod:`tpulite.runtime.driver`."""
        return await execute(self.entity, self.registers, sequence)

    async def run(self, job: Job) -> RunResult:
        """Run a program that lies in DRAM to its END or its fault."""
        if self._recorder:
            self._recorder.clear()
        if isinstance(self.memory.timing, MemoryPair):
            self.memory.constants = list(job.constants)
        result = await self.execute(driver.run(job))
        if self._recorder:
            self.traces = self._recorder.traces(result.counters["cycles"])
        return result

    def finish(self) -> None:
        """Check at the end of a test that nothing is open on AXI."""
        if self.monitor:
            self.monitor.finish()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that is not ``async`` and uses :attr:`device`."""
        return await bridge(function)(*args, **kwargs)


class BenchDevice:
    """The chip of a bench as a :class:`tpulite.runtime.device.Device`.

    Its methods that take simulated time work only in functions called by :meth:`ChipBench.call`.
    """

    def __init__(self, bench: ChipBench) -> None:
        self.config = bench.config
        self.dram_bytes = bench.memory.size
        self._bench = bench

    @property
    def traces(self) -> dict[Engine, EngineTrace]:
        """Traces of the last run, if the bench records them."""
        return self._bench.traces

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy bytes into DRAM; ValueError if they do not fit."""
        self._bench.memory.write(address, np.ascontiguousarray(data).tobytes())

    def read(self, address: int, size: int) -> np.ndarray:
        """Return ``size`` bytes of DRAM as a fresh uint8 array; ValueError if outside."""
        return np.frombuffer(self._bench.memory.read(address, size), dtype=np.uint8).copy()

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault; the buffer keeps its contents between runs."""
        return _blocking(self._bench.run)(job)

    def reset(self) -> None:
        """Soft reset: leave QUIESCED, be ready for the next program."""
        _blocking(self._bench.execute)(driver.soft_reset())


def _blocking(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    return resume(function)  # type: ignore[arg-type]


class _Recorder:
    """Accumulates the trace ports as the C++ harness does, edge by edge."""

    def __init__(self, entity) -> None:
        self._rows: dict[Engine, dict[int, list[int]]] = {engine: {} for engine in Engine}
        self._ports = [
            (
                rows,
                reader(getattr(entity, f"{name}_state")),
                reader(getattr(entity, f"{name}_index")),
            )
            for name, rows in ((f"trace_{e.name.lower()}", rows) for e, rows in self._rows.items())
        ]
        self._in_reset, self._irq = reader(entity.rst), reader(entity.irq)
        self._cycle = self._interrupted = self._interrupt = 0
        at_each_edge(entity.clk, self._record)

    def clear(self) -> None:
        for rows in self._rows.values():
            rows.clear()

    def traces(self, cycles: int) -> dict[Engine, EngineTrace]:
        first = self._interrupted - cycles
        traces = {}
        for engine, rows in self._rows.items():
            table = np.zeros((max(rows, default=-1) + 1, ROW_WORDS), dtype=np.int64)
            for index, row in rows.items():
                table[index] = row
            traces[engine] = trace_from_rows(table, first=first)
        return traces

    def _record(self) -> None:
        if self._in_reset():
            return
        interrupt = self._irq()
        if interrupt and not self._interrupt:
            self._interrupted = self._cycle
        self._interrupt = interrupt
        for rows, read_state, read_index in self._ports:
            if state := read_state():
                row = rows.setdefault(read_index(), [self._cycle] + [0] * (ROW_WORDS - 1))
                row[1] = self._cycle + 1
                row[1 + state] += 1
        self._cycle += 1
