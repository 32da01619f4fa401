"""Examples of the documents, for cog: each prints what it ran and what that printed.

A page has one folder, empty at its first example, in which all of its examples run.
"""

import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from recorded import ROOT, read_commands, terminal


class Page:
    """A page of examples."""

    open: "Page | None" = None
    """The page that is read now."""

    writes_pictures = False
    """Whether :func:`picture` writes what it finds; else it compares."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = tempfile.TemporaryDirectory(prefix="tpulite-page-")
        self.folder = Path(self._folder.name)

    @classmethod
    def begin(cls, path: str) -> None:
        """Open a page, unless it is open; cog says which one it reads before each example."""
        if cls.open is None or cls.open.path != Path(path):
            cls.open = cls(Path(path))

    @classmethod
    def now(cls) -> "Page":
        """Return the page that is read."""
        assert cls.open is not None
        return cls.open


def files(pattern: str) -> None:
    """Copy files of the repository into the page's folder, which a user has from elsewhere.

    Parameters
    ----------
    pattern : str
        Their paths in the repository, with wildcards.
    """
    for path in ROOT.glob(pattern):
        shutil.copy(path, Page.now().folder)


def show(command: str, code: int = 0) -> None:
    """Run a command of the shell; print a block of it and its output.

    Parameters
    ----------
    command : str
        One command, as a user types it.
    code : int
        The exit code that is expected.

    Raises
    ------
    RuntimeError
        If it ends with another one.
    """
    _print_block("console", f"$ {command}\n{_output(['bash', '-c', command], code)}")


def python(source: str) -> None:
    """Run Python in an interpreter of its own; print a block of it, and one of what it printed.

    RuntimeError if it raises.
    """
    source = source.strip("\n") + "\n"
    _print_block("python", source)
    output = _output([sys.executable, "-c", source], 0)
    if output:
        _print_block("text", output)


def source(name: str, section: str = "") -> None:
    """Print a block of a Python file of the repository.

    Parameters
    ----------
    name : str
        Its path in the repository.
    section : str
        The lines between the comments ``# begin SECTION`` and ``# end SECTION``; all of it without.
    """
    text = (ROOT / name).read_text()
    if section:
        text = text.split(f"# begin {section}\n")[1].split(f"# end {section}\n")[0]
    _print_block("python", textwrap.dedent(text))


def picture(name: str, title: str) -> None:
    """Keep a picture that an earlier example of the page wrote beside the page, and show it.

    RuntimeError if pictures are compared, and this one differs.
    """
    page = Page.now()
    made, kept = (page.folder / name).read_bytes(), page.path.parent / name
    if Page.writes_pictures:
        kept.write_bytes(made)
    elif not kept.exists() or kept.read_bytes() != made:
        raise RuntimeError(f"{kept} is not what the example draws: run `make sources WRITE=1`")
    print(f"\n![{title}]({name})\n")


def recorded(name: str, first: str = "", last: str = "") -> None:
    """Print a block of a command and its output, as docs/recorded has them.

    Parameters
    ----------
    name : str
        Name in docs/recorded/commands.toml.
    first, last : str
        Words of the first and the last line to show; all lines without.
    """
    entry = read_commands()[name]
    lines = entry.path.read_text().rstrip().splitlines()
    begin = next(i for i, line in enumerate(lines) if first in line)
    end = len(lines) - next(i for i, line in enumerate(reversed(lines)) if last in line)
    _print_block("console", "\n".join([f"$ {entry.command}", *lines[begin:end]]))


def _output(command: list[str], code: int) -> str:
    """Run a command in the page's folder, in a terminal of 80 columns.

    Whether it builds a simulator depends on what ran before, so that line is left out.
    """
    done = subprocess.run(
        command,
        cwd=Page.now().folder,
        env=terminal(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != code:
        raise RuntimeError(f"{command[-1]} ended with {done.returncode}:\n{done.stdout}")
    lines = done.stdout.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Building the simulator of "))


def _print_block(language: str, text: str) -> None:
    """Print a fenced block; no line ends in spaces."""
    print(f"\n```{language}", *(line.rstrip() for line in text.rstrip().splitlines()), sep="\n")
    print("```\n")
