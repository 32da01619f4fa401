"""The command ``bench``: workloads, and other machines beside them."""

from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.bench import WORKLOADS, Record, parse_workload, run_workloads
from tpulite.cli.common import config_option, device_option, json_option, progress_bar, save_json
from tpulite.configs import named_config
from tpulite.runtime.device import open_device

__all__ = ["bench"]

_DRAM_BYTES = 1 << 27


@click.command()
@click.argument("names", nargs=-1)
@json_option
@device_option("rtl")
@config_option
def bench(names: tuple[str, ...], json_path: Path | None, device: str, config_name: str) -> None:
    """Run workloads, all of them by default, and compare them with other machines."""
    console = Console()
    names = names or WORKLOADS
    config = named_config(config_name)
    for name in names:
        parse_workload(name)  # before a simulator is built
    machine = open_device(device, config, dram_bytes=_DRAM_BYTES)
    records: list[Record] = []
    with progress_bar() as progress:
        task = progress.add_task(names[0], total=len(names))
        for record in run_workloads(names, machine, device_name=device):
            records.append(record)
            following = names[min(len(records), len(names) - 1)]
            progress.update(task, advance=1, description=following)
    console.print(_bench_table(records))
    if any(record.peers for record in records):
        console.print(_peer_table(records))
    save_json(json_path, [record.as_dict() for record in records])
    if not all(record.bit_exact for record in records):
        wrong = [record.workload for record in records if not record.bit_exact]
        raise RuntimeError(f"The results of {', '.join(wrong)} are not exact")


def _bench_table(records: list[Record]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        caption="each: cycles of a batch of 16, or of a vector; limit: multipliers or DRAM",
    )
    table.add_column("workload", no_wrap=True)
    for column in ("MACs", "cycles", "each", "limit", "util", "exact"):
        table.add_column(column, justify="right", no_wrap=True)
    for record in records:
        table.add_row(
            record.workload,
            f"{record.macs:,}",
            "" if record.cycles is None else f"{record.cycles:,}",
            _each(record),
            f"{max(record.limit_cycles, record.dram_cycles):,}",
            "" if record.utilization is None else f"{record.utilization:.1%}",
            "yes" if record.bit_exact else "[red]NO",
        )
    return table


def _each(record: Record) -> str:
    if record.cycles_per_batch is not None:
        return f"{record.cycles_per_batch:,.1f}"
    return "" if record.cycles_per_vector is None else f"{record.cycles_per_vector:.2f}"


def _peer_table(records: list[Record]) -> Table:
    """Compare with other machines of as many multipliers, batch by batch."""
    table = Table(box=box.SIMPLE, title="other machines with 256 multipliers")
    for column in ("workload", "machine", "figure"):
        table.add_column(column, no_wrap=True)
    for column in ("cycles", "ours"):
        table.add_column(column, justify="right", no_wrap=True)
    for record in records:
        cycles = record.cycles_per_batch or record.cycles
        for peer in record.peers:
            ours = "" if cycles is None else f"{cycles:,.0f}"
            table.add_row(record.workload, peer["peer"], peer["kind"], f"{peer['cycles']:,}", ours)
    return table
