"""The command ``profile``: what each layer of a network costs, and what holds it up."""

from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.common import (
    MODEL,
    csv_option,
    cycle_source_option,
    host_ms_option,
    is_stdout,
    json_option,
    mhz_option,
    save_csv,
    save_json,
    say,
    seed_option,
)
from tpulite.cli.compiling import compile_model
from tpulite.cli.help import command
from tpulite.cli.options import Choices, compiler_options
from tpulite.cli.paths import NETWORK
from tpulite.cli.program import refuse_networks_options
from tpulite.cli.reading import Reading, plan_options
from tpulite.cli.views import Views, view_options
from tpulite.frontend.files import network_name
from tpulite.program import Program, is_program_file
from tpulite.report.advice import advise, advise_slowest
from tpulite.report.profile import Profile, profile_model, profile_run
from tpulite.report.speed import Speed
from tpulite.report.spending import activity_line
from tpulite.report.traced_run import CYCLE_MODEL, trace_program
from tpulite.report.traffic import memory_lines


@command(first=("--device", "--config", "--mhz", "--html", "--trace", "--json"))
@click.argument("network", type=NETWORK)
@cycle_source_option
@mhz_option
@host_ms_option
@seed_option
@plan_options
@compiler_options
@view_options
@json_option
@csv_option
def profile(  # noqa: PLR0913 - options of the command
    network: Path,
    device: str,
    mhz: float | None,
    host_ms: float | None,
    seed: int,
    reading: Reading,
    choices: Choices,
    views: Views,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Show the cycles of each layer, what they are spent on, and what would help.

    NETWORK is a file (.tflite, .onnx, .npz, .tpulite, or a program written by bind) or the name of
    a zoo network.
    """
    if is_stdout(json_path) and is_stdout(csv_path):
        raise click.UsageError("--json - and --csv - cannot be used together.")
    device = CYCLE_MODEL if device == MODEL else device
    if is_program_file(network):
        refuse_networks_options(network, reading, choices, {"--host-ms": host_ms})
        run = trace_program(choices.beside(Program.load(network)), device, seed=seed)
        result = profile_run(network_name(network), run, device)
        speed = Speed(result.cycles, result.batch, mhz)
        views.save_program(result, speed)
    else:
        model = compile_model(reading.model(network, choices), cache=choices.cache)
        result = profile_model(model, device, seed=seed)
        speed = Speed(result.cycles, result.batch, mhz, model.cpu_share, host_ms)
        views.save(model, result, mhz, host_ms)
    if csv_path is not None:
        save_csv(csv_path, [layer.as_dict() for layer in result.layers])
    slowest = [{"name": x.name, "advice": advise(x, result)} for x in result.slowest]
    save_json(json_path, result.as_dict() | speed.as_dict() | {"slowest": slowest})
    if not is_stdout(json_path) and not is_stdout(csv_path):
        _print(Console(), result, speed)


def _print(console: Console, profile: Profile, speed: Speed) -> None:
    console.print(profile)
    for sentence in advise_slowest(profile):
        console.print(sentence, highlight=False, markup=False)
    if not profile.runs:
        console.print("all operators run on the CPU: there are no cycles to show")
        return
    console.print(activity_line(profile.activity), highlight=False)
    for line in memory_lines(profile.programs):
        say(console, line)
    say(console, f"{profile.counted_by}: {speed.line()}")
