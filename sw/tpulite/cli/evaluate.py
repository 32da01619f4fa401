"""The command ``evaluate``: how right a network is on a data set."""

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.answering import Answering, Images, image_options
from tpulite.cli.common import (
    csv_option,
    device_option,
    is_stdout,
    json_option,
    save_csv,
    save_json,
    say,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.evaluate_report import EvaluateReport
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.workers import Workers, worker_options
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.oracles import ORACLES, open_oracle


@command(first=("--data", "--labels", "--names", "--oracle", "--device", "--config"))
@click.argument("file", type=NETWORK)
@image_options(required=True)
@option(
    "--oracle",
    group=Topic.NUMERICS,
    type=Choice(ORACLES),
    help="Also compare the outputs with this library's kernels.",
)
@device_option("golden")
@worker_options
@answer_options
@compiler_options
@json_option
@csv_option
def evaluate(  # noqa: PLR0913 - options of the command
    file: Path,
    images: Images,
    oracle: str | None,
    device: str,
    work: Workers,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Run a network on a data set: accuracy, and a confusion matrix.

    Pixels are scaled to the full range of the input. If the network was trained on another range,
    accuracy is low without --pixels.

    Results are cached: an interrupted run resumes. With --oracle the numerics are by default those
    of that library. The exit code is 1 if an output differs from the library's, or if images have
    no result.
    """
    if is_stdout(json_path) and is_stdout(csv_path):
        raise click.UsageError("--json - and --csv - cannot be used together.")
    if oracle is not None and is_model_file(file):
        raise ValueError(f"{file} is compiled: --oracle {oracle} needs the original network file")
    if oracle is not None and reading.calibration is not None:
        raise click.UsageError("--calibrate cannot be used with --oracle: run quantize first.")
    graph = None if oracle is None else reading.graph(file)
    if oracle is not None and graph is not None:
        open_oracle(oracle, file, graph)  # which says what it lacks
        reading = replace(reading, exact=reading.exact or oracle)
    model = reading.model(file, choices)
    data, names = images.read(model)
    if data.labels is None and oracle is None:
        raise ValueError(f"{images.path} has no classes: give them with --labels, or use --oracle")
    count = min(images.limit or len(data.names), len(data.names))

    console = Console(quiet=is_stdout(json_path) or is_stdout(csv_path))
    if data.remark:
        say(console, data.remark)
    model = compile_model(model, cache=choices.cache)
    asked = Answering(model, device, work, not choices.cache, oracle, graph)
    answers = asked.answers(data, count)
    report = EvaluateReport(model, device, oracle, data, answers, names)
    if csv_path is not None:
        save_csv(csv_path, report.rows())
    save_json(json_path, report.as_dict())
    report.print(console)
    if not report.whole:
        raise click.exceptions.Exit(1)
