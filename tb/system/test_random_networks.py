"""Random graphs of layers on the Verilated chip, with all options and a memory that stalls.

``TPULITE_RANDOM_NETWORKS`` is the number of graphs that run on each machine (12, or 400 in ``make
regress``), ``TPULITE_RANDOM_SEED`` the first seed. A failure names its seed. Graphs that the
smallest machine has no room for do not count.
"""

import os

import pytest

from tpulite_tb.jobs import MACHINES
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.regress import REGRESS, thinned
from tpulite_verilated.rtl_device import RtlDevice

NETWORKS = int(os.environ.get("TPULITE_RANDOM_NETWORKS", 400 if REGRESS else 12))
FIRST_SEED = int(os.environ.get("TPULITE_RANDOM_SEED", 0))
DRAM_BYTES = 1 << 24
STALLS = (0.0, 0.0, 0.3)
MOST_REFUSED = 10
"""Graphs without room for each that runs: beyond, the test would hardly test anything."""


@pytest.mark.parametrize(
    "geometry", thinned(MACHINES, "4x4", "8x8", reason="its simulator takes a minute")
)
def test_random_networks(geometry: str, capsys) -> None:
    config, largest = MACHINES[geometry]
    ran = refused = cycles = 0
    while ran < NETWORKS:
        seed = FIRST_SEED + ran + refused
        case = random_compilation(Seeded(seed), most=8, largest=largest, config=config)
        try:
            program = case.compile_if_it_fits()
            if program is None:
                refused += 1
                assert refused <= MOST_REFUSED * NETWORKS
                continue
            stall = STALLS[seed % len(STALLS)]
            device = RtlDevice(
                config, dram_bytes=DRAM_BYTES, stall=stall, jitter=int(50 * stall), seed=seed
            )
            case.run(program, device, seed)
        except Exception as error:
            error.add_note(
                f"Random network {seed}. To repeat it: TPULITE_RANDOM_SEED={seed} "
                "TPULITE_RANDOM_NETWORKS=1 pytest 'tb/system/test_random_networks.py"
                f"::test_random_networks[{geometry}]'\n{case}"
            )
            raise
        ran += 1
        cycles += device.cycles
    with capsys.disabled():
        print(
            f"\n{geometry}: {ran} random networks from seed {FIRST_SEED} on, {cycles:,} cycles; "
            f"{refused} others do not fit"
        )
