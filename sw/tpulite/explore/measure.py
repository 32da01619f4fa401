"""What a network costs on a machine, as counts of events: the work of one task."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import WINDOWS, WindowBinding
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.report.traffic import dram_traffic

__all__ = ["Counts", "Outcome", "Task", "measure"]

_WINDOW = WindowBinding(size=(1 << 32) - 16, read=True, write=True)


@dataclass(frozen=True)
class Counts:
    """Events of one run of all parts of a network that are the machine's.

    Parameters
    ----------
    cycles : int
        By the cycle model, with the reference memory.
    commands : int
        Commands.
    macs : int
        Multiplications that the network asks for.
    array_steps : int
        Vectors that enter the array, padding included: every multiplier works in each.
    buffer_reads, buffer_writes : int
        Rows of the unified buffer.
    accumulator_reads, accumulator_writes : int
        Rows of the accumulator buffer.
    result_rows : int
        Rows that CONV and VECTOR write, most of them int8.
    read_bytes, written_bytes : int
        Bytes from and to DRAM, commands included.
    """

    cycles: int = 0
    commands: int = 0
    macs: int = 0
    array_steps: int = 0
    buffer_reads: int = 0
    buffer_writes: int = 0
    accumulator_reads: int = 0
    accumulator_writes: int = 0
    result_rows: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a network on a machine: counts, or the reason why there are none."""

    counts: Counts | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_dict` wrote; TypeError or KeyError if it is something else."""
        counts, reason = values["counts"], values["reason"]
        if counts is not None and set(counts) != {field.name for field in fields(Counts)}:
            raise KeyError("counts")
        return cls(None if counts is None else Counts(**counts), str(reason))


@dataclass(frozen=True)
class Task:
    """A network, by the name that workers know it by, on a machine."""

    network: str
    config: Config
    options: Options


def measure(networks: Mapping[str, tuple[LayerGraph, ...]], task: Task) -> Outcome:
    """Compile a network for a machine and count what a run of it does.

    Parameters
    ----------
    networks : mapping of str to tuple of LayerGraph
        For each network the parts that are the machine's.
    task : Task
        Which one, and for which machine.

    Returns
    -------
    Outcome
        With a reason if it does not suit the machine.
    """
    counted: Counter[str] = Counter()
    try:
        for layers in networks[task.network]:
            counted.update(_count(compile_layers(layers, task.config, task.options)))
    except ValueError as error:
        return Outcome(reason=" ".join(str(error).split()))
    return Outcome(Counts(**counted))


def _count(program: Program) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for command in program.commands:
        touched = footprint(command, program.config, (_WINDOW,) * WINDOWS)
        counts["buffer_reads"] += touched.early_reads.size + touched.reads.size
        counts["buffer_writes"] += touched.writes.size
        if command.opcode in (Opcode.CONV, Opcode.VECTOR):
            counts["result_rows"] += touched.writes.size
        if command.opcode == Opcode.CONV:
            tiles, positions = touched.vectors.shape[:2]
            sums = len(touched.accumulators)
            counts["array_steps"] += tiles * positions
            counts["accumulator_writes"] += tiles * sums
            counts["accumulator_reads"] += (tiles - 1 + command["accumulate"]) * sums
    traffic = dram_traffic(program)
    return counts | {
        "cycles": predict_cycles(program.commands, program.config),
        "commands": len(program.commands),
        "macs": program.macs,
        "read_bytes": traffic.read_bytes,
        "written_bytes": traffic.written_bytes,
    }
