"""The command line: compile, run, disasm, bench, info."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tpulite.arch.isa import disassemble
from tpulite.bench import WORKLOADS, Record, parse_workload, run_workloads
from tpulite.compiler import ORDERS, compile_network
from tpulite.configs import CONFIGS, named_config
from tpulite.graph.network import Network
from tpulite.program import Program
from tpulite.runtime.device import device_names, open_device
from tpulite.runtime.session import Session

__all__ = ["main"]

_BENCH_DRAM_BYTES = 1 << 26

_config = click.option(
    "--config",
    "config_name",
    default="16x16",
    show_default=True,
    help=f"One of {', '.join(CONFIGS)}.",
)


def main() -> None:
    """Run the command line; bad input gives one line on stderr and exit code 2."""
    try:
        sys.exit(_commands(standalone_mode=False))
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        _fail(error.format_message())
    except (ValueError, OSError, RuntimeError) as error:
        _fail(str(error))


def _fail(message: str) -> None:
    click.echo(f"tpulite: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(no_args_is_help=False)
@click.version_option(version("tpulite"))
def _commands() -> None:
    """Compile networks for the tpulite machine, run them, and count the cycles."""


@_commands.command("compile")
@click.argument("network", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@_config
@click.option("--batch", default=16, show_default=True, help="Input vectors of a run.")
@click.option("--order", type=click.Choice(ORDERS), default="fast", show_default=True)
def _compile(network: Path, output: Path, config_name: str, batch: int, order: str) -> None:
    """Compile a network file (.npz) to a program file."""
    config = named_config(config_name)
    program = compile_network(Network.load(network), config, batch=batch, order=order)
    _write(output, program.save)
    click.echo(f"{output}: {_summary(program)}")


@_commands.command("run")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--input", "inputs", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
@click.option("--device", default="golden", show_default=True, help="Where to run.")
def _run(program: Path, inputs: Path, output: Path, device: str) -> None:
    """Run a program file on an input (.npy) and write its output (.npy)."""
    session_program = Program.load(program)
    values = _load_array(inputs)
    results = Session(session_program, device).run(values)
    if results.fault is not None:
        raise RuntimeError(f"The program stopped at {results.fault}")

    def save(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, results.output)

    _write(output, save)
    cycles = "no clock" if results.cycles is None else f"{results.cycles} cycles"
    click.echo(f"{output}: {results.output.dtype} {list(results.output.shape)}, {cycles}")


@_commands.command("disasm")
@click.argument("program", type=click.Path(path_type=Path))
def _disasm(program: Path) -> None:
    """Print the commands of a program file, one a line."""
    for index, command in enumerate(Program.load(program).commands):
        click.echo(f"{index:5}  {disassemble(command)}")


@_commands.command("info")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def _info(file: Path | None) -> None:
    """Print what a network or program file holds; else the configurations and devices."""
    if file is not None:
        click.echo(Network.load(file).dump() if file.suffix == ".npz" else _details(file))
        return
    click.echo(f"tpulite {version('tpulite')}")
    for name, config in CONFIGS.items():
        click.echo(
            f"config {name}: {config.array_size}x{config.array_size} multipliers, "
            f"{config.ub_bytes // 1024} KiB unified buffer, hash {config.hash:#010x}"
        )
    click.echo(f"devices: {', '.join(device_names())}")


@_commands.command("bench")
@click.argument("names", nargs=-1)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write records here.")
@click.option("--device", "device_name", default="rtl", show_default=True, help="Where to run.")
@_config
def _bench(
    names: tuple[str, ...], json_path: Path | None, device_name: str, config_name: str
) -> None:
    """Run workloads, all of them by default, and compare them with other machines."""
    console = Console()
    names = names or WORKLOADS
    config = named_config(config_name)
    for name in names:
        parse_workload(name)  # before a simulator is built
    device = open_device(device_name, config, dram_bytes=_BENCH_DRAM_BYTES)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    records: list[Record] = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(names[0], total=len(names))
        for record in run_workloads(names, device, device_name=device_name):
            records.append(record)
            following = names[min(len(records), len(names) - 1)]
            progress.update(task, advance=1, description=following)
    console.print(_bench_table(records))
    console.print(_peer_table(records))
    if json_path is not None:
        text = json.dumps([record.as_dict() for record in records], indent=1) + "\n"
        _write(json_path, lambda path: path.write_text(text))
    if not all(record.bit_exact for record in records):
        wrong = [record.workload for record in records if not record.bit_exact]
        raise RuntimeError(f"The results of {', '.join(wrong)} are not exact")


def _bench_table(records: list[Record]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("workload", no_wrap=True)
    for column in ("MACs", "cycles", "a batch", "limit", "util", "exact"):
        table.add_column(column, justify="right", no_wrap=True)
    for record in records:
        table.add_row(
            record.workload,
            f"{record.macs:,}",
            "" if record.cycles is None else f"{record.cycles:,}",
            "" if record.cycles_per_batch is None else f"{record.cycles_per_batch:,.1f}",
            f"{max(record.limit_cycles, record.dram_cycles):,}",
            "" if record.utilization is None else f"{record.utilization:.1%}",
            "yes" if record.bit_exact else "[red]NO",
        )
    return table


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


def _summary(program: Program) -> str:
    return (
        f"{len(program.commands)} commands, {len(program.constants)} bytes of constants, "
        f"{program.macs:,} MACs"
    )


def _details(path: Path) -> str:
    program = Program.load(path)
    lines = [
        f"program for {program.config.array_size}x{program.config.array_size} multipliers, "
        f"hash {program.config.hash:#010x}: {_summary(program)}"
    ]
    for what, specs in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"  {what} {x.name}: {x.dtype} [{x.m}, {x.channels}]" for x in specs]
    lines += [f"  layer {x.name}: {x.m} x {x.k} x {x.n}" for x in program.layers]
    return "\n".join(lines)


def _load_array(path: Path) -> np.ndarray:
    try:
        values = np.load(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file: {error}") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise ValueError(f"{path} is not a .npy file: it holds several arrays")
    return values


def _write(path: Path, save: Callable[[Path], object]) -> None:
    """Write a file so that it is there whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        save(temporary)
        # mkstemp lets nobody else read it; files that people ask for are like other files.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
