"""Constrained-random programs: the Verilated chip against the golden machine, all of DRAM compared.

``TPULITE_RANDOM_PROGRAMS`` is the number of programs, over all configurations (600, or 100,000 in
``make regress``) on the Verilated device; some more run on the default machine, and under cocotb.
``TPULITE_RANDOM_SEED`` is the first seed. A failure names its seed and the command that repeats it.
"""

import json
import os
from collections import Counter

import cocotb
import pytest

from tpulite_rtl.verilog import TOP
from tpulite_tb.chip import ChipBench
from tpulite_tb.effort import repeats
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.machines import DEFAULT, INT4, INT16, TRANSPOSING
from tpulite_tb.random_check import CONFIGS, check, check_traces, memory_options
from tpulite_tb.random_program import RandomProgram
from tpulite_testing.regress import REGRESS, thinned
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = CONFIGS | {
    "default": DEFAULT,
    "int16": INT16,
    "transposing": TRANSPOSING,
    "int4": INT4,
}
PROGRAMS = int(os.environ.get("TPULITE_RANDOM_PROGRAMS", 100_000 if REGRESS else 600))
FIRST_SEED = int(os.environ.get("TPULITE_RANDOM_SEED", 0))
PER_CONFIG = -(-PROGRAMS // len(CONFIGS))
SLOWER = 25
"""So many times as long a program of the default machine takes, whose large buffer it fills."""
COCOTB_PROGRAMS = 40 if REGRESS else repeats(12)
"""With the AXI protocol watched: seconds each on Icarus, and more of the same."""
CHUNKS = -(-PER_CONFIG // 1_000)


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize(
    "geometry",
    thinned(
        MACHINES,
        *("4x4", "8x8", "default", "int16", "transposing", "int4"),
        reason="its simulator takes a minute to build",
    ),
)
def test_random_programs(geometry: str, chunk: int, record_property) -> None:
    coverage: Counter[tuple[str, ...]] = Counter()
    size = -(-PER_CONFIG // CHUNKS // (SLOWER if geometry == "default" else 1))
    first = FIRST_SEED + chunk * size
    print(f"{geometry}: seeds {first} to {first + size - 1}")
    for seed in range(first, first + size):
        program = RandomProgram(seed, MACHINES[geometry])
        try:
            device = RtlDevice(program.config, seed=seed, trace=True, **memory_options(program))
            check(program, device, device.set_errors)
            check_traces(program, device.traces)
        except Exception as error:
            error.add_note(
                f"Random program {seed} on {geometry}. To repeat it: TPULITE_RANDOM_SEED={seed} "
                f"TPULITE_RANDOM_PROGRAMS=1 pytest 'tb/system/test_random_programs.py"
                f"::test_random_programs[{geometry}-0]'"
            )
            raise
        coverage.update(program.coverage)
    record_property("random_programs", size)
    record_property("coverage", json.dumps([[*point, n] for point, n in coverage.items()]))


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(seed=range(COCOTB_PROGRAMS))
async def runs_like_the_golden_machine(dut, seed: int) -> None:
    """Run a random program under cocotb, with the AXI protocol watched."""
    program = RandomProgram(FIRST_SEED + seed, CONFIGS["4x4"])
    bench = ChipBench(dut, program.config, **memory_options(program))
    await bench.start()

    def no_errors() -> None:
        bench.memory.read_errors, bench.memory.write_errors = [], []

    await bench.call(check, program, bench.device, no_errors)
    bench.monitor.finish()


@pytest.mark.both_simulators
def test_random_programs_under_cocotb() -> None:
    """The chip in the form that users get."""
    chip = cached_verilog(CONFIGS["4x4"], portable=True)
    simulate_verilog(chip, __file__, top=TOP, name="random_programs")
