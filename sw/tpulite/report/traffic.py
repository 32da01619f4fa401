"""Bytes that a program moves to and from DRAM, counted from its commands."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.program import Program

__all__ = ["Traffic", "dram_traffic"]


@dataclass(frozen=True)
class Traffic:
    """Bytes of one run, whole beats: what READ_BEATS and WRITE_BEATS of the chip count.

    Parameters
    ----------
    loads, stores : mapping of Window to int
        Bytes that LOAD reads from, and STORE writes to, each window; 0 where there are none.
    commands : int
        Bytes of the commands, which are fetched once.
    """

    loads: Mapping[Window, int]
    stores: Mapping[Window, int]
    commands: int

    @property
    def read_bytes(self) -> int:
        """All bytes read from DRAM."""
        return sum(self.loads.values()) + self.commands

    @property
    def written_bytes(self) -> int:
        """All bytes written to DRAM."""
        return sum(self.stores.values())


def dram_traffic(program: Program) -> Traffic:
    """Count the bytes that a run of a program moves.

    Parameters
    ----------
    program : Program
        A program that runs to its END.
    """
    counts: dict[Opcode, Counter[int]] = {Opcode.LOAD: Counter(), Opcode.STORE: Counter()}
    row_bytes = program.config.row_bytes
    for command in program.commands:
        if command.opcode in counts:
            beats = -(-command["rows"] * row_bytes // BEAT_BYTES)
            counts[command.opcode][command["window"]] += command["lines"] * beats * BEAT_BYTES
    loads, stores = (
        {window: counts[opcode][window] for window in Window}
        for opcode in (Opcode.LOAD, Opcode.STORE)
    )
    return Traffic(loads, stores, len(program.commands) * COMMAND_BYTES)
