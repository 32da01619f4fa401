"""Cycles of a file that is compiled as a user's file is by default."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.frontend.files import load_graph
from tpulite.golden.timing import program_cycles
from tpulite.graph.graph import Graph
from tpulite.runtime.model import Model


@dataclass(frozen=True)
class FileCycles:
    """A TFLite file on a machine."""

    graph: Graph  #: The network as it is in the file.
    cycles: int  #: Of its programs, by the cycle model.
    host: str  #: Operators that run on the CPU; then cycles are those of the rest.


def measure_file(data: bytes, config: Config) -> FileCycles:
    """Compile a TFLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(data)
        graph = load_graph(path)
        model = Model.load(path, config=config)
        programs = model.programs
    host = {x.operator for x in model.summary() if x.where == "host"}
    cycles = sum(map(program_cycles, programs))
    return FileCycles(graph, cycles, " ".join(sorted(host)))
