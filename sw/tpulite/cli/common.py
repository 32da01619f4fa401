"""What commands share: options, files that they read and write."""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tpulite.arrays import read_array, read_arrays
from tpulite.atomic import write_whole
from tpulite.cli.help import Topic, option, wrap
from tpulite.cli.paths import OUTPUT
from tpulite.configs import CONFIGS
from tpulite.runtime.device import require_device

Command = TypeVar("Command", bound=Callable[..., Any])

_NARROW = 80
"""Columns of a terminal in which tables are as they were drawn."""

_NPY = b"\x93NUMPY"

config_option = option(
    "--config",
    "config_name",
    group=Topic.MACHINE,
    default="16x16",
    metavar="NAME",
    help=f"Machine: {', '.join(CONFIGS)}; or one with changed fields: 16x16,ub_rows=4096.",
)

csv_option = option(
    "--csv",
    "csv_path",
    group=Topic.OUTPUT,
    type=OUTPUT,
    help="Write the table to this file; - is stdout.",
)

seed_option = option(
    "--seed",
    group=Topic.INPUT,
    type=click.IntRange(min=0),
    default=2024,
    help="Seed of random inputs.",
)

mhz_option = option(
    "--mhz",
    group=Topic.MACHINE,
    type=click.FloatRange(min=0, min_open=True),
    help="Clock frequency of the machine in MHz: also show ms and inferences/s.",
)

host_ms_option = option(
    "--host-ms",
    group=Topic.MACHINE,
    type=click.FloatRange(min=0),
    help="CPU time per inference in ms, for the inferences/s.",
)

json_option = option(
    "--json",
    "json_path",
    group=Topic.OUTPUT,
    type=OUTPUT,
    help="Write the results as JSON to this file; - is stdout.",
)


def is_stdout(path: Path | None) -> bool:
    """Tell whether a file to write is standard output, which then is for nothing else."""
    return path is not None and str(path) == "-"


def refuse_given(names: Sequence[str], when: str) -> None:
    """Raise UsageError if any of these parameters of the command was given."""
    context = click.get_current_context()
    given = [
        param.opts[0]
        for param in context.command.params
        if param.name in names
        and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)} cannot be used {when}.")


MODEL = "model"
"""The device that is none: cycles are those of the cycle model."""


def device_option(
    default: str, text: str = "Device to run on; tpulite info lists devices."
) -> Callable[[Command], Command]:
    """Make the option that names a device; a wrong name is refused before anything is compiled."""

    def check(context: click.Context, parameter: click.Parameter, name: str) -> str:
        if not name == default == MODEL:
            require_device(name)
        return name

    return option(
        "--device",
        group=Topic.MACHINE,
        default=default,
        metavar="NAME",
        callback=check,
        help=text,
    )


cycle_source_option = device_option(
    MODEL, "Source of the cycles: the cycle model, or a device that counts them (rtl)."
)


def load_array(path: Path) -> np.ndarray:
    """Read a .npy file.

    ValueError if it is none, holds objects or several arrays, or a value is not finite.
    """
    with path.open("rb") as file:
        begin = file.read(len(_NPY))
    if not begin:
        raise ValueError(f"{path}: the file is empty")
    if begin.startswith(b"PK"):
        raise ValueError(f"{path} is not a .npy file: it holds several arrays")
    if begin != _NPY:
        raise ValueError(f"{path} is not a .npy file")
    try:
        with path.open("rb") as file:
            values = read_array(file, path.stat().st_size)
    except Exception as error:  # it evaluates the header as Python
        raise ValueError(f"{path} is not a complete .npy file of numbers: {error}") from error
    _check_finite(f"{path}: value ", values)
    return values


def load_inputs(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """Read a .npy file, or a .npz file with an array for each input.

    ValueError if it is none, or a value is not finite.
    """
    if not zipfile.is_zipfile(path):
        return load_array(path)
    try:
        arrays = read_arrays(path.read_bytes())
    except Exception as error:
        raise ValueError(f"{path} is not a complete .npz file of numbers: {error}") from error
    for name, values in arrays.items():
        _check_finite(f"{path}: {name}", values)
    return arrays


def _check_finite(where: str, values: np.ndarray) -> None:
    """Refuse NaN and infinity, of which no network computes anything that means something."""
    if values.dtype.kind not in "fc" or (finite := np.isfinite(values)).all():
        return
    index = np.unravel_index(finite.argmin(), values.shape)
    text = ", ".join(map(str, index))
    raise ValueError(f"{where}[{text}] is {values[index]}: values must be finite")


def save_array(path: Path, values: np.ndarray) -> None:
    """Write a .npy file of that very name, whole or not at all."""

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, values)

    write_whole(path, save)


def save_json(path: Path | None, record: Any) -> None:
    """Write a record, whole or not at all, if a path is given."""
    if path is not None:
        _save_text(path, json.dumps(record, indent=1) + "\n")


def save_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all; ValueError if there is nothing to write."""
    if not rows:
        raise ValueError(f"{path}: no table to write: the device has no clock, or records no trace")
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _save_text(path, text.getvalue())


def _save_text(path: Path, text: str) -> None:
    if is_stdout(path):
        click.echo(text, nl=False)
    else:
        write_whole(path, partial(Path.write_text, data=text))


def show(console: Console, table: Table) -> None:
    """Print a table, with less space between its columns if the terminal is narrow."""
    if console.width < _NARROW:
        table.padding, table.pad_edge = (0, 1, 0, 0), False
    console.print(table)


def say(console: Console, text: str) -> None:
    """Print lines; in a terminal they break at spaces, a file has them whole."""
    if console.is_terminal:
        lines = text.split("\n")
        indents = [" " * (len(line) - len(line.lstrip())) for line in lines]
        text = "\n".join(
            wrap(line, console.width, hanging=indent)
            for line, indent in zip(lines, indents, strict=True)
        )
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def progress_bar() -> Progress:
    """Return a bar on stderr with counts and time that disappears when it is done.

    There is none if stderr is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    return Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
