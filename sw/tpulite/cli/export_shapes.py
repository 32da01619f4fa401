"""What ``export --shapes`` does: C that binds a network to shapes of a range."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.bind_program import range_program
from tpulite.cli.common import is_stdout, refuse_given, save_json, say
from tpulite.cli.help import Topic, option
from tpulite.cli.reading import Reading
from tpulite.export import Sizes
from tpulite.export.c_text import identifier
from tpulite.export.ranges import ExportedRange, export_range
from tpulite.export.written import MAIN
from tpulite.frontend.files import network_name

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
