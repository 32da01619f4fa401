"""Compiler launcher that does once what is the same for all models.

The runtime takes most of the time of building a small model: its files are compiled once, and so is
the header of it that ``TPULITE_HEADER`` names, which then precedes every file of a model.
Verilator's makefile calls this script in front of every compiler command (``OBJCACHE``).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_MODEL_HEADERS = ("__pch.h.fast.gch", "__pch.h.slow.gch")
"""Ends of files that Verilator's makefile lets the compiler keep of each model."""


def main(command: list[str]) -> int:
    """Run a compiler command, or copy the object file that the same command made before."""
    runtime = Path(os.environ["VERILATOR_ROOT"]) / "include"
    source = Path(command[-1])
    header = os.environ.get("TPULITE_HEADER")
    if header and command[-1].endswith(_MODEL_HEADERS):
        source.touch()  # most of it is the header that is kept
        return 0
    if source.suffix != ".cpp":
        return subprocess.call(command)
    if source.parent != runtime:
        return subprocess.call(with_header(command, runtime / header) if header else command)
    target = Path(command[command.index("-o") + 1])
    # The runtime includes nothing of the model, so its path and the command say everything.
    cached = _cache(str(source), *command).with_suffix(".o")
    if not cached.exists():
        if code := subprocess.call(command):
            return code
        _keep(target, cached)
        return 0
    shutil.copyfile(cached, target)
    return 0


def with_header(command: list[str], header: Path) -> list[str]:
    """Return a command that reads a header first, as the compiler keeps headers it has read.

    The header of the model, which Verilator lets the compiler keep, is read as it is behind it.
    """
    end = min(command.index(word) for word in ("-include", "-c", "-o") if word in command)
    compiler, rest = command[:end], command[end:]
    if rest[0] == "-include":
        rest[1] = str(Path(rest[1]).with_suffix(""))  # of its level of optimization
    folder = _cache(str(header), *sorted(compiler))  # their order is not always the same
    kept = folder / header.name
    if not kept.with_suffix(".h.gch").exists():
        folder.mkdir(exist_ok=True)
        partial = folder / f"{os.getpid()}.gch"
        making = [word for word in compiler if word != "-MMD"]
        if subprocess.call([*making, "-x", "c++-header", "-o", str(partial), str(header)]):
            return [*compiler, *rest]
        partial.rename(kept.with_suffix(".h.gch"))
    # The compiler looks for what it has kept before it looks for the header, which is not here.
    return [*compiler, "-include", str(kept), *rest]


def _cache(*contents: str) -> Path:
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:20]
    return Path(os.environ["TPULITE_OBJCACHE"]) / digest


def _keep(made: Path, cached: Path) -> None:
    """Copy a file into the cache; a rename is atomic, so that nobody copies half of it."""
    partial = cached.with_suffix(f".{os.getpid()}")
    shutil.copyfile(made, partial)
    partial.rename(cached)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
