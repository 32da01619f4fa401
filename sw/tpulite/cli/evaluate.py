"""The command ``evaluate``: how right a network is on a data set."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.common import (
    csv_option,
    device_option,
    is_stdout,
    json_option,
    save_csv,
    save_json,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.evaluate_report import EvaluateReport
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.inputs import pixels_option
from tpulite.cli.labelled import SetReader
from tpulite.cli.labels import count_classes, load_names
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import DATA, NETWORK, PATH
from tpulite.cli.reading import Reading, answer_options
from tpulite.cli.study_progress import study_progress
from tpulite.cli.workers import Workers, worker_options
from tpulite.evaluate.batches import of_one_image
from tpulite.evaluate.evaluation import Evaluation
from tpulite.evaluate.network import Network, answer_images
from tpulite.runtime.host.libraries import library_package
from tpulite.runtime.identity import Library, device_packages, identity
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import ORACLES, open_oracle, oracle_package

__all__ = ["evaluate"]


@command(first=("--data", "--labels", "--names", "--oracle", "--device", "--config"))
@click.argument("file", type=NETWORK)
@option(
    "--data",
    group=Topic.INPUT,
    type=DATA,
    required=True,
    help="A folder with a folder of pictures for each class, or one of pictures, or a .npz file "
    "with images x and classes y, or digits.",
)
@option(
    "--labels",
    group=Topic.INPUT,
    type=PATH,
    help="The images' classes, if the data have none: lines FILE,CLASS, or a .npy file.",
)
@option(
    "--names", "names_path", group=Topic.INPUT, type=PATH, help="Names of the classes, one a line."
)
@pixels_option
@option(
    "--oracle",
    group=Topic.NUMERICS,
    type=Choice(ORACLES),
    help="Compare with a library's kernels.",
)
@option("--limit", group=Topic.INPUT, type=click.IntRange(min=1), help="Only the first images.")
@device_option("golden")
@worker_options
@answer_options
@compiler_options
@json_option
@csv_option
def evaluate(  # noqa: PLR0913 - options of the command
    file: Path,
    data: Path,
    labels: Path | None,
    names_path: Path | None,
    pixels: tuple[float, float] | None,
    oracle: str | None,
    limit: int | None,
    device: str,
    work: Workers,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Run a network on a data set: accuracy, and what is taken for what.

    Answers are kept: an interrupted run goes on where it was. With a library the network is
    computed as that does it. The exit code is 1 if an output differs from the library's, or images
    were not answered.
    """
    if is_stdout(json_path) and is_stdout(csv_path):
        raise click.UsageError("--json - and --csv - cannot be used together.")
    if oracle is not None and is_model_file(file):
        raise ValueError(f"{file} is compiled, and {oracle} runs the file that it was made of")
    if oracle is not None and reading.calibration is not None:
        raise click.UsageError("A library compares with the file that it reads: quantize it first.")
    graph = None if oracle is None else reading.graph(file)
    if oracle is not None and graph is not None:
        open_oracle(oracle, file, graph)  # which says what it lacks
        reading = replace(reading, exact=reading.exact or oracle)
    model = reading.model(file, choices)
    single = of_one_image(model.graph)
    names = () if names_path is None else load_names(names_path, single)
    classes = count_classes(single) if len(single.outputs) == 1 else 0
    data_set = SetReader(single, model.exactness, classes, names, pixels).read(data, labels)
    if data_set.labels is None and oracle is None:
        raise ValueError(f"{data} has no classes: give them by --labels, or compare by --oracle")
    if data_set.labels is not None and not classes:
        raise ValueError(f"Classes need one output, not {list(model.graph.outputs)}")
    count = min(limit or len(data_set.names), len(data_set.names))

    console = Console(quiet=is_stdout(json_path) or is_stdout(csv_path))
    if data_set.remark:
        console.print(data_set.remark, highlight=False, markup=False, soft_wrap=True)
    model = compile_model(model, cache=choices.cache)
    batch = max((program.batch for program in model.programs), default=1)
    needed = partial(identity, device_packages(device), _libraries(model, oracle))
    network = Network.of(model, device, oracle, graph)
    evaluation = Evaluation(network, needed(), count, data_set.read, batch)
    if ":" in device:  # of which there is only one
        work = replace(work, processes=work.processes or 1)
    elif work.scheduler is None:
        Runner(model, device)  # which builds a simulator once, and not in each process
    where = work.executor(answer_images, network, needed)
    with where as executor, study_progress() as tell:
        answers = evaluation.run(
            executor, work.records("evaluate"), fresh=not choices.cache, tell=tell
        )
    report = EvaluateReport(model, device, oracle, data_set, answers, names)
    if csv_path is not None:
        save_csv(csv_path, report.rows())
    save_json(json_path, report.as_dict())
    report.print(console)
    if not report.whole:
        raise click.exceptions.Exit(1)


def _libraries(model: Model, oracle: str | None) -> tuple[Library, ...]:
    """Return the libraries that answers depend on."""
    found: dict[str, Library] = {}
    if any(host.segment.library for host in model.plan.hosts):
        package, extra = library_package(model.graph.format)
        found[package] = package, extra, f"The host's part of {model.graph.name}"
    if oracle is not None:
        package, extra = oracle_package(oracle)
        found[package] = package, extra, f"Oracle {oracle}"
    return tuple(found.values())
