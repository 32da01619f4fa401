"""DRAM by name, for options and the command line."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.near import changes_of, no_such

__all__ = ["MEMORIES", "REFERENCE", "bandwidth", "memory_name", "named_memory"]

REFERENCE = "reference"
"""Name of the memory that all figures of the project refer to."""

MEMORIES: Mapping[str, MemoryTiming] = {
    REFERENCE: REFERENCE_MEMORY,
    # 16-bit SDRAM at the machine's clock, as on a ULX3S: 2 bytes a cycle; a row is closed and
    # opened for each burst (tRP, tRCD and CAS latency of 2 cycles each).
    "sdram16": MemoryTiming(20, 8, beat_cycles=8, burst_cycles=6, shared=True),
    # 32-bit SDRAM behind LiteDRAM at the machine's clock, as measured in `make soc`.
    "sdram32": MemoryTiming(20, 8, beat_cycles=4, burst_cycles=12, shared=True),
    # 16-bit DDR3-800 behind a controller of a quarter of its clock, as on FPGA boards, with a
    # machine of 100 MHz: 16 bytes a cycle.
    "ddr3": MemoryTiming(30, 10, beat_cycles=1, burst_cycles=6, shared=True),
    # 32-bit LPDDR4-3200, 12.8 GB/s, beside a machine of 800 MHz.
    "lpddr4": MemoryTiming(80, 40, beat_cycles=1, burst_cycles=8, shared=True),
    # 16-bit LPDDR4-3200, 6.4 GB/s, beside a machine of 1 GHz, as in cheap microcontrollers.
    "lpddr4x16": MemoryTiming(100, 50, beat_cycles=3, burst_cycles=10, shared=True),
    # 128 bits of SRAM on the same die.
    "sram": MemoryTiming(4, 2, beat_cycles=1, shared=True),
}
"""Memories, in cycles of the machine."""


@cache
def named_memory(text: str) -> MemoryTiming:
    """Return a memory by its name, perhaps with other values: ``ddr3,read_latency=60``.

    Raises
    ------
    ValueError
        If the name or a field is unknown, a field is given twice, or a value is none.

    Examples
    --------
    >>> named_memory("sdram16,shared=0").beat_cycles
    8
    """
    name, changes = changes_of("memory", text, _FIELDS)
    if name not in MEMORIES:
        raise ValueError(no_such("memory", name, MEMORIES))
    values = {field: _number(field, value) for field, value in changes.items()}
    return replace(MEMORIES[name], **values)


def memory_name(memory: MemoryTiming) -> str:
    """Return what :func:`named_memory` makes a memory of.

    Examples
    --------
    >>> memory_name(MEMORIES["ddr3"]), memory_name(MemoryTiming(read_latency=9))
    ('ddr3', 'reference,read_latency=9')
    """
    for name, known in MEMORIES.items():
        if known == memory:
            return name
    changes = [
        f"{field}={int(getattr(memory, field))}"
        for field in _FIELDS
        if getattr(memory, field) != getattr(REFERENCE_MEMORY, field)
    ]
    return ",".join([REFERENCE, *changes])


def bandwidth(memory: MemoryTiming, beats: int) -> float:
    """Return the bytes a cycle of bursts of so many beats, one after the other."""
    cycles = beats * max(memory.beat_cycles, 1) + memory.burst_cycles
    return BEAT_BYTES * beats / cycles


def _number(field: str, text: str) -> int:
    """Return a value that somebody has typed; ValueError if no simulated memory has it."""
    kind, allowed = _FIELDS[field]
    if not text.isdecimal() or int(text) not in allowed:
        raise ValueError(
            f"{field} of a memory must be a number from {allowed[0]} to {allowed[-1]}, not {text!r}"
        )
    return kind(int(text))


_CYCLES = range(10_001)
_FIELDS = {field.name: (int, _CYCLES) for field in fields(MemoryTiming)}
_FIELDS |= dict.fromkeys(("read_latency", "write_response"), (int, _CYCLES[2:]))
_FIELDS["shared"] = (bool, range(2))
"""What of a memory may be given, as what, and the values: simulated latencies take two cycles."""
