"""Reset is enough, whatever registers and memories hold, and at any cycle of a run.

``TPULITE_CUT_OFF_RUNS`` is the number of runs that are cut off (12, or 10,000 in ``make regress``),
``TPULITE_RESET_SEED`` the first seed, and that of what registers hold. A failure names its seed.
"""

import os
import random

from tpulite.bench.workloads import parse_workload
from tpulite_tb.machines import SMALL
from tpulite_tb.resets import cut_off
from tpulite_testing.regress import REGRESS
from tpulite_verilated.rtl_device import RtlDevice
from tpulite_verilated.state import StateDevice

SEED = int(os.environ.get("TPULITE_RESET_SEED", random.randrange(1 << 32) if REGRESS else 1))
RUNS = int(os.environ.get("TPULITE_CUT_OFF_RUNS", 10_000 if REGRESS else 12))


def randomize(device: StateDevice) -> None:
    """Flip half of all bits, at random."""
    generator = random.Random(SEED)
    for variable in device.variables:
        for bit in range(variable.size):
            if generator.random() < 0.5:
                device.flip(variable, bit)


def test_what_registers_hold_before_reset_does_not_matter() -> None:
    print(f"TPULITE_RESET_SEED={SEED}")
    chip, other = RtlDevice(SMALL), StateDevice(SMALL)
    randomize(other)
    other.full_reset()
    for name in ("cnn", "gemm_5x33x20"):
        workload = parse_workload(name)
        expected, outcome = workload(chip), workload(other)
        assert outcome.exact and outcome.counters == expected.counters, name


def test_runs_may_be_cut_off_at_any_cycle() -> None:
    finished = 0
    for seed in range(SEED, SEED + RUNS):
        try:
            finished += cut_off(seed).finished
        except Exception as error:
            error.add_note(f"To repeat it: tpulite regress --jobs resets --seeds {seed} --no-cache")
            raise
    assert finished < RUNS / 4, "most runs were over before they were cut off"
