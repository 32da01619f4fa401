"""Graphs of integer layers, on random machines with random options."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tpulite.compiler.translation import validate_translation
from tpulite.graph.layers import Layer
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.jobs.fewest import fewest, layers_of
from tpulite_testing.mutants.judges import Verdict, verdicts

__all__ = [
    "program_mutants",
    "random_graph_on_golden",
    "smallest_case",
    "smallest_graph_on_golden",
    "smallest_validated_graph",
    "validated_graph",
]

_NO_ROOM = {"too large": 1}


def random_graph_on_golden(seed: int) -> dict[str, int]:
    """Compile a graph and run it on the golden machine, which finds races.

    The program passes the static check, and its outputs are those of the layers, to the bit.
    """
    return _on_golden(seed, random_compilation(Seeded(seed)))


def smallest_graph_on_golden(seed: int, folder: Path) -> Path:
    """Write the fewest layers that still fail in the same way, as text."""
    case = random_compilation(Seeded(seed))
    return smallest_case(case, partial(_on_golden, seed), folder / f"random-graphs-{seed}.txt")


def _on_golden(seed: int, case: Compilation) -> dict[str, int]:
    program = case.compile_if_it_fits()
    if program is None:
        return _NO_ROOM
    case.run(program, "golden", seed)
    return {"graphs": 1, "layers": len(case.graph.layers)}


def validated_graph(seed: int) -> dict[str, int]:
    """Compile a graph, and show that the program computes it for all inputs."""
    return _validated(seed, random_compilation(Seeded(seed)))


def smallest_validated_graph(seed: int, folder: Path) -> Path:
    """Write the fewest layers that still fail in the same way, as text."""
    case = random_compilation(Seeded(seed))
    return smallest_case(case, partial(_validated, seed), folder / f"validation-{seed}.txt")


def _validated(seed: int, case: Compilation) -> dict[str, int]:
    program = case.compile_if_it_fits()
    if program is None:
        return _NO_ROOM
    try:
        wrong = validate_translation(case.graph, program, case.options, seed=seed)
    except NotImplementedError:
        return {"softmax, not validated": 1}
    assert not wrong, "; ".join(wrong)
    return {"graphs": 1, "commands": len(program.commands)}


def smallest_case(case: Compilation, check: Callable[[Compilation], object], path: Path) -> Path:
    """Write machine, options and the fewest layers with which a check fails in the same way."""

    def of(layers: Sequence[Layer]) -> Compilation:
        return replace(case, graph=layers_of(case.graph, layers))

    path.write_text(f"{fewest(case.graph.layers, of, check)!r}\n")
    return path


def program_mutants(seed: int) -> dict[str, int]:
    """Change a program in each way; somebody must notice what changes a result."""
    counts: Counter[str] = Counter()
    for kind, _, verdict in verdicts(seed, 1):
        assert verdict != Verdict.MISSED, f"nobody notices a mutant: {kind}"
        counts[f"noticed by {verdict}" if verdict != Verdict.EQUAL else verdict] += 1
    return counts
