"""The commands, and what becomes of their errors."""

import sys
import traceback
from importlib.metadata import version
from pathlib import Path

import click

from tpulite.cli.bench import bench
from tpulite.cli.bind import bind_file
from tpulite.cli.cache import cache
from tpulite.cli.compare import compare
from tpulite.cli.compile import compile_file
from tpulite.cli.info import disasm, info
from tpulite.cli.inspect import inspect
from tpulite.cli.run import run
from tpulite.cli.zoo import zoo

__all__ = ["main"]


def main() -> None:
    """Run the command line; bad input gives one line on stderr and exit code 2."""
    try:
        sys.exit(_commands(standalone_mode=False))
    except (click.exceptions.Abort, KeyboardInterrupt):
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


@click.group(no_args_is_help=False)
@click.version_option(version("tpulite"))
def _commands() -> None:
    """Compile networks for the tpulite machine, run them, and count the cycles."""


for _command in (inspect, compile_file, bind_file, run, compare, zoo, bench, info, disasm, cache):
    _commands.add_command(_command)
