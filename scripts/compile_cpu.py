"""Measure the CPU time of the whole process `tpulite compile --no-cache`, from file to file.

The networks are those of the benchmarks, written as the TFLite files that a converter makes. Each
is compiled several times in turn, in processes of their own; the least counts. Prints a line a
network: CPU seconds, user and system, and a yardstick of the same machine, since seconds depend on
what else runs there.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tpulite.bench.converted import resnet50_graph
from tpulite.bench.files import FILES
from tpulite.frontend.tflite.writer import write_tflite
from tpulite.graph.graph import Graph

_NETWORKS: dict[str, Callable[[str], Graph]] = {
    "resnet50": resnet50_graph,
    "mobilenet_v2_uint8": FILES["mobilenet_v2_uint8"],
    "mlp_b16_file": FILES["mlp_b16_file"],
}

_START = "import numpy"
"""The yardstick: what any such program does first."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=3, help="processes a network (default: 3)")
    parser.add_argument("--only", choices=_NETWORKS, action="append", help="only these networks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        calls = {"import numpy": ["-c", _START]}
        for name in arguments.only or _NETWORKS:
            path = Path(folder, f"{name}.tflite")
            path.write_bytes(write_tflite(_NETWORKS[name](name)))
            output = path.with_suffix(".tpulite")
            calls[name] = ["-m", "tpulite", "compile", str(path), "--no-cache", "-o", str(output)]
        least = dict.fromkeys(calls, float("inf"))
        for _ in range(arguments.tries):
            for name, call in calls.items():
                least[name] = min(least[name], _seconds(call))
    for name, seconds in least.items():
        print(f"{name:20} {seconds:6.2f} s")


def _seconds(call: list[str]) -> float:
    """Return the CPU time of a call of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *call], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
