"""The command ``compile``: from a network's file to a file that runs."""

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from tpulite.atomic import write_whole
from tpulite.cli.common import config_option, json_option, load_model, plan_options, save_json
from tpulite.cli.compiling import compile_model, report_model
from tpulite.cli.dumps import Dumps, dump_options
from tpulite.cli.info import summary
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK, OUTPUT
from tpulite.compiler import compile_layers
from tpulite.configs import named_config
from tpulite.graph.network import Network
from tpulite.report import compilation_table
from tpulite.runtime.model_file import save_model

__all__ = ["compile_file"]

_BATCH = 16
_DENSE_SUFFIX = ".npz"
_COMPILED_SUFFIX = ".tpulite"


@click.command("compile")
@click.argument("network", type=NETWORK)
@click.option("-o", "--output", type=OUTPUT, help="By default NETWORK.tpulite, in this folder.")
@config_option
@plan_options
@compiler_options
@click.option("--report", is_flag=True, help="Predict cycles, with and without layer groups.")
@dump_options
@json_option
def compile_file(
    network: Path,
    output: Path | None,
    config_name: str,
    exact: str | None,
    host_fallback: bool,
    calibration: Path | None,
    choices: Choices,
    report: bool,
    dump: str | None,
    dump_dir: Path | None,
    json_path: Path | None,
) -> None:
    """Compile a network (.tflite, .onnx, or our own .npz) to a file that runs.

    A .npz network becomes a bare program; the others bring along what the host computes.
    """
    config = named_config(config_name)
    dumps = Dumps(dump, dump_dir)
    if output is None and network.suffix != _DENSE_SUFFIX:
        output = Path(network.name).with_suffix(_COMPILED_SUFFIX)
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    if output.resolve() == network.resolve():
        raise click.UsageError(f"{output} is the network itself.")
    if network.suffix == _DENSE_SUFFIX:
        if exact or host_fallback or calibration:
            raise click.UsageError("A .npz network is quantized, and no part of it is the host's.")
        if report or dumps.stages or json_path is not None:
            raise click.UsageError("--report, --dump and --json are for networks of other kinds.")
        if choices.options().resident:
            raise click.UsageError("--resident needs a .tflite or .onnx network.")
        layers = Network.load(network).graph(_BATCH if choices.batch is None else choices.batch)
        program = compile_layers(layers, config, replace(choices.options(), batch=1))
        write_whole(output, program.save)
        click.echo(f"{output}: {summary(program)}")
        return
    plan = load_model(network, exact, host_fallback, calibration, config, choices)
    if plan.options.resident and dumps.stages:
        raise click.UsageError("--dump cannot be used with --resident.")
    if plan.compiled and dumps.stages:
        raise click.UsageError(f"--dump cannot be used: {network} is compiled.")
    model = compile_model(plan, cache=choices.cache, dump=dumps if dumps.stages else None)
    texts = dumps.texts(model)
    reports = report_model(model, full=report, cache=choices.cache)

    write_whole(output, lambda path: save_model(model, path))
    save_json(json_path, {name: each.as_dict() for name, each in reports.items()})
    dumps.write(texts)
    click.echo(f"{output}: {'; '.join(summary(program) for program in model.programs)}")
    if report:
        Console().print(compilation_table(reports, title=model.graph.name))
    else:
        for each in reports.values():
            click.echo(each.line())
    click.echo(model.statement())
