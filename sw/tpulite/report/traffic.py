"""Bytes that a program moves to and from DRAM, counted from its commands."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.program import Program


@dataclass(frozen=True)
class Traffic:
    """Bytes of one run, whole beats: what READ_BEATS and WRITE_BEATS of the chip count."""

    #: Bytes that LOAD reads from, and STORE writes to, each window; 0 where there are none.
    loads: Mapping[Window, int]
    stores: Mapping[Window, int]
    commands: int  #: Bytes of the commands, which are fetched once.

    @property
    def read_bytes(self) -> int:
        """All bytes read from DRAM."""
        return sum(self.loads.values()) + self.commands

    @property
    def written_bytes(self) -> int:
        """All bytes written to DRAM."""
        return sum(self.stores.values())


def command_bytes(command: Command, config: Config) -> int:
    """Return the bytes that a LOAD or STORE moves, whole beats."""
    beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
    return command["lines"] * beats * BEAT_BYTES


def dram_traffic(program: Program) -> Traffic:
    """Count the bytes that a run of a program moves.

    Parameters
    ----------
    program : Program
        A program that runs to its END.
    """
    counts: dict[Opcode, Counter[int]] = {Opcode.LOAD: Counter(), Opcode.STORE: Counter()}
    for command in program.commands:
        if command.opcode in counts:
            counts[command.opcode][command["window"]] += command_bytes(command, program.config)
    loads, stores = (
        {window: counts[opcode][window] for window in Window}
        for opcode in (Opcode.LOAD, Opcode.STORE)
    )
    return Traffic(loads, stores, len(program.commands) * COMMAND_BYTES)
