"""Weight tiles of int4 on the chip: data are the golden machine's, cycles the model's."""

from dataclasses import replace

import pytest

from tpulite_tb.machines import FEW_ROWS, INT4
from tpulite_tb.products import compare_products
from tpulite_testing.regress import thinned

MACHINES = {"4x4": INT4, "16x16": replace(FEW_ROWS, int4=True)}


@pytest.mark.parametrize(
    "name", thinned(MACHINES, "4x4", reason="its simulator takes minutes to build")
)
def test_products_by_tiles_of_int4(name: str) -> None:
    compare_products(MACHINES[name], programs=80)
