"""How much a search for plans may try."""

import math

import pytest

from tpulite.arch.config import Config
from tpulite.compiler.plan.alone import Surroundings
from tpulite.compiler.plan.choices import LayerChoices
from tpulite.compiler.plan.conv import ConvExtents
from tpulite.compiler.plan.search import search_plans

EFFORT = 600
FIRST = ((None,), 4)


@pytest.fixture(scope="module")
def sites():
    """Return a convolution of 96 rows of 8 vectors, of which there are many plans."""
    size = {
        "rows": 96,
        "width": 8,
        "source_rows": 96,
        "source_width": 8,
        "blocks": 6,
        "n_blocks": 6,
    }
    extents = ConvExtents(**size, stride=1, reach=3, taps=9, grain=1)
    around = Surroundings(
        free_rows=16_000,
        input_in_dram=True,
        output_in_dram=True,
        loaded=True,
        stored=True,
        weights_in_dram=True,
        vector_rows=1,
        record_rows=5,
    )
    return (LayerChoices(extents, around, Config()),)


def tried(sites, cycles, commands, idle):
    """Return what is judged if all programs have so many cycles and commands."""
    states = []

    def cost(state):
        states.append(state)
        return (0 if state == FIRST else cycles), commands

    assert search_plans(sites, FIRST, cost, lambda state: idle, EFFORT, 0) == FIRST
    return states


def test_programs_that_do_not_fit_take_no_more_than_the_effort(sites):
    assert len(sites[0].ranked()) > 40
    assert len(tried(sites, math.inf, 100, 1 << 30)) == EFFORT // 100 + 1
    assert len(tried(sites, math.inf, 3000, 1 << 30)) == 1


@pytest.mark.parametrize(("idle", "starts"), [(0, 1), (2999, 1), (8999, 3), (1 << 30, 8)])
def test_starts_beyond_the_effort_must_be_able_to_pay(sites, idle, starts):
    assert len(tried(sites, 10, 3000, idle)) == starts + 1
