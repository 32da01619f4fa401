"""The tables that ``bench`` prints."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from tpulite.bench import Ablation, Compilation, NetworkRecord, OperatorRecord, Record
from tpulite.bench.goals import COMPILE_BYTES, COMPILE_SECONDS, standing
from tpulite.memories import REFERENCE


def bench_table(records: Sequence[Record]) -> Table:
    """Return all workloads beside their limits."""
    table = _table(
        "workload",
        ("MACs", "cycles", "each", "limit", "util", "read", "written", "exact"),
        caption=f"device: {_devices(records)}; memory: {_memories(records)}; "
        "each: cycles per batch of 16, or per vector; "
        "limit: lower bound by MACs or DRAM; read, written: DRAM bytes",
    )
    for record in records:
        table.add_row(
            record.workload,
            f"{record.macs:,}",
            number(record.cycles),
            cycles_each(record),
            f"{max(record.limit_cycles, record.dram_cycles):,}",
            "" if record.utilization is None else f"{record.utilization:.1%}",
            number(record.dram_read_bytes),
            number(record.dram_written_bytes),
            _yes(record.bit_exact),
        )
    return table


def memory_table(records: Sequence[Record]) -> Table:
    """Return what workloads need of each memory; empty beside the reference memory."""
    table = _table(
        "workload",
        ("memory", "read", "written", "held"),
        title="bytes of each memory",
        caption="held: constants and commands of all programs, and the largest tensors of one",
    )
    for record in records:
        for use in record.memories if record.memory != REFERENCE else ():
            table.add_row(
                record.workload,
                f"{use['memory']}, {use['holds']}",
                number(use["read_bytes"]),
                number(use["written_bytes"]),
                number(use["peak_bytes"]),
            )
    return table


def goal_table(records: Sequence[Record]) -> Table:
    """Return the workloads that have a target, beside the best other machine."""
    table = _table(
        "workload",
        ("MACs / 256", "cycles", "target", "met", "best other"),
        title="targets, and the best other accelerator with 256 multipliers",
        caption="cycles per batch where there are several",
    )
    table.add_column("machine")
    for record in records:
        if (ours := standing(record)) is not None:
            table.add_row(
                record.workload,
                f"{ours.limit:,}",
                f"{ours.cycles:,.0f}",
                f"{ours.goal:,}",
                _yes(ours.met),
                number(ours.peer_cycles),
                f"{ours.peer}: {ours.peer_conditions}" if ours.peer else "",
            )
    return table


def peer_table(records: Sequence[Record]) -> Table:
    """Compare with other machines of as many multipliers, batch by batch; empty if none has."""
    table = Table(box=box.SIMPLE, title="all figures of other accelerators with 256 multipliers")
    for column in ("workload", "machine", "figure"):
        table.add_column(column, no_wrap=True)
    for column in ("cycles", "ours"):
        table.add_column(column, justify="right", no_wrap=True)
    for record in records:
        cycles = record.cycles_per_batch or record.cycles
        for peer in record.peers:
            if peer["mac_per_cycle"] != record.array_size**2:
                continue
            ours = "" if cycles is None else f"{cycles:,.0f}"
            table.add_row(record.workload, peer["peer"], peer["kind"], f"{peer['cycles']:,}", ours)
    return table


def ablation_table(results: Sequence[Ablation]) -> Table:
    """Return what each mechanism is worth; mechanisms that have no part are left out."""
    table = _table(
        "workload",
        ("cycles", "more", "read", "written", "commands", "exact"),
        caption=f"device: {_devices(results)}; read, written: DRAM bytes; "
        "mechanisms that do not change the program are not shown",
    )
    whole: Ablation | None = None
    for result in results:
        if result.off is None:
            whole = result
        if result.same:
            continue
        more = ""
        if whole is not None and result.off and result.cycles and whole.cycles:
            more = f"{result.cycles / whole.cycles - 1:+.1%}"
        table.add_row(
            result.workload if result.off is None else f"  without {result.off}",
            number(result.cycles),
            more,
            number(result.dram_read_bytes),
            number(result.dram_written_bytes),
            f"{result.commands:,}",
            _yes(result.bit_exact),
        )
    return table


def compile_table(compilations: Sequence[Compilation]) -> Table:
    """Return how long compiling took beside what it may take."""
    table = _table(
        "workload",
        ("layers", "commands", "seconds", "target", "memory", "met"),
        caption=f"memory: peak of the process; target {COMPILE_BYTES / 1e9:g} GB",
    )
    for compilation in compilations:
        goal = COMPILE_SECONDS.get(compilation.workload)
        peak = compilation.peak_bytes
        met = compilation.seconds <= (goal or compilation.seconds)
        table.add_row(
            compilation.workload,
            f"{compilation.layers:,}",
            f"{compilation.commands:,}",
            f"{compilation.seconds:.2f}",
            "" if goal is None else f"{goal:.2f}",
            "" if peak is None else f"{peak / 1e6:,.0f} MB",
            _yes(met and (peak is None or peak <= COMPILE_BYTES)),
        )
    return table


def operator_table(records: Sequence[OperatorRecord]) -> Table:
    """Return cycles of single operators beside their bounds."""
    table = _table(
        "operator",
        ("cycles", "bound", "ratio", "multipliers", "vector path", "DRAM", "on the CPU"),
        caption="bound: the largest of the three figures behind it, and the cycles to start; "
        "between: with a 1x1 convolution before and behind",
    )
    for record in records:
        table.add_row(
            f"{record.operator} {record.mode} {record.shape}",
            f"{record.cycles:,}",
            f"{record.bound:,}",
            "" if record.ratio is None else f"{record.ratio:.2f}",
            f"{record.multipliers:,}",
            f"{record.vectors:,}",
            f"{record.dram:,}",
            record.host,
        )
    return table


def network_table(records: Sequence[NetworkRecord]) -> Table:
    """Return cycles of published networks beside the bounds of their layers."""
    table = _table(
        "network",
        ("MACs", "cycles", "layers", "ratio", "bound", "on the CPU"),
        caption="layers: cycles if they ran one after the other, each at its bound; "
        "bound: if all of them overlapped",
    )
    for record in records:
        table.add_row(
            record.network,
            f"{record.macs:,}",
            f"{record.cycles:,}",
            f"{record.layers:,}",
            f"{record.ratio:.2f}",
            f"{record.bound:,}",
            record.host,
        )
    return table


def _table(first: str, columns: Sequence[str], *, title: str = "", caption: str = "") -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title=title or None,
        caption=caption or None,
    )
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _devices(results: Sequence[Record] | Sequence[Ablation]) -> str:
    return ", ".join(dict.fromkeys(result.device for result in results))


def _memories(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(record.memory for record in records))


def number(value: int | None) -> str:
    """Return a number as tables show it, nothing for None."""
    return "" if value is None else f"{value:,}"


def _yes(value: bool) -> str:
    return "yes" if value else "[red]NO"


def cycles_each(record: Record) -> str:
    """Return the cycles per batch, or per vector; nothing if there is only one."""
    if record.cycles_per_batch is not None:
        return f"{record.cycles_per_batch:,.1f}"
    return "" if record.cycles_per_vector is None else f"{record.cycles_per_vector:.2f}"
