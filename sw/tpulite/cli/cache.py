"""The command ``cache``: programs that were compiled before."""

import click

from tpulite.runtime.compile_cache import ProgramCache

__all__ = ["cache"]


@click.command()
@click.option("--clear", is_flag=True, help="Remove them.")
def cache(clear: bool) -> None:
    """Say where compiled programs are kept, how many there are, and how large they are."""
    programs = ProgramCache.default()
    if clear:
        click.echo(f"{programs.folder}: {programs.clear()} programs removed")
        return
    sizes = [path.stat().st_size for path in programs.entries()]
    click.echo(f"{programs.folder}: {len(sizes)} programs, {sum(sizes):,} bytes")
