"""``python -m tpulite_litex.boot BOARD PORT``: networks on a board, over its serial line."""

import subprocess
import sys
from pathlib import Path

import click

from tpulite_litex.bitstream import board_folder
from tpulite_litex.boards import BOARDS
from tpulite_litex.compiled import compile_firmware
from tpulite_litex.exports import exported
from tpulite_litex.steps import check_machine

__all__ = ["board_firmware", "main"]


@click.command()
@click.argument("board", type=click.Choice([name for name in BOARDS if BOARDS[name].target]))
@click.argument("port", type=Path)
@click.argument("networks", nargs=-1)
@click.option("--config", help="Configuration of the chip.  [the board's]")
def main(board: str, port: Path, networks: tuple[str, ...], config: str | None) -> None:
    """Compile firmware for NETWORKS and give it to the BIOS of BOARD at PORT, by litex_term.

    Each network is `mlp`, the digits, or what `tpulite export` takes. What the board says is shown
    until Ctrl-C is pressed twice.
    """
    try:
        binary = board_firmware(board, config or BOARDS[board].config, networks)
        if not port.exists():
            raise ValueError(f"{port} is no serial line of this machine")
        terminal = Path(sys.executable).with_name("litex_term")
        words = [terminal, "--serial-boot", "--kernel", binary, port]
        code = subprocess.run(words).returncode
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(code)


def board_firmware(board: str, config: str, networks: tuple[str, ...]) -> Path:
    """Return firmware that runs the self-tests of networks on a board.

    Raises
    ------
    ValueError
        If the board's system has not been made.
    """
    folder = board_folder(board, config)
    if not (folder / "software" / "include" / "generated" / "variables.mak").is_file():
        raise ValueError(f"{folder} holds no system: make bitstream BOARD={board} CONFIG={config}")
    check_machine()
    return compile_firmware(folder, exported(networks, config, folder), {"MAIN": "selftests"})


if __name__ == "__main__":
    main()
