"""Graphs of integer layers, on random machines with random options."""

from collections import Counter

from tpulite.compiler.rewrite.simplify.network import simplify_layers
from tpulite.golden.validation import validate
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.mutants.judges import Verdict, verdicts

__all__ = ["program_mutants", "random_graph_on_golden", "validated_graph"]


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


def validated_graph(seed: int) -> dict[str, int]:
    """Compile a graph, and show that the program computes it for all inputs."""
    case = random_compilation(Seeded(seed))
    program = case.compile_if_it_fits()
    if program is None:
        return {"without room": 1}
    layers = simplify_layers(case.graph, case.config, case.options).layers
    try:
        wrong = validate(layers, program, seed=seed)
    except NotImplementedError:
        return {"softmax, not validated": 1}
    assert not wrong, "; ".join(wrong)
    return {"graphs": 1, "commands": len(program.commands)}


def program_mutants(seed: int) -> dict[str, int]:
    """Change a program in each way; somebody must notice what changes a result."""
    counts: Counter[str] = Counter()
    for kind, _, verdict in verdicts(seed, 1):
        assert verdict != Verdict.MISSED, f"nobody notices a mutant: {kind}"
        counts[f"noticed by {verdict}" if verdict != Verdict.EQUAL else verdict] += 1
    return counts
