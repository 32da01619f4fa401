"""What a network costs on machines, as counts of events: the work of one task."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import REFERENCE_MEMORY, WINDOWS, MemoryTiming, WindowBinding
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.state import Known, unpaced
from tpulite.golden.effects.footprint import footprint
from tpulite.golden.timing import program_cycles
from tpulite.graph.layers import LayerGraph
from tpulite.memories import memory_name
from tpulite.program import Program
from tpulite.report.traffic import dram_traffic

_WINDOW = WindowBinding(size=(1 << 32) - 16, read=True, write=True)


@dataclass(frozen=True)
class Counts:
    """Events of one run of all parts of a network that are the machine's."""

    cycles: int = 0  #: By the cycle model, with the memory of the point.
    commands: int = 0  #: Commands.
    macs: int = 0  #: Multiplications that the network asks for.
    #: Vectors that enter the array, padding included: every multiplier works in each.
    array_steps: int = 0
    #: Rows of the unified buffer.
    buffer_reads: int = 0
    buffer_writes: int = 0
    #: Rows of the accumulator buffer.
    accumulator_reads: int = 0
    accumulator_writes: int = 0
    result_rows: int = 0  #: Rows that CONV and VECTOR write, most of them int8.
    #: Bytes from and to DRAM, commands included.
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a network on a machine: counts, or the reason why there are none."""

    counts: Counts | None = None
    reason: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what was a dict; TypeError or KeyError if it is something else."""
        counts, reason = values["counts"], values["reason"]
        if counts is not None and set(counts) != {field.name for field in fields(Counts)}:
            raise KeyError("counts")
        return cls(None if counts is None else Counts(**counts), str(reason))


@dataclass(frozen=True)
class Run:
    """A network, by the name that workers know it by, on a machine with a memory."""

    network: str
    config: Config
    options: Options
    memory: MemoryTiming = REFERENCE_MEMORY


Task = tuple[Run, ...]
"""Runs of one network with the same options, on machines that only differ in speed: stages of the
compiler that do not look at speed are done once."""

_TOGETHER = 32
"""Runs of a task, at most, so that all workers have something to do, and little is lost."""


def tasks_of(runs: Iterable[Run]) -> list[Task]:
    """Return tasks that have all runs; those that share the most are together."""
    alike: dict[object, list[Run]] = {}
    for run in runs:
        memory = run.memory if run.memory.is_limited else None  # which plans depend on
        alike.setdefault((run.network, unpaced(run.config), run.options, memory), []).append(run)
    return [
        tuple(each[start : start + _TOGETHER])
        for each in alike.values()
        for start in range(0, len(each), _TOGETHER)
    ]


def measure(networks: Mapping[str, tuple[LayerGraph, ...]], task: Task) -> tuple[Outcome, ...]:
    """Compile a network for machines and count what runs of it do.

    Parameters
    ----------
    networks : mapping of str to tuple of LayerGraph
        For each network the parts that are the machine's.

    Returns
    -------
    tuple of Outcome
        For each run; with a reason if the network does not suit the machine.
    """
    parts = [_Part(layers, Known(task[0].config)) for layers in networks[task[0].network]]
    outcomes = []
    for run in task:
        counted: Counter[str] = Counter()
        try:
            for part in parts:
                counted.update(part.count(run))
            outcomes.append(Outcome(Counts(**counted)))
        except ValueError as error:
            outcomes.append(Outcome(reason=" ".join(str(error).split())))
    return tuple(outcomes)


def planned_for(options: Options, memory: MemoryTiming) -> Options:
    """Return the options for another memory."""
    return replace(options, memory=memory_name(memory))


@dataclass(frozen=True)
class _Part:
    """Layers that are the machine's, and what is known of them."""

    layers: LayerGraph
    known: Known

    def count(self, run: Run) -> dict[str, int]:
        """Return the counts of a run; ValueError if the layers do not suit the machine."""
        options = planned_for(run.options, run.memory)
        program = self.known.once(
            ("compiled", run.config, run.memory),
            lambda: compile_layers(self.layers, run.config, options, known=self.known),
        )
        events = self.known.once(("events", id(program.commands)), lambda: _events(program))
        return events | {"cycles": program_cycles(program)}


def _events(program: Program) -> dict[str, int]:
    """Return all counts but cycles."""
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
        "commands": len(program.commands),
        "macs": program.macs,
        "read_bytes": traffic.read_bytes,
        "written_bytes": traffic.written_bytes,
    }
