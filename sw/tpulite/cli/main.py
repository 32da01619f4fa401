"""The commands, and what becomes of their errors."""

import gc
import shutil
import sys
import traceback
from importlib import import_module
from pathlib import Path

import click

from tpulite.cli.help import Group, wrap
from tpulite.collector import collector_paused

_SECTIONS = {
    "Your network": {
        "inspect": ("inspect", "List operators: shapes, MACs, where each runs and why."),
        "quantize": ("quantize", "Quantize a float network to int8; show the loss."),
        "compile": ("compile:compile_file", "Compile a network to a .tpulite file."),
        "run": ("run", "Run a network: outputs, accuracy, cycles."),
        "profile": ("profile", "Show cycles per layer, bottlenecks, and advice."),
        "chat": ("chat", "Run a language model (.gguf, .safetensors)."),
        "search": ("search", "Search text files by meaning."),
    },
    "Correctness": {
        "evaluate": ("evaluate", "Measure accuracy on a data set, with a confusion matrix."),
        "compare": ("compare", "Compare every bit with LiteRT, ONNX Runtime or the RTL."),
        "check": ("check", "Compare cycles and accuracy with a baseline, for CI."),
    },
    "Deployment": {
        "explore": ("explore", "Compare machine configurations on your networks."),
        "export": ("export", "Write C sources for firmware, or weights for a BM1684X."),
        "verilog": ("verilog", "Write the chip as Verilog, with SDC and LPF constraints."),
    },
    "Details": {
        "info": ("info", "Describe a compiled file; list configurations and devices."),
        "disasm": ("info:disasm", "Print the commands of a compiled network."),
        "bind": ("bind:bind_file", "Compile once for a range of input shapes."),
        "gemm": ("gemm", "Multiply random matrices; show panels, tiles and cycles."),
        "bench": ("bench", "Run the benchmarks, compared with other accelerators."),
        "regress": ("regress", "Test tpulite itself on random networks."),
    },
    "Setup": {
        "doctor": ("doctor", "Show what is missing, and how to install it."),
        "zoo": ("zoo", "List and fetch networks by name."),
        "cache": ("cache", "Show or clear the cache."),
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
        with collector_paused():
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
        _fail("out of memory")
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {error.strerror}" if named else str(error))
    except (ValueError, RuntimeError) as error:
        _fail(str(error))
    except AssertionError as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        _fail(f"internal error ({where}), please report it: {error}")
    finally:
        gc.freeze()  # the process ends: nobody needs a last look for cycles


def _said(error: click.ClickException) -> str:
    """Return the message of an error; it begins with the option or argument that is wrong."""
    if not isinstance(error, click.BadParameter) or error.param is None:
        return error.format_message()
    param = error.param
    name = max(param.opts, key=len)
    if isinstance(param, click.Argument):
        name = (param.metavar or (param.name or "").upper()).removesuffix("...")
        name = name[1:-1] if name.startswith("[") else name
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
@click.version_option(package_name="tpulite")
@click.pass_context
def commands(context: click.Context) -> None:
    """Compile neural networks for the tpulite NPU, run them, and count the cycles."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
