"""The result of a workload."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Record"]


@dataclass(frozen=True)
class Record:
    """Result of one workload.

    Parameters
    ----------
    workload : str
        Its name.
    macs : int
        Multiplications.
    cycles : int, optional
        Cycles from start to interrupt; None where the device has no clock.
    cycles_per_batch : float, optional
        Cycles of a batch of 16, if there are several.
    cycles_per_vector : float, optional
        Cycles of an output vector of N channels, of workloads that are about that.
    limit_cycles : int
        Cycles that the multipliers need, all of them always busy.
    dram_cycles : int
        Cycles that DRAM needs to deliver every operand once, or to take the results.
    utilization, limit_share : float, optional
        ``limit_cycles``, and the larger limit, as a part of ``cycles``.
    bit_exact : bool
        Whether the result is the exact one, bit for bit.
    device : str
        Where it ran.
    array_size : int
        N of the machine.
    memory : str
        Name of the DRAM that programs were made for, and ran beside.
    cycles_per_second : float, optional
        Simulated cycles a second.
    dram_read_bytes, dram_written_bytes : int, optional
        Bytes that moved between the chip and DRAM, commands included, counted by the device.
    counters : dict
        Counters of the chip.
    peers : list of dict
        Figures of other machines.
    memories : list of dict
        What the programs need of each memory: the fields of
        :class:`tpulite.report.memory_use.MemoryUse`.
    """

    workload: str
    macs: int
    cycles: int | None
    cycles_per_batch: float | None
    cycles_per_vector: float | None
    limit_cycles: int
    dram_cycles: int
    utilization: float | None
    limit_share: float | None
    bit_exact: bool
    device: str
    array_size: int
    memory: str
    cycles_per_second: float | None
    dram_read_bytes: int | None
    dram_written_bytes: int | None
    counters: dict[str, int]
    peers: list[dict[str, Any]]
    memories: list[dict[str, Any]] = field(default_factory=list)
