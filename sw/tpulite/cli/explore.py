"""The command ``explore``: many machines for some networks, compared."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.common import (
    csv_option,
    is_stdout,
    json_option,
    mhz_option,
    save_csv,
    save_json,
    say,
)
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK
from tpulite.cli.reading import Reading, plan_options
from tpulite.cli.views import page_option
from tpulite.cli.workers import Workers, study_progress, worker_options
from tpulite.configs import named_chip
from tpulite.counted import counted
from tpulite.explore.chip import count_on_chip
from tpulite.explore.energy import TABLES
from tpulite.explore.families import FAMILIES
from tpulite.explore.limits import Limits, answer
from tpulite.explore.measure import measure
from tpulite.explore.page import Shown, write_study
from tpulite.explore.point import OBJECTIVES, pareto
from tpulite.explore.search import search
from tpulite.explore.space import Space, read_axes
from tpulite.explore.study import NO_CLOCK, Store, Study
from tpulite.explore.table import chip_table, points_table, reasons, rows_of
from tpulite.frontend.files import network_name
from tpulite.graph.layers import LayerGraph
from tpulite.near import no_such
from tpulite.needs import require_package
from tpulite.runtime.compile_cache import compiler_key
from tpulite.runtime.device import require_device
from tpulite.runtime.model_file import is_model_file

_SHOWN = 40
"""Rows of a table that people read; of more points only the front is shown."""


def _objectives(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in OBJECTIVES:
            raise ValueError(no_such("objective", name, OBJECTIVES))
    if len(set(names)) < len(names):
        raise ValueError(f"--objective {text}: an objective is given twice")
    return names


@command(first=("--vary", "--objective", "--mhz", "--search", "--html", "--json"))
@click.argument("networks", type=NETWORK, nargs=-1, required=True)
@option(
    "--vary",
    "axes",
    group=Topic.SEARCH,
    multiple=True,
    required=True,
    metavar="FIELD=VALUES",
    help="Field of the configuration, config (names), memory, or dram_latency, _response, _beat or "
    "_burst, and its values: 8,16,32, or powers of two in 1024..16384. May be repeated.",
)
@option(
    "--objective",
    "objectives",
    group=Topic.SEARCH,
    default="cycles,area,bram,energy",
    callback=_objectives,
    metavar="NAME[,NAME...]",
    help=f"What to minimize: {', '.join(OBJECTIVES)}.",
)
@option(
    "--process",
    group=Topic.SEARCH,
    type=Choice(tuple(TABLES)),
    default="45nm",
    help="Process whose energies per operation are used.",
)
@option(
    "--family",
    group=Topic.SEARCH,
    type=Choice(FAMILIES),
    default=FAMILIES[0],
    help="FPGAs whose lookup tables, block RAMs and multipliers count.",
)
@option(
    "--max-lut",
    group=Topic.SEARCH,
    type=click.IntRange(min=1),
    help="Limit of the family's lookup tables (LUT).",
)
@option(
    "--max-ms",
    group=Topic.SEARCH,
    type=click.FloatRange(min=0, min_open=True),
    help="Limit of each network's run time in ms; needs --mhz.",
)
@mhz_option
@option(
    "--random",
    "count",
    group=Topic.SEARCH,
    type=click.IntRange(min=1),
    help="Try this many random points of the grid.",
)
@option(
    "--search",
    "trials",
    group=Topic.SEARCH,
    type=click.IntRange(min=1),
    help="Try this many points, chosen by Optuna from earlier results.",
)
@option(
    "--seed",
    group=Topic.SEARCH,
    type=click.IntRange(min=0),
    default=2024,
    help="Seed of the choice.",
)
@option(
    "--rtl",
    "simulated",
    group=Topic.SEARCH,
    type=click.IntRange(min=1),
    help="Simulate this many points of the Pareto front as RTL, the best in the first objective.",
)
@worker_options
@page_option
@plan_options
@compiler_options
@json_option
@csv_option
def explore(  # noqa: PLR0913 - options of the command
    networks: tuple[Path, ...],
    axes: tuple[str, ...],
    objectives: tuple[str, ...],
    process: str,
    family: str,
    max_lut: int | None,
    max_ms: float | None,
    mhz: float | None,
    count: int | None,
    trials: int | None,
    seed: int,
    simulated: int | None,
    work: Workers,
    html: Path | None,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Compile networks for many configurations, and show the Pareto front.

    The cycle model times each point of the grid. A configuration that a network does not fit is a
    row with the reason. Results are cached: an interrupted run resumes.
    """
    if is_stdout(json_path) and is_stdout(csv_path):
        raise click.UsageError("--json - and --csv - cannot be used together.")
    if count is not None and trials is not None:
        raise click.UsageError("--random and --search cannot be used together.")
    if trials is not None:
        require_package("optuna", "explore", "--search")
    if simulated is not None:
        require_device("rtl")
    limits = Limits(max_lut, max_ms, mhz)
    config, build = named_chip(reading.config_name)
    options = choices.options()
    space = Space(config, read_axes(axes), build, options.timing)
    parts = _read(networks, reading, choices)
    store = Store(work.records("explore"))
    study = Study(
        *(parts, space, options, store),
        fresh=not choices.cache,
        process=process,
        family=family,
        mhz=mhz,
        clocked="ms" in objectives,
    )
    with work.executor(measure, parts, compiler_key) as executor, study_progress() as tell:
        if trials is not None:
            points = search(study, trials, objectives, executor, seed=seed, tell=tell)
        else:
            chosen = space.grid() if count is None else space.sample(count, seed)
            points = study.points(chosen, executor, tell)
    refused = [point.reason for point in points]
    if all(refused) and NO_CLOCK in refused:
        raise ValueError(
            "--objective ms: no clock was measured for any of these machines; give --mhz"
        )
    best = pareto([point for point in points if not limits.broken(point)], objectives)
    said = answer(points, limits)
    first = sorted(best, key=lambda point: point.objective(objectives[0]))[: simulated or 0]
    simulations = list(count_on_chip(parts, space, first, options))
    if html is not None:
        study_page = Shown(points, best, limits, objectives, said)
        write_whole(html, partial(write_study, study=study_page))
    if csv_path is not None:
        save_csv(csv_path, rows_of(points, best, limits))
    numbers = {id(point): number for number, point in enumerate(points)}
    record = {
        "objectives": objectives,
        "points": [point.as_dict() | {"why_not": limits.broken(point)} for point in points],
        "best": [numbers[id(point)] for point in best],
        "answer": said,
        "chip": [each.as_dict() for each in simulations],
    }
    save_json(json_path, record)
    if not is_stdout(json_path) and not is_stdout(csv_path):
        shown = points if len(points) <= _SHOWN else best
        console = Console()
        if shown:
            console.print(points_table(shown, best, limits, objectives))
        front = f"{len(best):,} (*) on the Pareto front of {_list(objectives)}"
        text = f"{counted(len(points), 'point')}, {front}"
        text += "" if len(shown) == len(points) else "; --csv and --json have all"
        for line in (*reasons(shown, limits), text, said):
            say(console, line)
        if simulations:
            console.print(chip_table(simulations))


def _read(
    paths: Sequence[Path], reading: Reading, choices: Choices
) -> dict[str, tuple[LayerGraph, ...]]:
    """Return the machine's parts of each network, by the name of its file."""
    parts: dict[str, tuple[LayerGraph, ...]] = {}
    for path in paths:
        if is_model_file(path):
            raise ValueError(f"{path} is compiled for one machine: give the original network file")
        name = network_name(path)
        if name in parts:
            raise ValueError(f"two networks have the name {name!r}: rename one of the files")
        parts[name] = reading.model(path, choices).layers
        if not parts[name]:
            raise ValueError(f"{path}: all operators run on the CPU")
    return parts


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
