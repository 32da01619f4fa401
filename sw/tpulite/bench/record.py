"""The result of a workload."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """Result of one workload."""

    workload: str  #: Its name.
    macs: int  #: Multiplications.
    cycles: int | None  #: Cycles from start to interrupt; None where the device has no clock.
    cycles_per_batch: float | None  #: Cycles of a batch of 16, if there are several.
    #: Cycles of an output vector of N channels, of workloads that are about that.
    cycles_per_vector: float | None
    limit_cycles: int  #: Cycles that the multipliers need, all of them always busy.
    #: Cycles that DRAM needs to deliver every operand once, or to take the results.
    dram_cycles: int
    #: ``limit_cycles``, and the larger limit, as a part of ``cycles``.
    utilization: float | None
    limit_share: float | None
    bit_exact: bool  #: Whether the result is the exact one, bit for bit.
    device: str  #: Where it ran.
    array_size: int  #: N of the machine.
    memory: str  #: Name of the DRAM that programs were made for, and ran beside.
    cycles_per_second: float | None  #: Simulated cycles a second.
    #: Bytes that moved between the chip and DRAM, commands included, counted by the device.
    dram_read_bytes: int | None
    dram_written_bytes: int | None
    counters: dict[str, int]  #: Counters of the chip.
    peers: list[dict[str, Any]]  #: Figures of other machines.
    #: What the programs need of each memory: the fields of
    #: :class:`tpulite.report.memory_use.MemoryUse`.
    memories: list[dict[str, Any]] = field(default_factory=list)
