"""A process that runs commands in children of its own, each under limits, and watches them.

``python -m tpulite_testing.hostile.guard`` reads a trial a line from stdin, in JSON, and answers
each by an outcome. The children are forks, so that nothing is imported again.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import tpulite
from tpulite import cli

__all__ = ["BYTES", "CPU_SECONDS", "GUARDED", "main"]

CPU_SECONDS = 10
"""What a command may take; of a processor, for others use it, too."""

BYTES = 1 << 30
"""Memory that it may take."""

GUARDED = ("out", "err", "report")
"""Files that the guard itself writes."""

_ADDRESSES = 2 * BYTES
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    f"os.{name}" for name in ("remove", "rename", "mkdir", "rmdir", "link", "symlink", "truncate")
)
_NEVER = frozenset(
    {
        *("pickle.find_class", "marshal.loads", "subprocess.Popen", "socket.connect"),
        *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    }
)


class _Watch:
    """An audit hook that notes what nobody asked for: once, in a file, for exceptions get lost."""

    def __init__(self, folder: Path, report: int) -> None:
        self._inside, self._outside, self._report = f"{folder}/", f"{folder.parent}/", report

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes):
                self._open(os.path.realpath(os.fsdecode(path)), flags or 0)
        elif event in _CHANGES:
            for path in arguments[:2]:
                if isinstance(path, str | bytes) and not self._within(path):
                    self._note(event, path)
        elif event in _NEVER and not (event == "marshal.loads" and _importing()):
            self._note(event, arguments)

    def _open(self, path: str, flags: int) -> None:
        if path.startswith(self._inside) or path == os.devnull:
            return
        if flags & _WRITES or path.startswith(self._outside):
            self._note("open", path)

    def _within(self, path: str | bytes) -> bool:
        return os.path.realpath(os.fsdecode(path)).startswith(self._inside)

    def _note(self, event: str, what: object) -> None:
        os.write(self._report, f"{event} {what!r}"[:500].encode() + b"\n")


def _importing() -> bool:
    """Whether a module is being imported, which reads marshalled code."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if "importlib" in frame.f_code.co_filename:
            return True
    return False


def _child(words: list[str], folder: Path, out: int, err: int, report: int) -> None:
    """Run the command line; never return."""
    code = 70
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + _ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 2))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.addaudithook(_Watch(folder, report))
        sys.argv = ["tpulite", *words]
        cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _try(words: list[str], folder: Path) -> dict[str, Any]:
    """Run a command in a child; return its outcome."""
    names = [folder / name for name in GUARDED]
    files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in names]
    child = os.fork()
    if not child:
        _child(words, folder, *files)
    _, status, used = os.wait4(child, 0)
    for file in files:
        os.close(file)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "err": names[1].read_text(errors="replace"),
        "noted": names[2].read_text(errors="replace")[:1000],
        "bytes": used.ru_maxrss << 10,
        "seconds": used.ru_utime + used.ru_stime,
    }


def _import_all() -> None:
    """Import what commands would, for children find it then."""
    for module in pkgutil.walk_packages(tpulite.__path__, "tpulite."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # of optional packages
                importlib.import_module(module.name)


def main() -> None:
    """Answer trials until there are no more."""
    _import_all()
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    for line in sys.stdin:
        trial = json.loads(line)
        print(json.dumps(_try(trial["words"], Path(trial["folder"]))), flush=True)


if __name__ == "__main__":
    main()
