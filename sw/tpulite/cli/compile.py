"""The command ``compile``: from a network's file to a file that runs."""

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.common import json_option, save_json, say, show
from tpulite.cli.compiling import compile_model, report_model, validate_model
from tpulite.cli.dumps import Dumps, dump_options
from tpulite.cli.help import Topic, command, option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.views import Views, page_option
from tpulite.report import compilation_table
from tpulite.report.compilation import summaries
from tpulite.report.network_facts import next_step
from tpulite.report.traffic import memory_lines
from tpulite.runtime.example import draw_example
from tpulite.runtime.model_file import save_model
from tpulite.runtime.model_summary import host_lines

_COMPILED_SUFFIX = ".tpulite"


@command("compile", first=("--output", "--config", "--optimize", "--strict", "--report", "--html"))
@click.argument("network", type=NETWORK)
@option(
    "-o",
    "--output",
    group=Topic.OUTPUT,
    type=OUTPUT,
    help="File to write.  [default: NETWORK.tpulite, in this folder]",
)
@answer_options
@compiler_options
@option(
    "--report",
    group=Topic.OUTPUT,
    is_flag=True,
    help="Predict cycles with and without layer groups.",
)
@option(
    "--validate",
    group=Topic.COMPILER,
    is_flag=True,
    help="Prove that the commands compute the layers, for all inputs.",
)
@dump_options
@page_option
@json_option
def compile_file(  # noqa: PLR0913 - options of the command
    network: Path,
    output: Path | None,
    reading: Reading,
    choices: Choices,
    report: bool,
    validate: bool,
    dumps: Dumps,
    html: Path | None,
    json_path: Path | None,
) -> None:
    """Compile a network (.tflite, .onnx, or .npz of dense layers) to a .tpulite file.

    The exit code is 1 if all operators run on the CPU; the file is written nevertheless.
    """
    output = output or Path(network.name).with_suffix(_COMPILED_SUFFIX)
    if output.resolve() == network.resolve():
        raise click.UsageError(f"{output} is the network itself.")
    plan = reading.model(network, choices)
    if plan.options.resident and dumps.stages:
        raise click.UsageError("--dump cannot be used with --resident.")
    if plan.options.resident and validate:
        raise click.UsageError("--validate cannot be used with --resident.")
    if plan.compiled and dumps.stages:
        raise click.UsageError(f"{network} is compiled: --dump needs the original network file.")
    model = compile_model(plan, cache=choices.cache, dump=dumps if dumps.stages or html else None)
    texts = dumps.texts(model)
    statement = validate_model(model) if validate else ""
    reports = report_model(model, full=report, cache=choices.cache)

    example = draw_example(model)
    write_whole(output, lambda path: save_model(model, path, example))
    save_json(json_path, {name: asdict(each) for name, each in reports.items()})
    dumps.write(texts)
    if html is not None:
        from tpulite.report.profile import profile_model

        Views(html=html).save(model, profile_model(model), None, grouped=dumps.grouped(model))
    console = Console()
    runs = bool(model.programs)
    step = next_step(model.plan.placed, str(network), model.config, runs=runs)
    first = [f"{output}: {summaries(model.programs)}"]
    if not runs:
        first = [f"{network}: nothing runs on the machine; all operators run on the CPU", step]
    for line in filter(None, first):
        say(console, line)
    if report:
        if reports:
            show(console, compilation_table(reports, title=model.graph.name))
        for line in memory_lines(model.steady_programs):
            say(console, line)
        for line in host_lines(model.summary()):
            say(console, line)
    else:
        for each in reports.values():
            say(console, each.line())
    for line in filter(None, (model.statement(), step if runs else "", statement)):
        say(console, line)
    if not runs:
        raise click.exceptions.Exit(1)
