"""The commands ``info`` and ``disasm``: what files hold."""

from importlib.metadata import version
from pathlib import Path

import click

from tpulite.arch.isa import disassemble
from tpulite.cli.common import PATH
from tpulite.configs import CONFIGS
from tpulite.graph.network import Network
from tpulite.program import Program
from tpulite.runtime.device import device_names

__all__ = ["disasm", "info", "summary"]


@click.command()
@click.argument("program", type=PATH)
def disasm(program: Path) -> None:
    """Print the commands of a program file, one a line."""
    for index, command in enumerate(Program.load(program).commands):
        click.echo(f"{index:5}  {disassemble(command)}")


@click.command()
@click.argument("file", type=PATH, required=False)
def info(file: Path | None) -> None:
    """Print what a network or program file holds; else the configurations and devices."""
    if file is not None:
        click.echo(Network.load(file).dump() if file.suffix == ".npz" else _details(file))
        return
    click.echo(f"tpulite {version('tpulite')}")
    for name, config in CONFIGS.items():
        click.echo(
            f"config {name}: {config.array_size}x{config.array_size} multipliers, "
            f"{config.ub_bytes // 1024} KiB unified buffer, hash {config.hash:#010x}"
        )
    click.echo(f"devices: {', '.join(device_names())}")


def summary(program: Program) -> str:
    """Return the size of a program."""
    return (
        f"{len(program.commands)} commands, {len(program.constants)} bytes of constants, "
        f"{program.macs:,} MACs"
    )


def _details(path: Path) -> str:
    program = Program.load(path)
    lines = [
        f"program for {program.config.array_size}x{program.config.array_size} multipliers, "
        f"hash {program.config.hash:#010x}: {summary(program)}"
    ]
    for what, specs in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"  {what} {x.name}: {x.dtype} {list(x.shape)}" for x in specs]
    lines += [f"  layer {x.name}: {x.m} x {x.k} x {x.n}" for x in program.layers]
    return "\n".join(lines)
