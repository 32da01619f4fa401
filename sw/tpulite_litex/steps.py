"""Steps of a build: commands with their output in a file, and what they need of the machine."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from tpulite.needs import missing_for_systems
from tpulite_verilated.toolchain import require_tools, verilator_environment

__all__ = ["check_machine", "environment", "run_step"]

_LAST_LINES = 20


def check_machine() -> None:
    """Check that everything that a build runs is installed.

    Raises
    ------
    ValueError
        If not, with what to type.
    """
    if missing := missing_for_systems():
        names = ", ".join(name for need in missing for name in need.missing)
        how = "; ".join(dict.fromkeys(need.remedy for need in missing))
        raise ValueError(f"The LiteX system needs {names}: {how}")
    require_tools()


def environment() -> dict[str, str]:
    """Return the variables under which LiteX finds meson, ninja and Verilator."""
    mine = verilator_environment()
    scripts = sysconfig.get_path("scripts")
    return os.environ | mine | {"PATH": os.pathsep.join([scripts, mine["PATH"]])}


def run_step(what: str, command: Iterable[str | Path], folder: Path, log: Path) -> None:
    """Say what is done, and do it.

    Parameters
    ----------
    what : str
        The step in words.
    command : iterable of str or Path
        Program and arguments.
    folder : Path
        Where it runs.
    log : Path
        Gets all output.

    Raises
    ------
    RuntimeError
        If it fails, with the end of its output.
    """
    words = list(map(str, command))
    print(f"{what} ...", file=sys.stderr, flush=True)
    with log.open("w") as output:
        done = subprocess.run(
            words, cwd=folder, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        raise RuntimeError(f"{what}: {Path(words[0]).name} failed, {log} has all of it\n{tail}")
