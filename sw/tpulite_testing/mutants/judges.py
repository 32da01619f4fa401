"""Who notices a mutant of a program: the static check, the golden machine, validation."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from tpulite.compiler.translation import validate_translation
from tpulite.golden.check import check
from tpulite.golden.machine import RaceError
from tpulite.program import Program
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.mutants.programs import KINDS, program_mutant

__all__ = ["Verdict", "judge", "verdicts"]

_DRAWS = 3


class Verdict(StrEnum):
    """What notices a mutant first."""

    STATIC = "static check"
    MACHINE = "race detector, fault"
    VALIDATION = "validation"
    MISSED = "nobody"
    EQUAL = "equivalent"


def judge(case: Compilation, mutant: Program) -> Verdict:
    """Return what notices a mutant of the program of a case.

    One that no check notices and that computes the same bits for random inputs is equivalent: that
    is what validation says of it. If it computes others, it is missed.
    """
    if check(mutant):
        return Verdict.STATIC
    same = True
    try:
        for seed in range(_DRAWS):
            case.run(mutant, "golden", seed)
    except RaceError:
        return Verdict.MACHINE
    except AssertionError as error:
        if "Fault" in str(error):
            return Verdict.MACHINE
        same = False
    if validate_translation(case.graph, mutant, case.options):
        return Verdict.VALIDATION
    return Verdict.EQUAL if same else Verdict.MISSED


def verdicts(seed: int, each: int) -> Iterator[tuple[str, Program, Verdict]]:
    """Draw a graph, compile it, and judge so many mutants of each kind.

    Nothing if it does not fit.
    """
    case = random_compilation(Seeded(seed), most=6, largest=4000)
    program = case.compile_if_it_fits()
    if program is None:
        return
    case.run(program, "golden")
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        for _ in range(each):
            if (mutant := program_mutant(program, kind, rng)) is not None:
                yield kind, mutant, judge(case, mutant)
