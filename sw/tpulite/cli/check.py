"""The command ``check``: cycles, memory and accuracy of a network against a baseline."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.arch.config import Config
from tpulite.atomic import write_whole
from tpulite.cli.answering import Answering, Images, image_options
from tpulite.cli.common import (
    MODEL,
    cycle_source_option,
    is_stdout,
    json_option,
    refuse_given,
    save_json,
    say,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.help import Parsed, Topic, command, option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.workers import Workers, worker_options
from tpulite.compiler.options import Options
from tpulite.configs import CONFIGS
from tpulite.report import report_programs
from tpulite.report.baseline import (
    Allowance,
    Baseline,
    Figure,
    Verdict,
    check_conditions,
    compare_figures,
    read_allowance,
    read_baseline,
    write_junit,
)
from tpulite.report.profile import profile_model
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file


@dataclass(frozen=True)
class Conditions:
    """What must be the same for figures to be comparable."""

    network: Path  #: The network's file.
    model: Model  #: The network, planned.
    reading: Reading  #: How it was read.
    images: Images  #: What its accuracy is measured on.
    device: str  #: Whose cycles count.

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; choices that are the default are left out."""
        default = vars(Options())
        options = {x: each for x, each in vars(self.model.options).items() if each != default[x]}
        return {
            "network": {"sha256": _digest(self.network)},
            "config": _config(self.model.config, self.reading.config_name),
            "numerics": str(self.model.exactness),
            "options": options,
            "part": self._part(),
            "device": self.device,
            "data": self._data(),
        }

    def _part(self) -> dict[str, Any]:
        """Return which part of the file is the network, and what the file leaves open."""
        reading = self.reading
        values = {
            "inputs": list(reading.inputs),
            "outputs": list(reading.outputs),
            "shapes": {name: list(shape) for name, shape in reading.shapes.shapes.items()},
            "dims": dict(reading.shapes.dims),
            "states": [list(pair) for pair in reading.states],
            "classes": reading.classes,
            "strict": reading.strict,
            "calibration": reading.calibration and _digest(reading.calibration),
        }
        return {name: value for name, value in values.items() if value}

    def _data(self) -> dict[str, Any] | None:
        """Return the data set of the accuracy; None without one."""
        images = self.images
        if images.path is None:
            return None
        values = {
            "sha256": _digest(images.path),
            "labels": images.labels and _digest(images.labels),
            "names": images.names and _digest(images.names),
            "pixels": images.pixels and list(images.pixels),
            "limit": images.limit,
        }
        return {name: value for name, value in values.items() if value}


def _config(config: Config, given: str) -> dict[str, str]:
    known = [name for name, each in CONFIGS.items() if each == config]
    return {"name": known[0] if known else given, "hash": f"{config.hash:#010x}"}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder and their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    files = sorted(each for each in path.rglob("*") if each.is_file())
    lines = (f"{_digest(each)} {each.relative_to(path).as_posix()}\n" for each in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


_COLORS = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.ALLOWED: "yellow"}


def compared_table(figures: Sequence[Figure]) -> Table:
    """Return a row for each figure, with its verdict."""
    some = any(each.allowed.value for each in figures)
    table = _table("baseline", "now", "change", *(["allowed"] if some else []))
    table.add_column("verdict", no_wrap=True)
    for each in figures:
        values = [each.text(each.baseline), each.text(each.found), each.change]
        if some:
            values.append(str(each.allowed) if each.allowed.value else "")
        verdict = each.verdict
        style = _COLORS.get(verdict)
        table.add_row(each.title, *values, f"[{style}]{verdict}[/]" if style else verdict)
    return table


def figures_table(figures: Mapping[str, float]) -> Table:
    """Return a row for each figure of a new baseline."""
    table = _table("now")
    for name, value in figures.items():
        figure = Figure(name, value, value)
        table.add_row(figure.title, figure.text(value))
    return table


