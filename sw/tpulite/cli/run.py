"""The command ``run``: results, accuracy and cycles of a network or program."""

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tpulite.cli.common import (
    PATH,
    config_option,
    csv_option,
    device_option,
    json_option,
    load_array,
    load_model,
    plan_options,
    progress_bar,
    save_array,
    save_csv,
    save_json,
)
from tpulite.configs import named_config
from tpulite.program import Program
from tpulite.report.layers import LayerAccount, account_layers, layer_table
from tpulite.runtime.inputs import check_inputs, random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_run import ModelResults, Runner, join_runs
from tpulite.runtime.session import Session

__all__ = ["run"]

_NETWORKS = (".tflite", ".onnx", ".zip")


@click.command()
@click.argument("file", type=PATH)
@click.option("--input", "inputs", type=PATH, help="Inputs (.npy), along the first axis.")
@click.option("--labels", type=PATH, help="Classes (.npy) of the inputs, for the accuracy.")
@click.option("--output", type=PATH, help="Write the output here (.npy).")
@click.option("--limit", type=click.IntRange(min=1), help="Run only the first inputs.")
@click.option("--seed", default=2024, show_default=True, help="Of inputs, if none are given.")
@device_option("golden")
@config_option
@plan_options
@json_option
@csv_option
def run(
    file: Path,
    inputs: Path | None,
    labels: Path | None,
    output: Path | None,
    limit: int | None,
    seed: int,
    device: str,
    config_name: str,
    exact: str | None,
    host_fallback: bool,
    calibration: Path | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Run a network (.tflite, .onnx), a compiled one (.tpulite) or a program.

    Without --input a network gets a random one.
    """
    if file.suffix not in _NETWORKS and not is_model_file(file):
        _run_program(file, inputs, output, device)
        return
    model = load_model(file, exact, host_fallback, calibration, named_config(config_name))
    if inputs is None:
        values: Any = random_inputs(model.graph, limit or 1, seed)
    else:
        values = load_array(inputs)
    checked, count = check_inputs(model.graph, values)
    count = min(count, limit or count)
    classes = None if labels is None else _load_labels(labels, count)

    console = Console()
    if inputs is None:
        console.print(f"{count} random input{'s' * (count > 1)}, seed {seed}", highlight=False)
    results = _run_all(Runner(model, device), checked, count, console)
    if output is not None:
        save_array(output, results.output)
    accounts = _accounts(model, results)
    record = _record(model, device, count, results, classes)
    save_json(json_path, record | {"layers": [account.as_dict() for account in accounts]})
    if csv_path is not None:
        save_csv(csv_path, [account.as_dict() for account in accounts])
    if accounts:
        console.print(layer_table(accounts, title=f"{model.graph.name}: cycles of the MXU"))
    _print(console, model, record)


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


def _run_all(
    runner: Runner, inputs: dict[str, np.ndarray], count: int, console: Console
) -> ModelResults:
    runs = []
    with progress_bar(console) as progress:
        for number in progress.track(range(count), description="inputs"):
            runner.record_traces(number == 0)  # which takes time
            runs.append(runner.run({name: values[number] for name, values in inputs.items()}))
    return join_runs(runs)


def _load_labels(path: Path, count: int) -> np.ndarray:
    labels = load_array(path).reshape(-1)
    if len(labels) < count or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{path} must hold at least {count} integers, not {len(labels)} of {labels.dtype}"
        )
    return labels[:count]


def _accounts(model: Model, results: ModelResults) -> tuple[LayerAccount, ...]:
    """Account for the cycles of the first input, if the device can."""
    accounts = []
    for program, result in zip(model.programs, results.segments[0], strict=True):
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
        "macs": model.macs,
        "host_macs": model.host_macs,
        "cycles": None if cycles is None else list(cycles),
        "accuracy": None,
    }
    if labels is not None:
        classes = results.output.reshape(count, -1).argmax(axis=1)
        record["accuracy"] = float((classes == labels).mean())
    return record


def _print(console: Console, model: Model, record: dict[str, Any]) -> None:
    lines = [model.statement()]
    if record["cycles"]:
        cycles = record["cycles"]
        spread = (
            f"{min(cycles):,}" if len(set(cycles)) == 1 else f"{min(cycles):,} to {max(cycles):,}"
        )
        limit = -(-model.macs // model.config.array_size**2)
        lines.append(f"{spread} cycles an input (limit {limit:,})")
    else:
        lines.append(f"{record['inputs']} inputs on {record['device']}, which has no clock")
    if record["accuracy"] is not None:
        lines.append(f"accuracy {record['accuracy']:.2%} of {record['inputs']} inputs")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
