"""The command ``cache``: everything that can be fetched or made again."""

import click

from tpulite.cache import PARTS, CachePart, cache_home
from tpulite.cli.help import Choice, command, option

__all__ = ["cache"]


@command()
@click.argument("parts", nargs=-1, type=Choice([*PARTS]), metavar="[PART]...")
@option("--clear", is_flag=True, help="Remove them.")
def cache(parts: tuple[str, ...], clear: bool) -> None:
    """Say what is kept that can be fetched or made again, and how large it is.

    Each PART of it is counted, or removed; by default all.
    """
    measured = [CachePart.measure(name) for name in parts or PARTS]
    found = [part for part in measured if part.files]
    click.echo(f"{cache_home()}:{'' if found else ' nothing'}")
    for part in found:
        if clear:
            part.clear()
        files = f"{part.files:,} file{'s' * (part.files != 1)}"
        removed = " removed" if clear else ""
        text = f"{files}, {part.size:,} bytes{removed}"
        click.echo(f"  {part.name:<14} {text:<36} {PARTS[part.name]}")
