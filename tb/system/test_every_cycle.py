"""Short programs are interrupted in their cycles, and the next run is right.

In each cycle the host says STOP, the chip is reset, reads fail or writes fail. A few cycles of each
program are tried, all in ``make regress``: those of 16x16 by ``tpulite regress --jobs
every-cycle-16x16``.
"""

from collections import Counter

import pytest

from tpulite.arch.isa import Engine
from tpulite_tb.every_cycle import MACHINES, PROGRAMS, interrupted, place_of, places
from tpulite_tb.random_program import RandomProgram
from tpulite_testing.regress import REGRESS

FEW = 60


def test_a_run_behind_an_interrupted_one_is_right():
    count = places("4x4")
    counts: Counter[str] = Counter()
    for seed in range(0, count, 1 if REGRESS else count // FEW):
        counts.update(interrupted("4x4", seed))
    assert counts["cycles"] >= FEW
    assert min(counts[way] for way in ("stop", "reset", "read error", "write error")) > FEW / 3


def test_seeds_go_through_all_cycles():
    found = [place_of("4x4", seed) for seed in range(places("4x4"))]
    assert len({*found}) == len(found)
    assert {program for program, _ in found} == {*PROGRAMS}
    assert place_of("4x4", len(found)) == found[0]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_programs_use_every_engine(machine):
    engines = {
        command.engine
        for seed in PROGRAMS
        for command in RandomProgram(seed, MACHINES[machine], fault=0.0).legal_commands
    }
    assert {*Engine} <= engines
