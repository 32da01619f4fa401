"""How long compiling takes, and how much memory: each network in a process of its own."""

import json
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.bench.models import ARCHITECTURES, NETWORKS
from tpulite.bench.workload import MakeWorkload
from tpulite.bench.workloads import find_workload
from tpulite.compiler.pipeline import compile_layers

COMPILED = (*NETWORKS, *ARCHITECTURES)
"""Networks that are compiled by default."""

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Compilation:
    """A network that was compiled, nothing taken from a cache."""

    workload: str  #: Its name.
    #: Size of the network and of its programs.
    layers: int
    commands: int
    seconds: float  #: From integer layers to checked programs.
    #: Most memory of a process that does nothing else, Python and its libraries included; None
    #: where the system does not tell.
    peak_bytes: int | None


def run_compilations(names: Iterable[str], config: Config) -> Iterator[Compilation]:
    """Compile networks one after the other.

    Yields
    ------
    Compilation
        One a network.

    Raises
    ------
    ValueError
        If a name is unknown; nothing has been compiled then.
    """
    makes = {name: find_workload(name) for name in names}
    return (_compilation(name, make, config) for name, make in makes.items())


def _compilation(name: str, make: MakeWorkload, config: Config) -> Compilation:
    # Making the network takes memory, too, which must not count.
    parts = make(config).parts
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import measure; measure()"],
        input=pickle.dumps((parts, config)),
        stdout=subprocess.PIPE,
        check=False,
    )
    if child.returncode:
        raise RuntimeError(f"Compiling {name} ended with exit code {child.returncode}")
    return Compilation(name, sum(len(part.layers) for part in parts), **json.loads(child.stdout))


def measure() -> None:
    """Compile what comes on stdin and print the figures: the work of the process of its own."""
    parts, config = pickle.load(sys.stdin.buffer)
    started = time.perf_counter()
    programs = [compile_layers(part, config) for part in parts]
    seconds = time.perf_counter() - started
    commands = sum(len(program.commands) for program in programs)
    print(json.dumps({"commands": commands, "seconds": seconds, "peak_bytes": _peak_bytes()}))


def _peak_bytes() -> int | None:
    """Return the most memory that this process has had, if the system tells."""
    if not _STATUS.exists():
        return None
    match = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return 1024 * int(match[1]) if match else None
