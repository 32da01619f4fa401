"""The command ``bench``: workloads, and other machines beside them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.bench import (
    ABLATED,
    COMPILED,
    EVERY,
    LARGE,
    MECHANISMS,
    Ablation,
    ModelDevice,
    NetworkRecord,
    OperatorRecord,
    Record,
    find_networks,
    find_operators,
    find_workload,
    measure_network,
    measure_operator,
    parse_workload,
    run_ablation,
    run_compilations,
    run_workloads,
)
from tpulite.cli.bench_tables import (
    ablation_table,
    bench_table,
    compile_table,
    goal_table,
    memory_table,
    network_table,
    operator_table,
    peer_table,
)
from tpulite.cli.common import config_option, json_option, progress_bar, save_json
from tpulite.cli.help import Topic, command, option
from tpulite.cli.options import memory_option
from tpulite.configs import named_config
from tpulite.memories import named_memory
from tpulite.runtime.device import Device, open_device

T = TypeVar("T")

_DRAM_BYTES = 1 << 27

_WIDTH = 134
"""Columns of the tables where they do not go to a terminal."""


@command(first=("--quick", "--operators", "--published", "--device", "--config", "--json"))
@click.argument("names", nargs=-1)
@option("--quick", is_flag=True, help="Skip workloads that take minutes.")
@option(
    "--ablation",
    group=Topic.COMPILER,
    is_flag=True,
    help="Turn off one compiler mechanism at a time.",
)
@option(
    "--resident",
    group=Topic.MACHINE,
    is_flag=True,
    help="Keep weights on chip, and measure runs after the first.",
)
@option(
    "--operators",
    is_flag=True,
    help="Measure single operators; NAMES are patterns, and --quick takes the smallest shapes.",
)
@option(
    "--published",
    is_flag=True,
    help="Measure published networks with random weights; NAMES are patterns, and --quick takes "
    "the small ones.",
)
@option(
    "--compile",
    "compiling",
    group=Topic.COMPILER,
    is_flag=True,
    help="Measure compile times.",
)
@json_option
@option(
    "--device",
    default="rtl",
    metavar="NAME",
    help="Device to run on, or model: the golden model, with cycles of the cycle model.",
)
@config_option
@memory_option
def bench(  # noqa: PLR0913 - options of the command
    names: tuple[str, ...],
    quick: bool,
    ablation: bool,
    resident: bool,
    operators: bool,
    published: bool,
    compiling: bool,
    json_path: Path | None,
    device: str,
    config_name: str,
    memory: str,
) -> None:
    """Run workloads (default: all), and compare them with targets and other accelerators."""
    modes = {
        "--ablation": ablation,
        "--resident": resident,
        "--operators": operators,
        "--published": published,
        "--compile": compiling,
    }
    chosen = [name for name, on in modes.items() if on]
    if len(chosen) > 1:
        raise ValueError(f"{chosen[1]} cannot be used with {chosen[0]}")
    if quick and names and not (operators or published):
        raise ValueError("--quick cannot be used with names of workloads")
    source = click.get_current_context().get_parameter_source("device")
    if (compiling or operators or published) and source is ParameterSource.COMMANDLINE:
        raise ValueError(f"--device cannot be used with {chosen[0]}")
    timing = named_memory(memory)
    if (compiling or operators or published) and timing != REFERENCE_MEMORY:
        raise ValueError(f"--memory cannot be used with {chosen[0]}")
    config = named_config(config_name)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    if operators:
        _measure_operators(console, names, quick, config_name, json_path)
    elif published:
        _measure_networks(console, names, quick, config_name, json_path)
    elif compiling:
        _compile(console, _choose(names, COMPILED, quick), config, json_path)
    elif ablation:
        _ablate(console, _choose(names, ABLATED, quick), (device, config, memory), json_path)
    else:
        machine = device, config, memory
        _bench(console, _choose(names, EVERY, quick), machine, json_path, resident)


def _bench(
    console: Console,
    names: Sequence[str],
    where: tuple[str, Config, str],
    json_path: Path | None,
    resident: bool,
) -> None:
    for name in names:
        parse_workload(name)  # before a simulator is built
    machine, (device, _, memory) = _open(*where), where
    runs = run_workloads(names, machine, device_name=device, resident=resident, memory=memory)
    tables = (bench_table, memory_table, goal_table, peer_table)
    _require_exact(_show(console, _with_bar(runs, names), tables, json_path))


def _ablate(
    console: Console,
    names: Sequence[str],
    where: tuple[str, Config, str],
    json_path: Path | None,
) -> None:
    for name in names:
        find_workload(name)
    results = _ablations(names, _open(*where), where)
    _require_exact(_show(console, results, (ablation_table,), json_path))


def _ablations(
    names: Sequence[str], machine: Device, where: tuple[str, Config, str]
) -> Iterator[Ablation]:
    """Yield ablations under a bar that says what is being measured."""
    device, _, memory = where
    with progress_bar() as progress:
        task = progress.add_task(names[0], total=len(names) * (1 + len(MECHANISMS)))
        for result in run_ablation(
            names,
            machine,
            device_name=device,
            memory=memory,
            tell=lambda text: progress.update(task, description=text),
        ):
            yield result
            progress.advance(task)


def _compile(
    console: Console, names: Sequence[str], config: Config, json_path: Path | None
) -> None:
    _show(console, _with_bar(run_compilations(names, config), names), (compile_table,), json_path)


def _measure_operators(
    console: Console, patterns: Sequence[str], quick: bool, machine: str, json_path: Path | None
) -> None:
    cases = list(find_operators(patterns, quick=quick))
    runs = (measure_operator(machine, case) for case in cases)
    bar = _with_bar(runs, [" ".join(case.key) for case in cases])
    _show(console, bar, (operator_table,), json_path, OperatorRecord.as_dict)


def _measure_networks(
    console: Console, patterns: Sequence[str], quick: bool, machine: str, json_path: Path | None
) -> None:
    networks = find_networks(patterns, quick=quick)
    bar = _with_bar((measure_network(machine, name) for name in networks), networks)
    _show(console, bar, (network_table,), json_path, NetworkRecord.as_dict)


def _show(
    console: Console,
    results: Iterable[T],
    tables: Sequence[Callable[[Sequence[T]], Table]],
    json_path: Path | None,
    plain: Callable[[T], dict[str, Any]] = asdict,
) -> list[T]:
    """Take results, print those of their tables that have rows, and write them as plain values."""
    found: list[T] = []
    try:
        found.extend(results)
    finally:  # minutes of measurements are shown even if the last one fails
        for table in (each(found) for each in tables):
            if table.row_count:
                console.print(table)
    save_json(json_path, [plain(each) for each in found])
    return found


def _with_bar(results: Iterable[T], names: Sequence[str]) -> Iterator[T]:
    """Yield results under a bar that names the one that is measured."""
    with progress_bar() as progress:
        task = progress.add_task(next(iter(names), ""), total=len(names))
        for count, result in enumerate(results, 1):
            yield result
            progress.update(task, advance=1, description=names[min(count, len(names) - 1)])


def _choose(names: Sequence[str], default: Sequence[str], quick: bool) -> Sequence[str]:
    return names or tuple(name for name in default if not (quick and name in LARGE))


def _open(device: str, config: Config, memory: str) -> Device:
    timing = named_memory(memory)
    if device == "model":
        return ModelDevice(config, dram_bytes=_DRAM_BYTES, timing=timing)
    return open_device(device, config, dram_bytes=_DRAM_BYTES, timing=timing)


def _require_exact(results: Sequence[Record] | Sequence[Ablation]) -> None:
    wrong = dict.fromkeys(result.workload for result in results if not result.bit_exact)
    if wrong:
        raise RuntimeError(f"{', '.join(wrong)}: results differ from the reference")
