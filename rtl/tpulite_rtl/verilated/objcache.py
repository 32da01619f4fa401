"""Compiler launcher that compiles each file of Verilator's runtime once for all models.

The runtime takes most of the time of building a small model. Verilator's makefile calls this script
in front of every compiler command (``OBJCACHE``); commands for other files run as they are.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main(command: list[str]) -> int:
    """Run a compiler command, or copy the object file that the same command made before."""
    runtime = Path(os.environ["VERILATOR_ROOT"]) / "include"
    source = Path(command[-1])
    if source.suffix != ".cpp" or source.parent != runtime or "-o" not in command:
        return subprocess.call(command)
    target = Path(command[command.index("-o") + 1])
    # The runtime includes nothing of the model, so its path and the command say everything.
    digest = hashlib.sha256("\0".join([str(source), *command]).encode()).hexdigest()[:20]
    cached = Path(os.environ["TPULITE_OBJCACHE"]) / f"{digest}.o"
    if not cached.exists():
        if code := subprocess.call(command):
            return code
        # A rename is atomic, so that nobody copies half a file.
        partial = cached.with_suffix(f".{os.getpid()}")
        shutil.copyfile(target, partial)
        partial.rename(cached)
        return 0
    shutil.copyfile(cached, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
