"""The command ``compile``: from a network's file to a file that runs."""

from pathlib import Path

import click

from tpulite.atomic import write_whole
from tpulite.cli.common import compile_model, config_option, load_model, plan_options
from tpulite.cli.info import summary
from tpulite.cli.paths import NETWORK, OUTPUT
from tpulite.compiler import ORDERS, compile_network
from tpulite.configs import named_config
from tpulite.graph.network import Network
from tpulite.runtime.model_file import save_model

__all__ = ["compile_file"]

_BATCH = 16
_DENSE_SUFFIX = ".npz"
_COMPILED_SUFFIX = ".tpulite"


@click.command("compile")
@click.argument("network", type=NETWORK)
@click.option("-o", "--output", type=OUTPUT, help="By default MODEL.tpulite, in this folder.")
@config_option
@plan_options
@click.option("--batch", type=int, help=f"Of a .npz network: vectors of a run.  [{_BATCH}]")
@click.option("--order", type=click.Choice(ORDERS), help="Of a .npz network: of its products.")
def compile_file(
    network: Path,
    output: Path | None,
    config_name: str,
    exact: str | None,
    host_fallback: bool,
    calibration: Path | None,
    batch: int | None,
    order: str | None,
) -> None:
    """Compile a network (.tflite, .onnx, or our own .npz) to a file that runs.

    A .npz network becomes a bare program; the others bring along what the host computes.
    """
    config = named_config(config_name)
    if output is not None and output.resolve() == network.resolve():
        raise click.UsageError(f"{output} is the network itself.")
    if network.suffix == _DENSE_SUFFIX:
        if output is None:
            raise click.UsageError("Missing option '-o' / '--output'.")
        if exact or host_fallback or calibration:
            raise click.UsageError("A .npz network is quantized, and no part of it is the host's.")
        program = compile_network(
            Network.load(network), config, batch=_BATCH if batch is None else batch,
            order=order or "fast",
        )  # fmt: skip
        write_whole(output, program.save)
        click.echo(f"{output}: {summary(program)}")
        return
    if batch is not None or order is not None:
        raise click.UsageError("--batch and --order are for .npz networks.")
    output = output or Path(network.name).with_suffix(_COMPILED_SUFFIX)
    model = compile_model(load_model(network, exact, host_fallback, calibration, config))
    write_whole(output, lambda path: save_model(model, path))
    click.echo(f"{output}: {'; '.join(summary(program) for program in model.programs)}")
    click.echo(model.statement())
