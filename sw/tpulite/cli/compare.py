"""The command ``compare``: what users run and what a library gives, tensor by tensor."""

from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.common import device_option, is_stdout, json_option, progress_bar, seed_option
from tpulite.cli.compare_report import CompareReport
from tpulite.cli.compiling import compile_model
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.inputs import InputReader, Inputs, drawn_named, pixels_option, source_option
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK
from tpulite.cli.reading import Reading, plan_options
from tpulite.cli.views import page_head, page_option
from tpulite.report.html import write_comparison
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import describe_operators
from tpulite.runtime.model_compare import Comparing, Comparison, compare_device, compare_model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.oracles import ORACLES, open_oracle, oracle_package

_DEVICES = ("rtl", "golden")
_INPUTS = 10
_KNOWN = 3
"""Exit code if all that differs is a known fault of the library."""


@command(first=("--oracle", "--input", "--limit", "--device", "--config", "--html"))
@click.argument("model", type=NETWORK)
@option(
    "--oracle",
    group=Topic.NUMERICS,
    type=Choice((*ORACLES, *_DEVICES)),
    help="Reference: a library's kernels, or a device to compare with the layers' definition.  "
    "[default: the library of the file's format]",
)
@source_option
@pixels_option
@option(
    "--limit",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help=f"Number of inputs.  [default: {_INPUTS}]",
)
@option(
    "--frames",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help="Inputs per sequence; states are reset after each sequence.  [default: all]",
)
@option(
    "--tolerance",
    group=Topic.NUMERICS,
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=False,
    help="Largest difference accepted: quantization steps of integer tensors, or float units.",
)
@seed_option
@device_option("golden")
@plan_options
@compiler_options
@page_option
@json_option
def compare(  # noqa: PLR0913 - options of the command
    model: Path,
    oracle: str | None,
    source: Path | None,
    pixels: tuple[float, float] | None,
    limit: int | None,
    frames: int | None,
    tolerance: float,
    seed: int,
    device: str,
    reading: Reading,
    choices: Choices,
    html: Path | None,
    json_path: Path | None,
) -> None:
    """Compare a compiled network with a library, tensor by tensor.

    The compiled program runs on the device; the library runs the original file with its default
    options. Outputs and tensors in DRAM are compared. The definition of each layer is compared,
    too, with inner tensors that the library can expose without changing its outputs. The numerics
    are by default those of the library compared with.

    The exit code is 1 if a bit differs, and 3 if every difference is a known bug of the library.
    """
    if oracle is None:
        oracle = _oracle_of(model, reading)
    if oracle in ORACLES and reading.calibration is not None:
        raise click.UsageError("--calibrate cannot be used with a library: run quantize first.")
    if oracle in ORACLES and model.is_file() and is_model_file(model):
        raise ValueError(f"{model} is compiled: --oracle {oracle} needs the original network file")
    if oracle in _DEVICES:
        device = oracle
    if source is None and pixels is not None:
        raise click.UsageError("--pixels needs --input.")
    library = open_oracle(oracle, model, reading.graph(model)) if oracle in ORACLES else None
    exact = reading.exact or (oracle if oracle in ORACLES else None)
    plan = replace(reading, exact=exact).model(model, choices)
    if frames is not None and not plan.graph.states:
        raise click.UsageError(f"{model} has no states: leave out --frames")
    if source is None:
        inputs = Inputs.drawn(plan.graph, limit or frames or _INPUTS, seed)
    else:
        inputs = InputReader(plan.graph, plan.exactness, pixels).read(source, limit)
    plan = compile_model(plan, cache=choices.cache)
    with progress_bar() as progress, drawn_named(source):
        how = Comparing(
            device, tolerance, frames, lambda runs: progress.track(list(runs), description="runs")
        )
        each = inputs.each(limit)
        if library is None:
            compared = compare_device(plan, each, how)
        else:
            compared = compare_model(plan, library, each, how)
    report = CompareReport(plan, compared, device, oracle, tolerance, inputs)
    if html is not None:
        _write_page(html, compared, report)
    report.save(json_path)
    report.print(Console(quiet=is_stdout(json_path)))
    if not compared.same:
        raise click.exceptions.Exit(_KNOWN if compared.explained else 1)


def _oracle_of(path: Path, reading: Reading) -> str:
    """Return the library that runs a file; the golden model for files that no library reads."""
    if path.is_file() and is_model_file(path):
        return "golden"
    graph = reading.graph(path)
    return "golden" if graph.source is None else str(reading.exactness(graph))


def _write_page(path: Path, compared: Comparison, report: CompareReport) -> None:
    model = report.model
    facts = {
        "compared with": _name(report.oracle),
        "inputs": f"{'; '.join(report.inputs.remarks) or compared.inputs}: "
        f"{len(compared.tensors)} tensors, {compared.elements:,} elements",
        "device": report.device,
    }
    save = partial(
        write_comparison,
        comparison=compared,
        network=NetworkGraph.of(model.plan.placed),
        details=describe_operators(model.plan.placed.graph),
        head=page_head(model, compared.network, facts),
    )
    write_whole(path, save)


def _name(oracle: str) -> str:
    """Return what an oracle is, with the version of its library."""
    if oracle not in ORACLES:
        return f"the device {oracle}"
    package = oracle_package(oracle)[0].replace("_", "-")
    return f"{oracle} ({package} {version(package)})"
