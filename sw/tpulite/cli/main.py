"""The commands, and what becomes of their errors."""

import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click

__all__ = ["commands", "main"]

_COMMANDS = {
    "inspect": ("inspect", "Where each operator of a network runs, and why."),
    "compile": ("compile:compile_file", "Compile a network to a file that runs."),
    "profile": ("profile", "Cycles of each layer, and what would help."),
    "explore": ("explore", "Which machine for my networks: many, compared."),
    "run": ("run", "Run a network: results, accuracy, cycles."),
    "evaluate": ("evaluate", "Accuracy on a data set, and what is mistaken."),
    "regress": ("regress", "Check this version at random, by seeds."),
    "export": ("export", "Write C that runs a network, or weights for a BM1684X."),
    "compare": ("compare", "Compare every bit with a library, or with the RTL."),
    "quantize": ("quantize", "A network of floats becomes int8; what that costs."),
    "zoo": ("zoo", "Networks by name: our own, and others'."),
    "bind": ("bind:bind_file", "Compile once for a range of shapes."),
    "gemm": ("gemm", "A matrix product, in panels and on the machine."),
    "bench": ("bench", "Run workloads beside figures of other machines."),
    "verilog": ("verilog", "Write the chip for other tools: Verilog, SDC, LPF."),
    "info": ("info", "What a compiled file holds; configurations and devices."),
    "disasm": ("info:disasm", "The commands of a program, one a line."),
    "doctor": ("doctor", "What is missing on this machine, and what to type."),
    "cache": ("cache", "What is kept to be used again; clear it."),
}
"""Module and function of each command, and its line of help: a module is imported only if its
command runs, so that help comes at once."""


class _Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        return getattr(import_module(f"tpulite.cli.{module}"), name or module)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


def main() -> None:
    """Run the command line; bad input gives one line on stderr and exit code 2."""
    try:
        sys.exit(commands(standalone_mode=False, prog_name="tpulite"))
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("tpulite: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _fail(error.format_message())
    except MemoryError:
        _fail("There is not enough memory")
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {error.strerror}" if named else str(error))
    except (ValueError, RuntimeError) as error:
        _fail(str(error))
    except AssertionError as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        _fail(f"This is a fault of tpulite ({where}), please report it: {error}")


def _fail(message: str) -> None:
    click.echo(f"tpulite: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(cls=_Commands, invoke_without_command=True)
@click.version_option(version("tpulite"))
@click.pass_context
def commands(context: click.Context) -> None:
    """Compile networks for the tpulite machine, run them, and count the cycles."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
