"""The command ``doctor``: everything that is missing, at once, with what to type."""

from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tpulite.cache import cache_home
from tpulite.cli.common import is_stdout, json_option, save_json
from tpulite.cli.help import command
from tpulite.near import no_such
from tpulite.needs import Need, machine_needs

__all__ = ["doctor"]


@command()
@click.argument("parts", nargs=-1)
@json_option
def doctor(parts: tuple[str, ...], json_path: Path | None) -> None:
    """Show what is there of all that tpulite can use, and what to type for the rest.

    PARTS are extras (rtl, onnx, litert...) or programs that must be there: the exit code is 1 if
    one of them is missing.
    """
    needs = {_short(need): need for need in machine_needs()}
    if unknown := [part for part in parts if part not in needs]:
        raise ValueError(no_such("part of tpulite", unknown[0], needs))
    save_json(json_path, [asdict(need) for need in needs.values()])
    if not is_stdout(json_path):
        console = Console()
        console.print(_table(list(needs.values())))
        for need in needs.values():
            if need.missing:
                text = f"{', '.join(need.missing)} missing: {need.remedy}"
                console.print(text, highlight=False, markup=False, soft_wrap=True)
        text = f"files that can be made again are in {cache_home()} (TPULITE_CACHE)"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if any(needs[part].missing for part in ("tpulite", *parts)):
        raise click.exceptions.Exit(1)


def _short(need: Need) -> str:
    """Return the extra, or the program."""
    return need.name.removeprefix("tpulite[").rstrip("]").partition(" ")[0]


def _table(needs: list[Need]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("")
    table.add_column("for")
    table.add_column("found")
    for need in needs:
        mark = "[yellow]missing[/]" if need.missing else "[green]ok[/]"
        table.add_row(escape(_short(need)), mark, need.purpose, escape(need.found))
    return table
