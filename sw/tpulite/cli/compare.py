"""The command ``compare``: our bits and a library's, tensor by tensor."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.atomic import write_whole
from tpulite.cli.common import (
    json_option,
    load_inputs,
    progress_bar,
    save_json,
    seed_option,
)
from tpulite.cli.paths import NETWORK, PATH
from tpulite.cli.reading import Reading, plan_options
from tpulite.cli.views import facts_of, page_option
from tpulite.report.html import write_comparison
from tpulite.report.name_cell import NameCell
from tpulite.report.network_graph import NetworkGraph
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import ORACLES, Oracle, open_oracle

__all__ = ["compare"]

_DEVICES = ("rtl", "golden")
_INPUTS = 10


@click.command()
@click.argument("model", type=NETWORK)
@click.option(
    "--oracle",
    type=click.Choice((*ORACLES, *_DEVICES)),
    required=True,
    help="A library's kernels, or a device.",
)
@click.option("--input", "input_path", type=PATH, help="Inputs (.npy); else random ones.")
@click.option("--limit", type=click.IntRange(min=1), help=f"How many inputs.  [{_INPUTS}]")
@seed_option
@plan_options
@page_option
@json_option
def compare(  # noqa: PLR0913 - options of the command
    model: Path,
    oracle: str,
    input_path: Path | None,
    limit: int | None,
    seed: int,
    reading: Reading,
    html: Path | None,
    json_path: Path | None,
) -> None:
    """Compare the golden model with a library, or with the RTL, tensor by tensor.

    Channels that no result needs are not computed, unless they are constant, and tensors that have
    some are named. By default a network is computed as the library that it is compared with. The
    exit code is 1 if a bit differs.
    """
    if input_path is None and reading.inputs and reading.inputs[0].endswith((".npy", ".npz")):
        input_path, reading = Path(reading.inputs[0]), replace(reading, inputs=())  # as it was
    if oracle in ORACLES and reading.calibration is not None:
        raise click.UsageError("A library compares with the file that it reads: quantize it first.")
    if oracle in ORACLES and model.is_file() and is_model_file(model):
        raise ValueError(f"{model} is compiled, and {oracle} runs the file that it was made of")
    library = open_oracle(oracle, model, reading.graph(model)) if oracle in ORACLES else None
    exact = reading.exact or (oracle if oracle in ORACLES else None)
    plan = replace(reading, exact=exact).model(model)
    run = library or _device(plan, oracle)
    if input_path is None:
        values = random_inputs(plan.graph, limit or _INPUTS, seed)
    else:
        values = load_inputs(input_path)
    console = Console()
    with progress_bar() as progress:
        compared = compare_model(
            plan,
            run,
            values,
            limit=limit,
            track=lambda numbers: progress.track(list(numbers), description="inputs"),
        )
    differences = compared.tensors
    drawn = "" if input_path else f" random, seed {seed},"
    if html is not None:
        facts = {
            "compared with": _name(oracle),
            "inputs": f"{compared.inputs},{drawn or f' of {input_path},'} "
            f"{len(differences)} tensors, {compared.elements:,} elements",
            **facts_of(plan),
        }
        network = NetworkGraph.of(plan.plan.placed)
        save = partial(write_comparison, comparison=compared, network=network, facts=facts)
        write_whole(html, save)
    save_json(json_path, [vars(difference) for difference in differences])
    if different := compared.different:
        console.print(_table(different))
        first = different[0]
        console.print(
            f"First: tensor {first.name!r} of {first.node}, {first.different:,} of "
            f"{first.elements:,} elements, largest difference {first.largest:g}, first at "
            f"{list(first.first or ())}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if narrow := [difference for difference in differences if difference.left_out]:
        console.print(_narrow(narrow), highlight=False, markup=False, soft_wrap=True)
    console.print(plan.statement(), highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{plan.graph.name} as {plan.exactness} against {oracle}: {len(differences)} tensors of "
        f"{compared.inputs} inputs,{drawn} {compared.elements:,} elements: "
        + (f"{len(different)} tensors differ" if different else "every bit is the same"),
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if different:
        raise click.exceptions.Exit(1)


def _name(oracle: str) -> str:
    """Return what an oracle is, with the version of its library."""
    if oracle not in ORACLES:
        return f"the device {oracle}"
    package = "onnxruntime" if oracle == "ort" else "ai-edge-litert"
    return f"{oracle} ({package} {version(package)})"


def _device(model: Model, name: str) -> Oracle:
    """Make an oracle of a device that stores every tensor."""
    runner = Runner(model, name, tensors=True)
    return lambda inputs: dict(runner.run(inputs).tensors)


def _narrow(differences: list[TensorDifference]) -> str:
    parts = (
        f"{each.left_out:,} of {each.elements + each.left_out:,} elements of {each.node}"
        for each in differences
    )
    return f"Not computed, as no result needs these channels: {', '.join(parts)}"


def _table(differences: Sequence[TensorDifference]) -> Table:
    table = Table(box=box.SIMPLE, title="tensors that differ")
    table.add_column("node")
    table.add_column("tensor")
    for column in ("different", "of", "largest"):
        table.add_column(column, justify="right", no_wrap=True)
    for difference in differences:
        table.add_row(
            NameCell(difference.node),
            NameCell(difference.name),
            f"{difference.different:,}",
            f"{difference.elements:,}",
            f"{difference.largest:g}",
        )
    return table
