"""Run the commands of docs/recorded/commands.toml and keep what they print.

python scripts/recorded.py [--check] [NAME...]
"""

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/recorded"
WIDTH = 80
"""Columns of the terminal."""


@dataclass(frozen=True)
class Recorded:
    """A command and where its output is kept."""

    name: str  #: Name of the file, without its suffix.
    #: What a user types; it runs in a folder of its own, ``make``, examples and scripts in the
    #: repository.
    command: str
    quick: bool = False  #: Whether it takes a few seconds, so that the quick tests run it.
    #: Whether its output holds times or depends on the CPU, so that no test can compare it.
    timed: bool = False
    files: str = ""  #: Files of the repository that its folder has, with wildcards.

    @property
    def path(self) -> Path:
        """File of the output."""
        return FOLDER / f"{self.name}.txt"

    def run(self) -> str:
        """Return what the command prints in a terminal of :data:`WIDTH` columns.

        RuntimeError if it fails.
        """
        with tempfile.TemporaryDirectory() as folder:
            for file in ROOT.glob(self.files) if self.files else ():
                shutil.copy(file, folder)
            done = subprocess.run(
                self.command,
                shell=True,
                cwd=ROOT
                if self.command.startswith(("make ", "python examples/", "python scripts/"))
                else folder,
                env=terminal(),
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{self.command} ended with {done.returncode}:\n{done.stderr}")
        return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def terminal() -> dict[str, str]:
    """Return the environment of a command: :data:`WIDTH` columns, no color, this Python first."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "PATH": path}


def read_commands() -> dict[str, Recorded]:
    """Return the commands by name."""
    entries = tomllib.loads((FOLDER / "commands.toml").read_text())
    return {name: Recorded(name, **entry) for name, entry in entries.items()}


def main() -> int:
    """Record the named commands, or all; or compare and return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    commands, stale = read_commands(), 0
    for name in options.names or commands:
        entry = commands[name]
        text = entry.run()
        if not options.check:
            entry.path.write_text(text)
        elif text != entry.path.read_text():
            before = entry.path.read_text().splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(before, text.splitlines(keepends=True)))
            print(f"{entry.path.name} is stale: run `make recorded ONLY={name}`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
