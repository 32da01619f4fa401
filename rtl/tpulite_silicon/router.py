"""nextpnr while it routes: how many wires are contested or slow, and when it is given up.

router2 lets nets share wires, and raises the price of a wire from round to round for as long as
nets contest it. Of a placement that is too dense some stay contested for ever. With a frequency to
reach it rips connections up that are too slow for it as well; if it is too high, some always are.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

__all__ = ["PATIENCE", "UnroutedError", "contested", "run_router", "shown"]

PATIENCE = 100
"""Rounds without fewer contested or slow wires after which a placement is given up. The longest
such spell of fourteen placements that were routed had 51."""

_MANY, _GROWN = 1000, 1.5
"""As long as there were never fewer than so many, a placement is given up when they have grown so
much: those that were routed grew by 11 % at most, others by 40 to 150 % until they were stopped."""

_ROUND = re.compile(r"iter=\d+ wires=\d+ overused=(\d+) overuse=\d+(?: tmgfail=(\d+))?")
_LOOK_SECONDS = 1


class UnroutedError(Exception):
    """A placement is not routed.

    Attributes
    ----------
    rounds : int
        Rounds of the router.
    least : int
        Wires that were contested or slow after the best of them.
    """

    def __init__(self, rounds: int, least: int) -> None:
        super().__init__(
            f"not routed: {least:,} contested or slow wires at best, in {rounds} rounds"
        )
        self.rounds = rounds
        self.least = least


def contested(log: str) -> list[int]:
    """Return how many wires were contested or slow after each round, by nextpnr's log so far."""
    return [int(wires) + int(slow or 0) for wires, slow in _ROUND.findall(log)]


@contextmanager
def shown(console: Console, title: str) -> Iterator[Callable[[list[int]], None]]:
    """Show a line with the state of a placement, and yield what `run_router` may tell it to.

    Without a terminal it only says what begins.
    """
    if not console.is_terminal:
        console.print(f"{title}: place and route (minutes) ...")
    with console.status(f"{title}: placing") as status:

        def tell(rounds: list[int]) -> None:
            if rounds:
                state = f"{rounds[-1]:,} contested or slow wires, round {len(rounds)}"
                status.update(f"{title}: {state}")

        yield tell


def run_router(
    command: list[str],
    folder: Path,
    tell: Callable[[list[int]], None] = lambda _rounds: None,
    log: str = "nextpnr.log",
    patience: int = PATIENCE,
) -> None:
    """Run nextpnr in a folder.

    Parameters
    ----------
    command : list of str
        A program of a wheel; WebAssembly sees only what lies below the folder.
    folder : Path
    tell : callable
        Is called with `contested` about once a second.
    log : str
        The file that it writes there.
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
    written, errors = folder / log, folder / "errors.txt"
    written.unlink(missing_ok=True)  # of an earlier run
    words = [program, *command[1:], "-q", "-l", log]
    with (
        errors.open("w") as said,
        subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=said) as process,
    ):
        ended = False
        while not ended:
            time.sleep(_LOOK_SECONDS)
            ended = process.poll() is not None  # before a last look at the log
            rounds = contested(written.read_text()) if written.exists() else []
            tell(rounds)
            best = min(rounds, default=0)
            stays = best and len(rounds) - rounds.index(best) > patience
            if stays or (best > _MANY and rounds[-1] > _GROWN * best):
                process.kill()
                raise UnroutedError(len(rounds), best)
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed in {folder}:\n{errors.read_text()[-2000:]}")
