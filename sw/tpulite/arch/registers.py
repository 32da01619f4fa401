"""AXI4-Lite registers of the chip: offsets, bits, and what the numbers in them mean."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from tpulite.arch.isa import Engine
from tpulite.arch.memory import ADDRESS_BITS, WINDOWS

IDENTIFICATION = int.from_bytes(b"TPUL", "big")
VERSION = 1


class Access(IntEnum):
    """What the host may do with a register."""

    READ = 0
    READ_WRITE = 1
    WRITE = 2
    WRITE_ONE_TO_CLEAR = 3


class Control(IntFlag):
    """Bits of CONTROL; a write of one does it."""

    START = 1  #: run the program; legal when IDLE
    STOP = 2  #: stop cleanly, as after a fault; legal when RUNNING
    RESET = 4  #: return to IDLE; legal when IDLE or QUIESCED


class RunState(IntEnum):
    """State of the chip, in STATUS."""

    IDLE = 0  #: ready for a program; after END as well
    RUNNING = 1  #: executing a program
    STOPPING = 2  #: after a fault or STOP: no new requests; waits for outstanding ones
    QUIESCED = 3  #: stopped; a soft reset leads back to IDLE
    HUNG = 4  #: the memory did not answer while stopping; only a full reset helps


class Interrupt(IntFlag):
    """Bits of IRQ_STATUS and IRQ_ENABLE."""

    DONE = 1  #: END was reached
    FAULT = 2  #: the chip is QUIESCED or HUNG


class Fault(IntEnum):
    """Why the chip stopped, in ERROR_CODE. ERROR_ADDRESS holds what the text says."""

    NONE = 0  #: no fault
    OPCODE = 1  #: unknown opcode; address: of the command, in DRAM
    FIELD = 2  #: illegal field or unused bit; address: of the command, in DRAM
    WINDOW = 3  #: burst outside its window or not permitted; address: of the burst, in DRAM
    BUFFER = 4  #: row outside the unified buffer or the accumulators; address: the row
    READ = 5  #: AXI error answering LOAD; address: of the burst, in DRAM
    WRITE = 6  #: AXI error answering STORE; address: of the burst, in DRAM
    FETCH = 7  #: AXI error answering command fetch; address: of the command, in DRAM
    WATCHDOG = 8  #: no progress for WATCHDOG cycles; address: 0
    OVERRUN = 9  #: the program has no END; address: of its end, in DRAM
    RECORD = 10  #: channel record with a rounding that this chip lacks; address: its row
    STOPPED = 11  #: stopped by the CPU; address: 0


class Permission(IntFlag):
    """Bits of a window's PERMISSION."""

    READ = 1
    WRITE = 2


class EngineState(IntEnum):
    """What an engine does in a cycle; exactly one of them, so that the counters sum to CYCLES."""

    IDLE = 0  #: no command
    BUSY = 1  #: working
    TOKEN = 2  #: waiting for a token
    BUFFER = 3  #: stalled on the unified buffer
    AXI = 4  #: stalled on AXI


@dataclass(frozen=True)
class Register:
    """One 32-bit register at a byte offset.

    Of what the host writes only the bits of ``kept`` count; the others read as zero.
    """

    name: str
    offset: int
    access: Access
    doc: str
    reset: int = 0
    kept: int = 0xFFFF_FFFF


_MULTIPLE_OF_16 = 0xFFFF_FFF0
_UPPER_HALF = (1 << ADDRESS_BITS - 32) - 1


def _all_of(flags: type[IntFlag]) -> int:
    return sum(flags)


def _registers() -> tuple[Register, ...]:
    w1c, wo = Access.WRITE_ONE_TO_CLEAR, Access.WRITE
    ro, rw = Access.READ, Access.READ_WRITE
    registers = [
        Register("ID", 0x00, ro, "The letters TPUL.", IDENTIFICATION),
        Register("VERSION", 0x04, ro, "Version of this contract.", VERSION),
        Register("CONFIG_HASH", 0x08, ro, "Hash of the configuration that was built."),
        Register("CONTROL", 0x0C, wo, "START, STOP, RESET. An illegal request answers SLVERR."),
        Register("STATUS", 0x10, ro, "State of the chip."),
        Register(
            "IRQ_ENABLE", 0x14, rw, "Which interrupts drive the line.", kept=_all_of(Interrupt)
        ),
        Register("IRQ_STATUS", 0x18, w1c, "Pending interrupts; write one to clear."),
        Register("WATCHDOG", 0x1C, rw, "Cycles without any progress that are a fault; 0: never."),
        Register(
            "PROGRAM_LOW",
            0x20,
            rw,
            "Address of the first command, a multiple of 16.",
            kept=_MULTIPLE_OF_16,
        ),
        Register("PROGRAM_HIGH", 0x24, rw, "Its upper half.", kept=_UPPER_HALF),
        Register("PROGRAM_LENGTH", 0x28, rw, "Commands in the program."),
        Register("ERROR_CODE", 0x30, ro, "Why the chip stopped; the first fault counts."),
        Register("ERROR_INDEX", 0x34, ro, "Index of the command at fault."),
        Register("ERROR_LOW", 0x38, ro, "Address at fault."),
        Register("ERROR_HIGH", 0x3C, ro, "Its upper half."),
    ]
    for i in range(WINDOWS):
        for offset, name, doc, kept in (
            (0x0, "LOW", f"Address of window {i}, a multiple of 16.", _MULTIPLE_OF_16),
            (0x4, "HIGH", "Its upper half.", _UPPER_HALF),
            (0x8, "SIZE", "Its bytes, a multiple of 16.", _MULTIPLE_OF_16),
            (0xC, "PERMISSION", "Who may use it: READ, WRITE.", _all_of(Permission)),
        ):
            registers.append(
                Register(f"WINDOW{i}_{name}", 0x40 + 0x10 * i + offset, rw, doc, kept=kept)
            )
    registers += [
        Register("CYCLES", 0x100, ro, "Cycles from START to the interrupt."),
        Register(
            "CONFLICTS",
            0x104,
            ro,
            "Requests to the unified buffer that waited, summed over cycles.",
        ),
        Register("READ_BEATS", 0x108, ro, "Beats read from DRAM, commands included."),
        Register("WRITE_BEATS", 0x10C, ro, "Beats written to DRAM."),
    ]
    for engine in Engine:
        for state in EngineState:
            registers.append(
                Register(
                    f"{engine.name}_{state.name}",
                    0x120 + 0x20 * engine + 4 * state,
                    ro,
                    f"Cycles in which {engine.name} was in state {state.name}.",
                )
            )
    return tuple(registers)


REGISTERS = _registers()

COUNTER_OFFSETS = {
    register.name.lower(): register.offset for register in REGISTERS if register.offset >= 0x100
}
"""Counters by name. They start at zero with START and stop at the interrupt."""


def offset_of(name: str) -> int:
    """Return the byte offset of a register."""
    for register in REGISTERS:
        if register.name == name:
            return register.offset
    raise ValueError(f"There is no register {name!r}")
