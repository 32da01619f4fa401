"""The command ``doctor``: what works on this machine, and what to type for the rest."""

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from tpulite.cache import cache_home
from tpulite.cli.common import is_stdout, json_option, save_json, say
from tpulite.cli.help import command
from tpulite.near import no_such
from tpulite.needs import Need, Use, find_uses, machine_needs

_FIRST = "tpulite run cnn_digits --input digits --limit 1"
"""A first command: network and inputs come with the package."""

_RTL = "--device rtl"


@command()
@click.argument("parts", nargs=-1)
@json_option
def doctor(parts: tuple[str, ...], json_path: Path | None) -> None:
    """Show what is installed, and what to type to install the rest.

    PARTS are extras (rtl, onnx, litert...) or programs to check for: the exit code is 1 if
    one of them is missing.
    """
    needs = {need.part: need for need in machine_needs()}
    if unknown := [part for part in parts if part not in needs]:
        raise ValueError(no_such("part of tpulite", unknown[0], needs))
    save_json(json_path, [asdict(need) for need in needs.values()])
    if not is_stdout(json_path):
        _print(Console(), list(needs.values()))
    if any(needs[part].missing for part in ("tpulite", *parts)):
        raise click.exceptions.Exit(1)


def _print(console: Console, needs: list[Need]) -> None:
    uses = find_uses(needs)
    for use in uses:
        mark = "[yellow]missing[/]" if use.missing else "[green]ready  [/]"
        console.print(f"{mark}  {escape(use.command)}", highlight=False, soft_wrap=True)
        for remedy in use.remedies:
            console.print(f"           {remedy}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"\nnext: {_next(uses)}\n", highlight=False, markup=False, soft_wrap=True)
    for need in needs:
        lacking = f"missing {', '.join(need.missing)}" if need.missing else ""
        text = f"{need.part}: {'; '.join(filter(None, (lacking, need.found)))}"
        say(console, text)
    say(console, f"cache: {cache_home()} (TPULITE_CACHE names another folder)")


def _next(uses: tuple[Use, ...]) -> str:
    """Return a command that works here, on the simulated chip if it can be built."""
    if uses[0].missing:
        return "; ".join(uses[0].remedies)
    chip = next(use for use in uses if use.command.endswith(_RTL))
    return _FIRST if chip.missing else f"{_FIRST} {_RTL}"
