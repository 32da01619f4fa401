"""DRAM by name, for options and the command line."""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from functools import cache

from tpulite.arch.memory import REFERENCE_MEMORY, MemoryPair, MemoryTiming
from tpulite.near import changes_of, no_such

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


CONSTANT_MEMORIES: Mapping[str, MemoryTiming] = {
    # Octal NOR flash with DDR at 200 MHz, 400 MB/s, beside a machine of 400 MHz: a byte a cycle. A
    # burst is a command of 24 clocks of the flash (operation, address, dummy clocks), and the first
    # beat is there 16 bytes later.
    "flash": MemoryTiming(64, beat_cycles=16, burst_cycles=48),
}
"""Memories that only hold constants, as nothing can be written to them, in the same cycles."""


@cache
def named_memory(text: str) -> MemoryTiming:
    """Return a memory by its name, perhaps with other values: ``ddr3,read_latency=60``.

    ``TENSORS+CONSTANTS``, such as ``sram+flash``, is a :class:`~tpulite.arch.memory.MemoryPair`:
    constants and commands lie in the second memory, everything else in the first.

    Raises
    ------
    ValueError
        If a name or a field is unknown, a field is given twice, a value is none, or tensors are
        to lie where nothing can be written.

    Examples
    --------
    >>> named_memory("sdram16,shared=0").beat_cycles
    8
    >>> pair = named_memory("sram+flash,read_latency=80")
    >>> pair.tensors == named_memory("sram"), pair.constants.read_latency
    (True, 80)
    """
    first, plus, second = text.partition("+")
    if "+" in second or (plus and not (first and second)):
        raise ValueError(f"{text!r} must be TENSORS+CONSTANTS, two memories, as sram+flash")
    name, changes = changes_of("memory", first, _FIELDS)
    if name in CONSTANT_MEMORIES:
        raise ValueError(f"{name} holds only constants; name a memory for tensors, as sram+{name}")
    tensors = _changed(name, changes, MEMORIES)
    if not plus:
        return tensors
    name, changes = changes_of("memory of constants", second, _READ_FIELDS)
    constants = _changed(name, changes, {**MEMORIES, **CONSTANT_MEMORIES})
    return MemoryPair(**vars(tensors), of_constants=constants)


def _changed(
    name: str, changes: Mapping[str, str], known: Mapping[str, MemoryTiming]
) -> MemoryTiming:
    """Return a known memory with other values."""
    if name not in known:
        raise ValueError(no_such("memory", name, known))
    return replace(known[name], **{field: _number(field, x) for field, x in changes.items()})


def memory_name(memory: MemoryTiming) -> str:
    """Return what :func:`named_memory` makes a memory of.

    Examples
    --------
    >>> memory_name(MEMORIES["ddr3"]), memory_name(MemoryTiming(read_latency=9))
    ('ddr3', 'reference,read_latency=9')
    >>> memory_name(named_memory("sram+flash"))
    'sram+flash'
    """
    tensors = _name(memory.tensors, MEMORIES, _FIELDS)
    if not isinstance(memory, MemoryPair):
        return tensors
    known = {**CONSTANT_MEMORIES, **MEMORIES}
    return f"{tensors}+{_name(memory.constants, known, _READ_FIELDS)}"


def _name(memory: MemoryTiming, known: Mapping[str, MemoryTiming], named: Collection[str]) -> str:
    """Return the name of one memory, of which the named fields matter."""

    def values(each: MemoryTiming) -> dict[str, int]:
        return {field: int(getattr(each, field)) for field in named}

    for name, each in known.items():
        if values(each) == values(memory):
            return name
    usual = values(REFERENCE_MEMORY)
    changes = [f"{field}={x}" for field, x in values(memory).items() if x != usual[field]]
    return ",".join([REFERENCE, *changes])


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

_READ_FIELDS = ("read_latency", "beat_cycles", "burst_cycles")
"""Those that matter for a memory that is only read."""
