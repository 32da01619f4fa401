"""What compiling has made of a network: size, traffic, room on chip, and predicted cycles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.table import Table

from tpulite.arch.memory import Window
from tpulite.counted import counted
from tpulite.golden.timing import program_cycles
from tpulite.program import Program
from tpulite.report.buffer import buffer_use
from tpulite.report.traffic import MemoryUse, dram_traffic, memory_uses


@dataclass(frozen=True)
class CompilationReport:
    """What the programs of a network need for one run."""

    commands: int  #: Commands.
    macs: int  #: Multiplications, padding not counted.
    #: Bytes of DRAM traffic, commands included.
    read_bytes: int
    written_bytes: int
    #: Those of them that are weights and records, and images that do not stay on chip.
    constant_bytes: int
    scratch_bytes: int
    touched_rows: int  #: Rows of the unified buffer that are used for anything at any time.
    #: Most rows that are live at one time, the peak: a lower bound of ``touched_rows``.
    live_rows: int
    ub_rows: int  #: Rows that there are.
    #: Channels of activations, and multiplications, that no result needs and that were left out.
    removed_channels: int = 0
    removed_macs: int = 0
    #: Cycles that the cycle model predicts, with the programs' memory; None if it was not asked.
    cycles: int | None = None
    memories: tuple[MemoryUse, ...] = ()  #: What they need of each memory.

    def line(self) -> str:
        """Return traffic and room in words, and what was left out, if that is something."""
        dram = f"DRAM: {self.read_bytes:,} bytes read, {self.written_bytes:,} written"
        if len(self.memories) > 1:
            dram = "; ".join(use.line() for use in self.memories)
        text = (
            f"{dram}; buffer: {self.touched_rows:,} of {self.ub_rows:,} rows used, "
            f"{self.live_rows:,} live at the peak"
        )
        if self.removed_channels:
            text += (
                f"; removed: {self.removed_channels:,} channels that no output depends on, "
                f"{self.removed_macs:,} MACs"
            )
        return text


def report_programs(programs: Sequence[Program], *, cycles: bool) -> CompilationReport:
    """Report on the programs of a network, which run one after the other.

    Parameters
    ----------
    programs : sequence of Program
        At least one, all for the same machine.
    cycles : bool
        Whether to ask the cycle model, which takes about 0.1 ms a command.

    Returns
    -------
    CompilationReport
        Sums, and of the unified buffer the most that one of the programs takes.
    """
    config = programs[0].config
    traffic = [dram_traffic(program) for program in programs]
    uses = [buffer_use(program) for program in programs]
    return CompilationReport(
        commands=sum(len(program.commands) for program in programs),
        macs=sum(program.macs for program in programs),
        read_bytes=sum(one.read_bytes for one in traffic),
        written_bytes=sum(one.written_bytes for one in traffic),
        constant_bytes=sum(one.loads[Window.CONSTANTS] for one in traffic),
        scratch_bytes=sum(
            one.loads[Window.SCRATCH] + one.stores[Window.SCRATCH] for one in traffic
        ),
        touched_rows=max(use.touched for use in uses),
        live_rows=max(use.live for use in uses),
        ub_rows=config.ub_rows,
        cycles=sum(map(program_cycles, programs)) if cycles else None,
        memories=memory_uses(programs),
    )


def summary(program: Program) -> str:
    """Return the size of a program, and whether it is the bound one."""
    return (
        f"{counted(len(program.commands), 'command')}, "
        f"{counted(len(program.constants), 'byte')} of constants, {counted(program.macs, 'MAC')}"
        f"{', bound to its shape' * program.bound}"
    )


def summaries(programs: Iterable[Program]) -> str:
    """Return the sizes of programs, in their order; of equal ones in a row once, and how many."""
    parts = ((text, len([*each])) for text, each in groupby(map(summary, programs)))
    return "; ".join(f"{count} programs of {text}" if count > 1 else text for text, count in parts)


def compilation_table(reports: Mapping[str, CompilationReport], *, title: str) -> Table:
    """Return reports side by side."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("per run", no_wrap=True)
    for heading in reports:
        table.add_column(heading, justify="right", no_wrap=True)
    for row, name in _ROWS.items():
        values = [getattr(report, name) for report in reports.values()]
        table.add_row(row, *("" if value is None else f"{value:,}" for value in values))
    return table


_ROWS = {
    "commands": "commands",
    "predicted cycles": "cycles",
    "DRAM bytes read": "read_bytes",
    "  of these, constants": "constant_bytes",
    "DRAM bytes written": "written_bytes",
    "scratch bytes, read and written": "scratch_bytes",
    "buffer rows used": "touched_rows",
    "  live at the peak": "live_rows",
    "  in total": "ub_rows",
    "channels removed": "removed_channels",
    "  MACs removed": "removed_macs",
}
