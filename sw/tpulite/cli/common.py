"""What commands share: options, files that they read and write."""

import csv
import importlib.util
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tpulite.arch.config import Config
from tpulite.atomic import write_whole
from tpulite.cli.options import Choices
from tpulite.cli.paths import OUTPUT, PATH
from tpulite.configs import CONFIGS
from tpulite.frontend.files import load_graph
from tpulite.frontend.tflite.parse import IDENTIFIER
from tpulite.graph.graph import Graph
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness, default_exactness
from tpulite.quant.partition import RefusedError, partition
from tpulite.quant.place import place
from tpulite.runtime.device import require_device
from tpulite.runtime.host.ops import can_run
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file, load_model_file

__all__ = [
    "config_option",
    "csv_option",
    "device_option",
    "json_option",
    "load_array",
    "load_inputs",
    "load_model",
    "meaning_options",
    "plan_options",
    "progress_bar",
    "read_graph",
    "save_array",
    "save_csv",
    "save_json",
    "seed_option",
    "ways_out",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_NPY = b"\x93NUMPY"

config_option = click.option(
    "--config",
    "config_name",
    default="16x16",
    show_default=True,
    help=f"One of {', '.join(CONFIGS)}, perhaps with other sizes: 16x16,ub_rows=4096.",
)

csv_option = click.option("--csv", "csv_path", type=OUTPUT, help="Write the table here.")

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=2024,
    show_default=True,
    help="Of inputs, if none are given.",
)

json_option = click.option("--json", "json_path", type=OUTPUT, help="Write the figures here.")


def device_option(default: str) -> Callable[[Command], Command]:
    """Make the option that names a device; a wrong name is refused before anything is compiled."""

    def check(context: click.Context, parameter: click.Parameter, name: str) -> str:
        require_device(name)
        return name

    return click.option(
        "--device", default=default, show_default=True, callback=check, help="Where to run."
    )


def meaning_options(command: Command) -> Command:
    """Add the options that decide what a network means: whose bits, and quantized with what."""
    for option in (
        click.option(
            "--calibrate",
            "calibration",
            type=PATH,
            help="Samples (.npy) to quantize an ONNX file of floats with.",
        ),
        click.option(
            "--exact",
            type=click.Choice([exactness.value for exactness in Exactness]),
            help="Whose bits.  [TFLite: litert-ref, ONNX: ort]",
        ),
    ):
        command = option(command)
    return command


def plan_options(command: Command) -> Command:
    """Add the options that decide what a network means and where its operators run."""
    help_text = "Let the host compute what the machine cannot."
    return meaning_options(click.option("--host-fallback", is_flag=True, help=help_text)(command))


def read_graph(path: Path, calibration: Path | None) -> Graph:
    """Read a network; with samples, quantize it first.

    Raises
    ------
    ValueError
        If the file is no network, or there are samples for one that is not an ONNX file of floats.
    """
    if calibration is None:
        return load_graph(path)
    for package in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ValueError("--calibrate needs: pip install 'tpulite[onnx]'")
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite.quant.calibrate import quantize_onnx

    samples, data = load_array(calibration), path.read_bytes()
    try:
        if data[4:8] == IDENTIFIER:
            raise ValueError("--calibrate is for ONNX files of floats, and this is a TFLite file")
        return load_onnx(quantize_onnx(data, samples), path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_model(
    path: Path,
    exact: str | None,
    host_fallback: bool,
    calibration: Path | None,
    config: Config | None = None,
    choices: Choices | None = None,
) -> Model:
    """Read a network or a compiled one, and plan its run.

    Raises
    ------
    ValueError
        If it cannot be read or computed, or options are given that a compiled one has settled.
    """
    options = None if choices is None else choices.options()
    if not is_model_file(path):
        graph = read_graph(path, calibration)
        try:
            return Model.load(
                graph, exact=exact, host_fallback=host_fallback, config=config, options=options
            )
        except RefusedError as error:
            advice = "".join(f"; {way}" for way in ways_out(graph, exact, error))
            raise ValueError(f"{error}{advice}") from error
    model = load_model_file(path)
    if exact or host_fallback or calibration:
        raise ValueError(f"{path} is compiled: whose bits it has and where it runs is settled")
    if choices is not None:
        choices.refuse(f"{path} is compiled")
    chosen = click.get_current_context().get_parameter_source("config_name")
    if chosen is ParameterSource.COMMANDLINE and config != model.config:
        raise ValueError(f"{path} is compiled: it runs on the configuration it was compiled for")
    return model


def ways_out(graph: Graph, exact: str | None, error: RefusedError) -> list[str]:
    """Say with which options a network runs that was refused without."""
    ways = []
    graph = simplify(graph)
    exactness = default_exactness(graph.format) if exact is None else Exactness(exact)
    floats = [
        node
        for node, _ in error.refused
        if all(graph.tensors[name].dtype == "float32" for name in node.outputs)
    ]
    quantized = any(tensor.quantization is not None for tensor in graph.tensors.values())
    if floats and not quantized:
        advice = "--calibrate SAMPLES.npy quantizes" if graph.format == "onnx" else "first quantize"
        return [f"{advice} a network of floats"]
    if exactness != Exactness.LITERT_REF:
        try:
            partition(place(graph, Exactness.LITERT_REF))
        except ValueError:
            pass
        else:
            ways.append("--exact litert-ref runs it on the machine, with that library's bits")
    if all(can_run(node, graph, exactness) for node, _ in error.refused):
        ways.append("--host-fallback lets the host compute them")
    return ways


def load_array(path: Path) -> np.ndarray:
    """Read a .npy file.

    Raises
    ------
    ValueError
        If it is none, or holds objects or several arrays.
    """
    with path.open("rb") as file:
        begin = file.read(len(_NPY))
    if begin.startswith(b"PK"):
        raise ValueError(f"{path} is not a .npy file: it holds several arrays")
    if begin != _NPY:
        raise ValueError(f"{path} is not a .npy file: it does not begin like one")
    try:
        return np.load(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole .npy file of numbers: {error}") from error


def load_inputs(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """Read a .npy file, or a .npz file with an array for each input.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not zipfile.is_zipfile(path):
        return load_array(path)
    try:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a whole .npz file of numbers: {error}") from error


def save_array(path: Path, values: np.ndarray) -> None:
    """Write a .npy file of that very name, whole or not at all."""

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, values)

    write_whole(path, save)


def save_json(path: Path | None, record: Any) -> None:
    """Write a record, whole or not at all, if a path is given."""
    if path is not None:
        write_whole(path, partial(Path.write_text, data=json.dumps(record, indent=1) + "\n"))


def save_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all.

    Raises
    ------
    ValueError
        If there is nothing to write.
    """
    if not rows:
        raise ValueError(f"There is no table for {path}: the device has no clock or keeps no trace")
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, partial(Path.write_text, data=text.getvalue()))


def progress_bar() -> Progress:
    """Return a bar on stderr with counts and time that disappears when it is done.

    There is none if stderr is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
