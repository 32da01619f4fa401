"""The command ``export``: a network as C sources and binary files for firmware."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.bind_program import range_program
from tpulite.cli.common import (
    is_stdout,
    json_option,
    progress_bar,
    refuse_given,
    save_json,
    say,
    seed_option,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.help import Topic, command, option
from tpulite.cli.inputs import InputReader
from tpulite.cli.layout import LayoutChoices, layout_options
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import DATA, FOLDER, NETWORK
from tpulite.cli.reading import Reading, answer_options
from tpulite.export import (
    Sizes,
    check_exportable,
    export_files,
    export_network,
    reference_runs,
)
from tpulite.export.c_text import identifier
from tpulite.export.files import MAIN
from tpulite.export.ranges import ExportedRange, export_range
from tpulite.frontend.files import network_name
from tpulite.runtime.host.libraries import library_name
from tpulite.runtime.inputs import random_inputs

limits_option = option(
    "--shapes",
    "limits",
    group=Topic.NETWORK,
    metavar="RANGE",
    help="Write C that binds one layer to a range of shapes: batch=1..8,height=1..64,width=1..64.",
)

_USED = (
    *("network", "output", "name", "limits", "json_path", "inputs", "outputs", "shapes", "dims"),
    *("states", "exact", "calibration", "strict", "config_name"),
)
"""Parameters of the command that mean something with a range."""


def report_files(
    sizes: Sizes | ExportedRange,
    title: str,
    files: Sequence[Path],
    use: str,
    json_path: Path | None,
) -> Console:
    """Print sizes and which files were written, all in one folder, and what uses them.

    The record goes to ``json_path``. The console that is returned is silent if that is stdout.
    """
    save_json(json_path, sizes.as_dict() | {"files": [str(file) for file in files]})
    console, folder = Console(quiet=is_stdout(json_path)), files[0].parent
    console.print(sizes.table(title))
    say(console, f"{folder}: {len(files)} files; {use}")
    if folder / MAIN not in files:
        say(console, f"{folder / MAIN}: kept, it was edited; delete it to get a new one")
    return console


def export_shapes(
    network: Path,
    reading: Reading,
    limits: str,
    output: Path,
    *,
    name: str | None,
    json_path: Path | None,
) -> None:
    """Compile a network for a range of shapes, write the folder, and print sizes.

    UsageError if an option was given that is for one shape; ValueError if it is no network, or C
    cannot bind a layer of it.
    """
    names = [param.name for param in click.get_current_context().command.params if param.name]
    others = tuple(each for each in names if each not in _USED)
    refuse_given(others, "with --shapes")
    exported = export_range(range_program(network, reading, limits, ()))
    called = identifier(name or network_name(network))
    files = exported.files(called, output)
    title = f"{called}: maximum over all shapes, in bytes"
    use = f"{called}_bind() of {called}.h binds it to a shape"
    report_files(exported, title, files, use, json_path)


@command(first=("--output", "--input", "--name", "--config", "--shapes", "--layout"))
@click.argument("network", type=NETWORK)
@option(
    "-o", "--output", group=Topic.OUTPUT, type=FOLDER, required=True, help="Folder for the files."
)
@option("--name", group=Topic.OUTPUT, help="C name of the network.  [default: its file's name]")
@option(
    "--input",
    "source",
    group=Topic.INPUT,
    type=DATA,
    help="Inputs of the self-test, as for run.  [default: random]",
)
@seed_option
@limits_option
@layout_options
@answer_options
@compiler_options
@json_option
def export(  # noqa: PLR0913 - options of the command
    network: Path,
    output: Path,
    name: str | None,
    source: Path | None,
    seed: int,
    limits: str | None,
    reading: Reading,
    choices: Choices,
    json_path: Path | None,
    layout: LayoutChoices | None,
) -> None:
    """Write C sources and binary files that run a network from firmware.

    The folder gets the driver, the network, a binary image for the chip, a self-test with
    reference inputs and outputs, and a main.c for memory-mapped registers.

    With --shapes it gets C code that binds a network of one layer (select it with --inputs and
    --outputs) to any shape of a range, on the target: it chooses the strategy, and writes the same
    commands and constants as bind. Its main.c takes a shape as argument: gcc -std=c99 -O2 *.c -o
    bind.

    With --layout bm1684x it gets the weights of every convolution, depthwise and dense layer
    instead, in the layout of a BM1684X: manifest.json, coefficients.bin and steps.npz, which
    tpulite.layouts.read reads back.
    """
    if layout is not None:
        layout.export(network, reading, output, json_path)
        return
    if limits is not None:
        export_shapes(network, reading, limits, output, name=name, json_path=json_path)
        return
    plan = reading.model(network, choices)
    portable = plan.without_library()
    check_exportable(portable)
    model = compile_model(portable, cache=choices.cache)
    exported = export_network(model)
    if source is None:
        inputs = random_inputs(model.graph, exported.batch, seed)
        tensors = model.graph.tensors
        inputs = {key: x.reshape(-1, *tensors[key].shape) for key, x in inputs.items()}
    else:
        inputs = InputReader(model.graph, model.exactness).read(source, exported.batch).values
    called = identifier(name or model.graph.name)
    with progress_bar() as progress:
        progress.add_task("computing the reference outputs", total=None)
        references = (
            reference_runs(model, inputs)
            if portable is plan
            else reference_runs(plan, inputs, model)
        )
    files = export_files(exported, references, called, output)
    title, use = f"{called}: memory in bytes", f"{called}_selftest() of {called}.h runs it"
    console = report_files(Sizes.of(exported), title, files, use, json_path)
    if not references.has_run(model.programs):
        library = library_name(model.graph.format, model.exactness)
        say(
            console,
            f"{output}: no self-test on a PC, as the CPU parts of this network are computed "
            f"by {library} as one; run {called}_selftest() on the chip",
        )
