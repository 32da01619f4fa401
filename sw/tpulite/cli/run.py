"""The command ``run``: answers, accuracy and cycles of a network or program."""

import zipfile
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress, TaskID

from tpulite.cli.common import (
    csv_option,
    device_option,
    host_ms_option,
    is_stdout,
    json_option,
    mhz_option,
    progress_bar,
    save_array,
    save_csv,
    save_json,
    say,
    seed_option,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.help import Topic, command, option
from tpulite.cli.inputs import InputReader, Inputs, drawn_named, pixels_option, source_option
from tpulite.cli.labelled import check_classes, load_classes, load_names
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT, PATH
from tpulite.cli.program import RunChoices, refuse_networks_options, run_program
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.run_report import RunReport
from tpulite.cli.steps_report import StepsReport
from tpulite.cli.views import Views, view_options
from tpulite.golden.timing import program_cycles
from tpulite.report.profile import profile_model
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_run import ModelResults, Runner, join_runs
from tpulite.runtime.model_steps import check_steps

_NETWORKS = (".tflite", ".onnx", ".zip", ".npz")
_PROGRAMS = (".tpl", ".tpulite")


@command(first=("--input", "--labels", "--device", "--config", "--mhz", "--html"))
@click.argument("file", type=NETWORK)
@source_option
@pixels_option
@option(
    "--labels",
    group=Topic.INPUT,
    type=PATH,
    help="Class names, one per line, to show the top 5; or the classes of the inputs (.npy), to "
    "measure accuracy.",
)
@option("--output", group=Topic.OUTPUT, type=OUTPUT, help="Write the output to this file (.npy).")
@option(
    "--steps",
    "steps_path",
    group=Topic.OUTPUT,
    type=OUTPUT,
    is_flag=False,
    flag_value="-",
    metavar="[FILE.npz]",
    help="Also run dense layers step by step: show sums and activations, or write them to a file.",
)
@option(
    "--limit",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help="Number of inputs.  [default: all]",
)
@option("--reset", group=Topic.INPUT, is_flag=True, help="Reset the states before every input.")
@mhz_option
@host_ms_option
@seed_option
@device_option("golden")
@answer_options
@compiler_options
@view_options
@json_option
@csv_option
def run(  # noqa: PLR0913 - options of the command
    file: Path,
    source: Path | None,
    pixels: tuple[float, float] | None,
    labels: Path | None,
    output: Path | None,
    steps_path: Path | None,
    limit: int | None,
    reset: bool,
    mhz: float | None,
    host_ms: float | None,
    seed: int,
    device: str,
    reading: Reading,
    choices: Choices,
    views: Views,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Run a network (.tflite, .onnx), a compiled one (.tpulite) or a program written by bind.

    Without --input a random input is used. If a network has states, the inputs are the frames of
    one sequence, in order. A program takes and gives integer tensors of the shapes that info
    prints. If the device has no clock, the cycles are those of the cycle model. --trace and --html
    show the first run.
    """
    if not _is_network(file):
        idle = {"--labels": labels, "--pixels": pixels, "--reset": reset or None}
        idle |= {"--host-ms": host_ms, "--steps": steps_path}
        refuse_networks_options(file, reading, choices, idle)
        chosen = RunChoices(source, limit, seed, device, mhz, choices.beside)
        run_program(file, chosen, views, output, (json_path, csv_path))
        return
    model = reading.model(file, choices)
    _check_options(model, source, pixels, labels, reset)
    if output is not None and len(model.graph.outputs) != 1:
        raise ValueError(
            f"--output needs a network with one output, not {len(model.graph.outputs)}: use --json"
        )
    if steps_path is not None:
        check_steps(model, str(file))
    inputs = _inputs(model, source, pixels, limit, seed)
    names, classes = (), inputs.labels
    if labels is not None and labels.suffix == ".npy":
        classes = load_classes(labels, len(inputs.names), model.graph)
    elif labels is not None:
        names, classes = load_names(labels, model.graph), None
    elif source is not None and classes is not None:
        classes = check_classes(source, classes, len(inputs.names), model.graph)
    count = min(len(inputs.names), limit or len(inputs.names))

    quiet = is_stdout(json_path) or is_stdout(csv_path)
    console = Console(quiet=quiet)
    for remark in inputs.remarks:
        say(console, remark)
    model = compile_model(model, cache=choices.cache)
    with drawn_named(source):
        runner = Runner(model, device)
        runner.state.begin(inputs.states)
        results = _run_all(runner, inputs.values, count, reset)
    runs, origin = inputs.names[:count], "" if is_model_file(file) else str(file)
    report = RunReport(model, device, runs, results, classes, names, mhz, host_ms, origin)
    if views:
        profile = report.profile or profile_model(model)
        shown = report.answered(inputs.values, "; ".join(inputs.remarks))
        views.save(model, profile, mhz, host_ms, answers=shown)
    if csv_path is not None:
        save_csv(csv_path, report.layers)
    if output is not None:
        save_array(output, results.output)
    record, steps = report.as_dict(), None
    if steps_path is not None:
        (values,) = inputs.values.values()
        steps = StepsReport.of(model, values[:count], results.output, device)
        steps.save(steps_path)
        record |= steps.as_dict()
    save_json(json_path, record)
    report.print(console)
    if steps is not None:
        steps.print(console)


def _check_options(
    model: Model,
    source: Path | None,
    pixels: tuple[float, float] | None,
    labels: Path | None,
    reset: bool,
) -> None:
    """Refuse options that this network, or random inputs, have no use for."""
    if reset and not model.graph.states:
        raise click.UsageError(f"{model.graph.name} has no states: leave out --reset")
    if source is None and labels is not None:
        raise click.UsageError("--labels needs --input.")
    if source is None and pixels is not None:
        raise click.UsageError("--pixels needs --input.")


def _is_network(file: Path) -> bool:
    """Tell a network, or a compiled one, from a bare program."""
    if file.suffix in _NETWORKS or is_model_file(file):
        return True
    return file.suffix not in _PROGRAMS and not zipfile.is_zipfile(file)


def _inputs(
    model: Model,
    source: Path | None,
    pixels: tuple[float, float] | None,
    limit: int | None,
    seed: int,
) -> Inputs:
    """Read the inputs, or draw some."""
    if source is not None:
        return InputReader(model.graph, model.exactness, pixels, states=True).read(source, limit)
    return Inputs.drawn(model.graph, limit or model.options.batch, seed)


def _run_all(
    runner: Runner, inputs: dict[str, np.ndarray], count: int, reset: bool
) -> ModelResults:
    runs = []
    with progress_bar() as progress:
        if not progress.disable:
            _watch(runner, progress)
        for start in progress.track(range(0, count, runner.batch), description="runs"):
            runner.record_traces(start == 0)  # which takes time
            if reset:
                runner.state.reset()
            numbers = range(start, min(start + runner.batch, count))
            each = [{name: values[i, ...] for name, values in inputs.items()} for i in numbers]
            runs.append(runner.run(*each))
    return join_runs(runs)


def _watch(runner: Runner, progress: Progress) -> None:
    """Show the cycles of a run on a device that tells them, beside those that it will take."""
    task: TaskID | None = None

    def tell(cycles: int) -> None:
        nonlocal task
        if task is None:
            longest = (program_cycles(x) for x in runner.model.programs)
            task = progress.add_task("cycles", total=max(longest))
        progress.update(task, completed=cycles)

    runner.watch(tell)
