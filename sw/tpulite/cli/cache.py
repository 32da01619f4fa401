"""The command ``cache``: everything that can be fetched or made again."""

import click

from tpulite.cache import PARTS, CachePart, cache_home
from tpulite.cli.help import Choice, command, option
from tpulite.counted import counted


@command()
@click.argument("parts", nargs=-1, type=Choice([*PARTS]), metavar="[PART]...")
@option("--clear", is_flag=True, help="Remove the files.")
def cache(parts: tuple[str, ...], clear: bool) -> None:
    """Show or clear the cache: what can be computed or downloaded again.

    PART names parts of it; by default all.
    """
    measured = [CachePart.measure(name) for name in parts or PARTS]
    found = [part for part in measured if part.files]
    click.echo(f"{cache_home()}:{'' if found else ' empty'}")
    for part in found:
        if clear:
            part.clear()
        files = counted(part.files, "file")
        removed = " removed" if clear else ""
        text = f"{files}, {part.size:,} bytes{removed}"
        click.echo(f"  {part.name:<14} {text:<36} {PARTS[part.name]}")
