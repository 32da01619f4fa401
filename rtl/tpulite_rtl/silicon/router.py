"""nextpnr while it routes: how many wires are contested, and when a placement is given up.

router2 lets nets share wires, and raises the price of a wire from round to round for as long as
nets contest it. Of a placement that is too dense some stay contested for ever.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["PATIENCE", "UnroutedError", "contested", "run_router"]

PATIENCE = 60
"""Rounds without fewer contested wires after which a placement is given up. The longest such spell
of six placements that were routed had 26."""

_LOG = "nextpnr.log"
_ROUND = re.compile(r"iter=\d+ wires=\d+ overused=(\d+)")
_LOOK_SECONDS = 1


class UnroutedError(Exception):
    """A placement is not routed.

    Attributes
    ----------
    rounds : int
        Rounds of the router.
    least : int
        Wires that were contested after the best of them.
    """

    def __init__(self, rounds: int, least: int) -> None:
        super().__init__(f"not routed: {least:,} contested wires at best, in {rounds} rounds")
        self.rounds = rounds
        self.least = least


def contested(log: str) -> list[int]:
    """Return how many wires were contested after each round, by nextpnr's log so far."""
    return [int(wires) for wires in _ROUND.findall(log)]


def run_router(
    command: list[str], folder: Path, tell: Callable[[list[int]], None], patience: int = PATIENCE
) -> None:
    """Run nextpnr in a folder, where it writes ``nextpnr.log``.

    Parameters
    ----------
    command : list of str
        A program of a wheel; WebAssembly sees only what lies below the folder.
    folder : Path
    tell : callable
        Is called with `contested` about once a second.
    patience : int
        See `PATIENCE`.

    Raises
    ------
    UnroutedError
        If it is given up.
    RuntimeError
        If it fails, with the end of what it says.
    """
    program = Path(sys.executable).with_name(command[0])
    log, errors = folder / _LOG, folder / "errors.txt"
    with (
        errors.open("w") as said,
        subprocess.Popen(
            [program, *command[1:]], cwd=folder, stdout=subprocess.DEVNULL, stderr=said
        ) as process,
    ):
        ended = False
        while not ended:
            time.sleep(_LOOK_SECONDS)
            ended = process.poll() is not None  # before a last look at the log
            rounds = contested(log.read_text()) if log.exists() else []
            tell(rounds)
            best = min(rounds, default=0)
            if best and len(rounds) - rounds.index(best) > patience:
                process.kill()
                raise UnroutedError(len(rounds), best)
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed in {folder}:\n{errors.read_text()[-2000:]}")
