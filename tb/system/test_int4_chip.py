"""Weight tiles of int4 on the chip: data are the golden machine's, cycles the model's."""

from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite_tb.machines import FEW_ROWS, INT4
from tpulite_tb.products import compare_products
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.narrow import narrowed
from tpulite_testing.regress import thinned
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = {"4x4": INT4, "16x16": replace(FEW_ROWS, int4=True)}
COMPILED = Config(array_size=8, ub_rows=1024, acc_rows=64, int4=True)
"""The smallest array whose layers the compiler packs."""


@pytest.mark.parametrize(
    "name", thinned(MACHINES, "4x4", reason="its simulator takes minutes to build")
)
def test_products_by_tiles_of_int4(name: str) -> None:
    compare_products(MACHINES[name], programs=80)


def test_networks_with_weights_of_4_bits() -> None:
    device, found = RtlDevice(COMPILED), 0
    for seed in range(16):
        case = replace(narrowed(random_compilation(Seeded(seed)).quick(), seed), config=COMPILED)
        program = case.compile_if_it_fits()
        if program is not None and any(
            each["int4"] for each in program.commands if each.opcode == Opcode.CONV
        ):
            case.run(program, device, seed)
            found += 1
    assert found >= 6