def verdict_lines(path: Path, before: Baseline, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield what is said below the table."""
    counts = [(x, sum(each.verdict == x for each in figures)) for x in Verdict]
    said = ", ".join(f"{count} {x}" for x, count in counts if count)
    yield f"{path} (tpulite {before.version}): {said}"
    if any(each.verdict == Verdict.BETTER for each in figures):
        yield "--update keeps what is better"


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("figure", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


@command(first=("--baseline", "--update", "--allow", "--data", "--device", "--junit"))
@click.argument("network", type=NETWORK)
@option(
    "--baseline",
    group=Topic.INPUT,
    type=OUTPUT,
    required=True,
    help="Baseline to compare with (.json); --update writes it.",
)
@option(
    "--update", group=Topic.OUTPUT, is_flag=True, help="Write the current results to --baseline."
)
@option(
    "--allow",
    "allowed",
    group=Topic.INPUT,
    type=Parsed("figure=amount", read_allowance),
    multiple=True,
    metavar="FIGURE=N[%]",
    help="Accept a result that is worse by this much: cycles=1%, dram_bytes=4096, accuracy=0.5%.",
)
@image_options(required=False)
@cycle_source_option
@option(
    "--junit", group=Topic.OUTPUT, type=OUTPUT, help="Write the results to this file as JUnit XML."
)
@worker_options
@answer_options
@compiler_options
@json_option
def check(  # noqa: PLR0913 - options of the command
    network: Path,
    baseline: Path,
    update: bool,
    allowed: tuple[tuple[str, Allowance], ...],
    images: Images,
    device: str,
    junit: Path | None,
    work: Workers,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
) -> None:
    """Compare a network's cycles, memory and accuracy with a baseline, for CI.

    The figures are cycles, DRAM bytes, MACs on the CPU, buffer rows at the peak, and with --data
    the accuracy. By default none may be worse than in the baseline's file, which --update writes.

    The exit code is 0 if nothing is worse, 1 if a figure is worse, 2 if the figures cannot be
    compared: another network, configuration, numerics, options or data.
    """
    if images.path is None:
        refuse_given(("labels", "names", "pixels", "limit"), "without --data")
    if update and (allowed or junit):
        raise click.UsageError("--update cannot be used with --allow and --junit.")
    if is_model_file(network):
        raise ValueError(f"{network} is compiled: give the original network file")
    if not update and not baseline.exists():
        raise ValueError(f"{baseline}: no such file; tpulite check --update writes it")
    before = None if update else read_baseline(baseline)
    model = reading.model(network, choices)
    conditions = Conditions(network, model, reading, images, device).as_dict()
    if before is not None:  # refuse before the work
        check_conditions(baseline, before.conditions, conditions)
    figures = _figures(model, images, device, work, choices)
    name = model.graph.name
    console = Console(quiet=is_stdout(json_path))
    if before is None:
        found = Baseline(name, version("tpulite"), conditions, figures)
        write_whole(baseline, partial(Path.write_text, data=found.text()))
        save_json(json_path, {"network": name, "figures": dict(figures)})
        console.print(figures_table(figures))
        say(console, f"{baseline}: written")
        return
    compared = compare_figures(baseline, before.figures, figures, dict(allowed))
    if junit is not None:
        write_whole(junit, partial(write_junit, network=name, figures=compared))
    save_json(json_path, {"network": name, "figures": [each.as_dict() for each in compared]})
    console.print(compared_table(compared))
    for line in verdict_lines(baseline, before, compared):
        say(console, line)
    if any(each.verdict == Verdict.WORSE for each in compared):
        raise click.exceptions.Exit(1)


def _figures(
    model: Model, images: Images, device: str, work: Workers, choices: Choices
) -> Mapping[str, float]:
    """Measure all figures of a network, which is compiled first."""
    data = None if images.path is None else images.read(model)[0]
    if data is not None and data.labels is None:
        raise ValueError(f"{images.path} has no classes: give them with --labels")
    model = compile_model(model, cache=choices.cache)
    figures: dict[str, float] = {"cycles": 0, "dram_bytes": 0}
    figures |= {"cpu_macs": model.host_macs, "buffer_peak_rows": 0}
    if model.programs:
        report = report_programs(model.steady_programs, cycles=device == MODEL)
        cycles = report.cycles
        figures["cycles"] = profile_model(model, device).cycles if cycles is None else cycles
        figures["dram_bytes"] = report.read_bytes + report.written_bytes
        figures["buffer_peak_rows"] = report.live_rows
    if data is not None and data.labels is not None:
        count = min(images.limit or len(data.names), len(data.names))
        answers = Answering(model, "golden", work, not choices.cache).answers(data, count)
        if answers.failures:
            raise RuntimeError(f"{images.path}: {next(iter(answers.failures))}")
        right = [
            image["ranked"][0] == label
            for image, label in zip(answers.images, data.labels.tolist(), strict=False)
        ]
        figures["accuracy"] = sum(right) / count
    return figures
