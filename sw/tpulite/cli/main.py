"""The commands, and what becomes of their errors."""

import shutil
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click

from tpulite.cli.help import Group, wrap

__all__ = ["COMMANDS", "commands", "main"]

_SECTIONS = {
    "Your network": {
        "inspect": ("inspect", "Where each operator of a network runs, and why."),
        "quantize": ("quantize", "A network of floats becomes int8; what that costs."),
        "compile": ("compile:compile_file", "Compile a network to a file that runs."),
        "run": ("run", "Run a network: results, accuracy, cycles."),
        "profile": ("profile", "Cycles of each layer, and what would help."),
    },
    "How right it is": {
        "evaluate": ("evaluate", "Accuracy on a data set, and what is mistaken."),
        "compare": ("compare", "Compare every bit with a library, or with the RTL."),
        "check": ("check", "Compare cycles and accuracy with a baseline, for CI."),
    },
    "Into hardware": {
        "explore": ("explore", "Which machine for my networks: many, compared."),
        "export": ("export", "Write C that runs a network, or weights for a BM1684X."),
        "verilog": ("verilog", "Write the chip for other tools: Verilog, SDC, LPF."),
    },
    "Look closer": {
        "info": ("info", "What a compiled file holds; configurations and devices."),
        "disasm": ("info:disasm", "The commands of a program, one a line."),
        "bind": ("bind:bind_file", "Compile once for a range of shapes."),
        "gemm": ("gemm", "A matrix product, in panels and on the machine."),
        "bench": ("bench", "Run workloads beside figures of other machines."),
        "regress": ("regress", "Check this version at random, by seeds."),
    },
    "Set up": {
        "doctor": ("doctor", "What is missing on this machine, and what to type."),
        "zoo": ("zoo", "Networks by name: our own, and others'."),
        "cache": ("cache", "What is kept to be used again; clear it."),
    },
}
"""The commands in the order of a user's work: module and function of each, and its line of help.
A module is imported only if its command runs, so that help comes at once."""

COMMANDS = {name: each for section in _SECTIONS.values() for name, each in section.items()}
"""All commands, by name."""


class _Commands(Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return getattr(import_module(f"tpulite.cli.{module}"), name or module)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{x:{width}}", text) for x, (_, text) in section.items()])


def main() -> None:
    """Run the command line; bad input gives one line on stderr and exit code 2."""
    try:
        sys.exit(commands(standalone_mode=False, prog_name="tpulite"))
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("tpulite: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _fail(_said(error))
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


def _said(error: click.ClickException) -> str:
    """Return the message of an error; it begins with the option or argument that is wrong."""
    if not isinstance(error, click.BadParameter) or error.param is None:
        return error.format_message()
    param = error.param
    name = max(param.opts, key=len)
    if isinstance(param, click.Argument):
        name = param.metavar or (param.name or "").upper()
    if not isinstance(error, click.MissingParameter):
        return f"{name}: {error.message}"
    path = "tpulite" if error.ctx is None else error.ctx.command_path
    return f"{name} is missing: {error.message or f'see {path} --help'}"


def _fail(message: str) -> None:
    """Print a message, a line of a file or broken at spaces by a terminal, and exit."""
    text = f"tpulite: {' '.join(message.split())}"
    if sys.stderr.isatty():
        text = wrap(text, shutil.get_terminal_size().columns)
    click.echo(text, err=True)
    sys.exit(2)


@click.group(cls=_Commands, invoke_without_command=True)
@click.version_option(version("tpulite"))
@click.pass_context
def commands(context: click.Context) -> None:
    """Compile networks for the tpulite machine, run them, and count the cycles."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
