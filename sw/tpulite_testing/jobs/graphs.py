"""Graphs of integer layers, on random machines with random options."""

from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation

__all__ = ["random_graph_on_golden"]


def random_graph_on_golden(seed: int) -> dict[str, int]:
    """Compile a graph and run it on the golden machine, which finds races.

    The program passes the static check, and its outputs are those of the layers, to the bit.
    """
    case = random_compilation(Seeded(seed))
    program = case.compile_if_it_fits()
    if program is None:
        return {"without room": 1}
    case.run(program, "golden", seed)
    return {"graphs": 1, "layers": len(case.graph.layers)}
