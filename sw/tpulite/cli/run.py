"""The command ``run``: results, accuracy and cycles of a network or program."""

import math
import zipfile
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tpulite.cli.common import (
    csv_option,
    device_option,
    json_option,
    load_array,
    load_inputs,
    progress_bar,
    save_array,
    save_csv,
    save_json,
    seed_option,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT, PATH
from tpulite.cli.reading import Reading, plan_options
from tpulite.program import Program
from tpulite.report import LayerAccount, account_layers, layer_table, report_programs
from tpulite.runtime.inputs import check_inputs, random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_run import ModelResults, Runner, join_runs
from tpulite.runtime.model_summary import host_lines
from tpulite.runtime.session import Session

__all__ = ["run"]

_NETWORKS = (".tflite", ".onnx", ".zip", ".npz")
_PROGRAMS = (".tpl", ".tpulite")


@click.command()
@click.argument("file", type=NETWORK)
@click.option(
    "--input",
    "inputs",
    type=PATH,
    help="Inputs (.npy or .npz), along the first axis.",
)
@click.option("--labels", type=PATH, help="Classes (.npy) of the inputs, for the accuracy.")
@click.option("--output", type=OUTPUT, help="Write the output here (.npy).")
@click.option("--limit", type=click.IntRange(min=1), help="Run only the first inputs.")
@seed_option
@device_option("golden")
@plan_options
@compiler_options
@json_option
@csv_option
def run(  # noqa: PLR0913 - options of the command
    file: Path,
    inputs: Path | None,
    labels: Path | None,
    output: Path | None,
    limit: int | None,
    seed: int,
    device: str,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Run a network (.tflite, .onnx), a compiled one (.tpulite) or a program.

    Without --input a network gets a random one.
    """
    if not _is_network(file):
        choices.refuse(f"{file} is a program, and compiled")
        _run_program(file, inputs, output, device)
        return
    model = reading.model(file, choices)
    if inputs is None and labels is not None:
        raise click.UsageError("--labels needs --input: random inputs have no classes.")
    if output is not None and len(model.graph.outputs) != 1:
        raise ValueError(f"--output writes one output, not {list(model.graph.outputs)}")
    if inputs is None:
        values: Any = random_inputs(model.graph, limit or model.options.batch, seed)
    else:
        values = load_inputs(inputs)
    checked, count = check_inputs(model.graph, values)
    classes = None if labels is None else _load_labels(labels, count, model)
    count = min(count, limit or count)

    console = Console()
    if inputs is None:
        console.print(f"{count} random input{'s' * (count > 1)}, seed {seed}", highlight=False)
    model = compile_model(model, cache=choices.cache)
    runner = Runner(model, device)
    results = _run_all(runner, checked, count)
    accounts = _accounts(model, results)
    if csv_path is not None:
        save_csv(csv_path, [account.as_dict() for account in accounts])
    if output is not None:
        save_array(output, results.output)
    record = _record(model, device, count, results, classes)
    save_json(json_path, record | {"layers": [account.as_dict() for account in accounts]})
    if accounts:
        console.print(layer_table(accounts, title=f"{model.graph.name}: cycles of the MXU"))
    _print(console, model, record)


def _is_network(file: Path) -> bool:
    """Tell a network, or a compiled one, from a bare program."""
    if file.suffix in _NETWORKS or is_model_file(file):
        return True
    return file.suffix not in _PROGRAMS and not zipfile.is_zipfile(file)


def _run_program(file: Path, inputs: Path | None, output: Path | None, device: str) -> None:
    """Run a bare program, which knows nothing of the host."""
    program = Program.load(file)
    if inputs is None or output is None:
        missing = "--input" if inputs is None else "--output"
        raise click.UsageError(f"Missing option '{missing}'.")
    results = Session(program, device).run(load_array(inputs))
    if results.fault is not None:
        raise RuntimeError(f"The program stopped at {results.fault}")
    save_array(output, results.output)
    cycles = "no clock" if results.cycles is None else f"{results.cycles} cycles"
    click.echo(f"{output}: {results.output.dtype} {list(results.output.shape)}, {cycles}")


def _run_all(runner: Runner, inputs: dict[str, np.ndarray], count: int) -> ModelResults:
    runs = []
    with progress_bar() as progress:
        for start in progress.track(range(0, count, runner.batch), description="runs"):
            runner.record_traces(start == 0)  # which takes time
            numbers = range(start, min(start + runner.batch, count))
            each = [{name: values[i] for name, values in inputs.items()} for i in numbers]
            runs.append(runner.run(*each))
    return join_runs(runs)


def _load_labels(path: Path, count: int, model: Model) -> np.ndarray:
    """Read a class for each of so many inputs."""
    labels = load_array(path)
    integers = np.issubdtype(labels.dtype, np.integer)
    if labels.size != count or len(labels.reshape(-1)) != len(labels) or not integers:
        raise ValueError(
            f"{path} must hold {count} integers, one for each input, not {labels.dtype} of shape "
            f"{list(labels.shape)}"
        )
    if len(model.graph.outputs) != 1:
        raise ValueError(f"--labels needs one output, not {list(model.graph.outputs)}")
    classes = math.prod(model.graph.tensors[model.graph.outputs[0]].shape)
    labels = labels.reshape(-1)
    if wrong := [int(label) for label in labels if not 0 <= label < classes]:
        raise ValueError(f"{path}: labels must be from 0 to {classes - 1}, not {wrong[0]}")
    return labels


def _accounts(model: Model, results: ModelResults) -> tuple[LayerAccount, ...]:
    """Account for the cycles of the first run, if the device can."""
    accounts = []
    for program, result in zip(model.programs, results.segments[0], strict=False):
        if result.cycles is None or not result.traces:
            return ()
        accounts += account_layers(program, result)
    return tuple(accounts)


def _record(
    model: Model, device: str, count: int, results: ModelResults, labels: np.ndarray | None
) -> dict[str, Any]:
    cycles = results.cycles
    record: dict[str, Any] = {
        "network": model.graph.name,
        "exactness": str(model.exactness),
        "device": device,
        "inputs": count,
        "batch": results.batch,
        "macs": model.macs,
        "host_macs": model.host_macs,
        "crossings": model.crossings,
        "cycles": None if cycles is None else list(cycles),
        "accuracy": None,
    }
    if labels is not None:
        labels = labels[:count]
        classes = results.output.reshape(count, -1).argmax(axis=1)
        record["accuracy"] = float((classes == labels).mean())
    return record


def _print(console: Console, model: Model, record: dict[str, Any]) -> None:
    operators = model.summary()
    by_library = any(operator.library for operator in operators)
    lines = [model.statement(), *(host_lines(operators) if by_library else ())]
    if model.programs:
        lines.append(report_programs(model.steady_programs, cycles=False).line())
    inputs = f"{record['inputs']} input{'s' * (record['inputs'] > 1)}"
    if record["cycles"]:
        cycles = record["cycles"]
        spread = (
            f"{min(cycles):,}" if len(set(cycles)) == 1 else f"{min(cycles):,} to {max(cycles):,}"
        )
        batch = record["batch"]
        limit = -(-model.macs * batch // model.config.array_size**2)
        each = "each" if batch == 1 else f"a batch of {batch}"
        lines.append(f"{inputs} on {record['device']}: {spread} cycles {each} (limit {limit:,})")
    elif not model.layers:
        lines.append(f"{inputs} on the host: nothing ran on {record['device']}")
    else:
        lines.append(f"{inputs} on {record['device']}, which has no clock")
    if record["accuracy"] is not None:
        lines.append(f"accuracy {record['accuracy']:.2%} of {inputs}")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
