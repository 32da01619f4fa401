"""The register sequence of a run, written once for every way to reach the registers.

Each sequence is a generator that yields register accesses and receives what a read returned. A
synchronous device executes it with :func:`execute`; a cocotb bench awaits each access instead. The
C driver in :mod:`tpulite.firmware` follows the same steps.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from tpulite.arch.config import Config
from tpulite.arch.registers import (
    COUNTER_OFFSETS,
    IDENTIFICATION,
    VERSION,
    Control,
    Fault,
    Interrupt,
    Permission,
    RunState,
    offset_of,
)
from tpulite.runtime.device import FaultReport, Job, RunResult

__all__ = ["Access", "Sequence", "Wait", "execute", "identify", "outcome", "run", "soft_reset"]


@dataclass(frozen=True)
class Access:
    """A register access: a write of ``value``, or a read if that is None."""

    offset: int
    value: int | None = None


@dataclass(frozen=True)
class Wait:
    """Wait for the interrupt line."""


T = TypeVar("T")
Sequence = Generator[Access | Wait, int, T]


def identify(config: Config) -> Sequence[None]:
    """Check that the chip is one, of this contract and this configuration.

    Raises
    ------
    ValueError
        If it is not.
    """
    for name, expected in (
        ("ID", IDENTIFICATION),
        ("VERSION", VERSION),
        ("CONFIG_HASH", config.hash),
    ):
        value = yield Access(offset_of(name))
        if value != expected:
            raise ValueError(f"Register {name} of the chip must be {expected:#x}, not {value:#x}")


def run(job: Job) -> Sequence[RunResult]:
    """Load the registers, start, wait for the interrupt, read the outcome."""
    yield from _write64("PROGRAM", job.program_address)
    yield Access(offset_of("PROGRAM_LENGTH"), job.program_length)
    for i, window in enumerate(job.windows):
        yield from _write64(f"WINDOW{i}", window.base)
        yield Access(offset_of(f"WINDOW{i}_SIZE"), window.size)
        permission = Permission.READ * window.read | Permission.WRITE * window.write
        yield Access(offset_of(f"WINDOW{i}_PERMISSION"), permission)
    yield Access(offset_of("WATCHDOG"), job.watchdog)
    yield Access(offset_of("IRQ_ENABLE"), Interrupt.DONE | Interrupt.FAULT)
    yield Access(offset_of("CONTROL"), Control.START)
    yield Wait()
    return (yield from outcome())


def outcome() -> Sequence[RunResult]:
    """Read interrupts, fault and counters, and clear the interrupts."""
    pending = yield Access(offset_of("IRQ_STATUS"))
    yield Access(offset_of("IRQ_STATUS"), pending)
    counters = {}
    for name, offset in COUNTER_OFFSETS.items():
        counters[name] = yield Access(offset)
    if not pending & Interrupt.FAULT:
        return RunResult(counters=counters)
    code = yield Access(offset_of("ERROR_CODE"))
    index = yield Access(offset_of("ERROR_INDEX"))
    low = yield Access(offset_of("ERROR_LOW"))
    high = yield Access(offset_of("ERROR_HIGH"))
    state = yield Access(offset_of("STATUS"))
    report = FaultReport(Fault(code), index, high << 32 | low, hung=state == RunState.HUNG)
    return RunResult(report, counters)


def soft_reset() -> Sequence[None]:
    """Return a quiesced chip to IDLE.

    Raises
    ------
    RuntimeError
        If it does not get there; a chip that is HUNG needs a full reset.
    """
    yield Access(offset_of("CONTROL"), Control.RESET)
    state = yield Access(offset_of("STATUS"))
    if state != RunState.IDLE:
        raise RuntimeError(f"The chip is {RunState(state).name} after a soft reset, not IDLE")


def execute(
    sequence: Sequence[T],
    read: Callable[[int], int],
    write: Callable[[int, int], None],
    wait: Callable[[], None],
) -> T:
    """Execute a sequence with synchronous register accesses."""
    answer = None
    try:
        while True:
            # send(None) starts a generator; afterwards it is what a write or a wait returns.
            step = sequence.send(answer)  # type: ignore[arg-type]
            answer = None
            match step:
                case Access(offset, None):
                    answer = read(offset)
                case Access(offset, int(value)):
                    write(offset, value)
                case Wait():
                    wait()
    except StopIteration as stop:
        return stop.value


def _write64(name: str, value: int) -> Sequence[None]:
    yield Access(offset_of(f"{name}_LOW"), value & 0xFFFFFFFF)
    yield Access(offset_of(f"{name}_HIGH"), value >> 32)
