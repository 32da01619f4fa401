"""Paths and gates of the chip stay within the budgets of its blocks."""

from pathlib import Path

from tpulite.configs import named_config
from tpulite_rtl.lib.carry_save import GATES
from tpulite_rtl.silicon.budget import excesses, read_budgets
from tpulite_rtl.silicon.design import chip_design
from tpulite_rtl.silicon.report import measure

BUDGETS = Path(__file__).with_name("silicon_budgets.csv")
"""Of 4x4; written anew by ``make timing-budgets``."""


def test_no_block_exceeds_its_budget():
    found = measure(chip_design(named_config("4x4"), GATES))
    assert excesses(found, read_budgets(BUDGETS.read_text())) == []
