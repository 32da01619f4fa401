"""The command ``check``: cycles, memory and accuracy of a network against a baseline."""

from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.answering import Answering, Images, image_options
from tpulite.cli.check_conditions import Conditions
from tpulite.cli.check_report import compared_table, figures_table, verdict_lines
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
from tpulite.cli.help import Topic, command, option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.workers import Workers, worker_options
from tpulite.report import report_programs
from tpulite.report.baseline import (
    Allowance,
    Baseline,
    Verdict,
    check_conditions,
    compare_figures,
    read_allowance,
    read_baseline,
)
from tpulite.report.junit import write_junit
from tpulite.report.profile import profile_model
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file


class _Allowance(click.ParamType):
    """``FIGURE=AMOUNT``, or percent."""

    name = "figure=amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Allowance]:
        try:
            return read_allowance(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
    type=_Allowance(),
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
