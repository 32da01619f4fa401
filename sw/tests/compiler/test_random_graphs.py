"""Random graphs, compiled for random machines with random options, on the golden device.

``TPULITE_RANDOM_GRAPHS`` is how many are drawn. The golden machine finds races and reads of what
nothing wrote; the results must be those of the golden layers, to the bit.
"""

import os
from collections import Counter

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tpulite.compiler.pipeline import compile_layers
from tpulite_testing.drawn.choices import Drawn, Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.drawn.layer_graphs import KINDS
from tpulite_testing.regress import REGRESS

GRAPHS = int(os.environ.get("TPULITE_RANDOM_GRAPHS", "60" if REGRESS else "12"))
SEEDS = range(40 if REGRESS else 8)


@st.composite
def compilations(draw) -> Compilation:
    case = random_compilation(Drawn(draw))
    return case if draw(st.integers(0, 3)) == 3 else case.quick()


def fits(case: Compilation) -> bool:
    """Compile and run; return whether the compiler found a program, as it must if there is room."""
    program = case.compile_if_it_fits()
    if program is not None:
        case.run(program, "golden")
    return program is not None


@settings(max_examples=GRAPHS)
@given(compilations())
def test_programs_compute_what_their_layers_do(case):
    event("runs" if fits(case) else "refused: the buffer is too small")
    event(f"batch {case.options.batch}")


@pytest.mark.parametrize("more", KINDS, ids=lambda steps: steps[0])
@pytest.mark.parametrize("seed", range(60 if REGRESS else 12))
def test_programs_with_more_of_some_steps_compute_what_their_layers_do(seed, more):
    fits(random_compilation(Seeded(seed), most=8, more=more).quick())


def test_few_are_refused(capsys):
    """The buffers that are drawn are small, but seldom too small; programs repeat byte by byte."""
    outcomes: Counter[bool] = Counter()
    for seed in SEEDS:
        case = random_compilation(Seeded(seed), most=8).quick()
        fitting = fits(case)
        outcomes[fitting] += 1
        if fitting and seed % 8 == 0:
            again = compile_layers(case.graph, case.config, case.options)
            assert case.compile() == again, f"seed {seed}"
    with capsys.disabled():
        print(f"\nrandom graphs: {outcomes[False]} of {len(SEEDS)} do not fit their buffers")
    assert outcomes[False] <= len(SEEDS) // 4
