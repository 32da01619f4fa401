"""Running workloads, and what comes of it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tpulite.arch.config import BEAT_BYTES
from tpulite.bench.workload import Outcome, Run
from tpulite.bench.workloads import parse_workload
from tpulite.memories import REFERENCE, memory_name, named_memory
from tpulite.report.peers import peers_of
from tpulite.report.traffic import dram_cycles, memory_uses
from tpulite.runtime.device import Device


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
    #: :class:`tpulite.report.traffic.MemoryUse`.
    memories: list[dict[str, Any]] = field(default_factory=list)


def run_workloads(
    names: Iterable[str],
    device: Device,
    *,
    device_name: str,
    resident: bool = False,
    memory: str = REFERENCE,
) -> Iterator[Record]:
    """Run workloads one after the other.

    Parameters
    ----------
    names : iterable of str
        Names as in :data:`tpulite.bench.EVERY`.
    resident : bool
        Whether constants stay on chip, and the run that finds them there is measured; the names
        in the records then end with ``_warm``.
    memory : str
        DRAM that programs are made for; the device must have it, too.

    Yields
    ------
    Record
        One a workload.

    Raises
    ------
    ValueError
        If a name is unknown; nothing has run then.
    """
    suffix, memory = "_warm" if resident else "", memory_name(named_memory(memory))
    runs = {name + suffix: parse_workload(name, resident=resident, memory=memory) for name in names}
    return (_record(name, run, device, device_name, memory) for name, run in runs.items())


def dram_bytes(outcome: Outcome) -> tuple[int | None, int | None]:
    """Return the bytes that a device has counted as read from DRAM, and written to it."""
    beats = (outcome.counters.get(name) for name in ("read_beats", "write_beats"))
    read, written = (None if n is None else n * BEAT_BYTES for n in beats)
    return read, written


def _record(name: str, run: Run, device: Device, device_name: str, memory: str) -> Record:
    before = (getattr(device, "cycles", 0), getattr(device, "seconds", 0.0))
    outcome = run(device)
    simulated = getattr(device, "cycles", 0) - before[0]
    seconds = getattr(device, "seconds", 0.0) - before[1]
    cycles = outcome.cycles
    macs = sum(program.macs for program in outcome.programs)
    peak = device.config.array_size**2
    limit, dram = -(-macs // peak), sum(map(dram_cycles, outcome.programs))
    read, written = dram_bytes(outcome)
    return Record(
        workload=name,
        macs=macs,
        cycles=cycles,
        cycles_per_batch=cycles / outcome.batches if cycles and outcome.batches > 1 else None,
        cycles_per_vector=cycles / outcome.vectors if cycles and outcome.vectors else None,
        limit_cycles=limit,
        dram_cycles=dram,
        utilization=macs / (cycles * peak) if cycles else None,
        limit_share=max(limit, dram) / cycles if cycles else None,
        bit_exact=outcome.exact,
        device=device_name,
        array_size=device.config.array_size,
        memory=memory,
        cycles_per_second=simulated / seconds if seconds else None,
        dram_read_bytes=read,
        dram_written_bytes=written,
        counters=dict(outcome.counters),
        peers=[asdict(peer) for peer in peers_of(name)] if memory == REFERENCE else [],
        memories=[use.as_dict() for use in memory_uses(outcome.programs)],
    )
