"""Reset is enough: an ASIC ignores initial values."""

import os
import random
import re

from tpulite.bench.workloads import parse_workload
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.rtl_device import RtlDevice
from tpulite_tb.machines import SMALL

SEED = int(os.environ.get("TPULITE_RESET_SEED", "1"))  # one, so that the simulator is built once
INITIAL = re.compile(r"^( *(?:reg [^$=;]*=\s*(\d+)'h|\w+\[\d+\] = (\d+)'d))\w+;", re.MULTILINE)
"""Initial value of a register, but of the simulator's own ``$auto``, or of a word of a memory."""


def randomized(source: str) -> str:
    """Return Verilog whose registers and memories begin with random bits."""
    generator = random.Random(SEED)

    def draw(match: re.Match[str]) -> str:
        value = generator.getrandbits(int(match[2] or match[3]))
        return f"{match[1]}{value:x};" if match[2] else f"{match[1]}{value};"

    text, count = INITIAL.subn(draw, source)
    assert count > SMALL.ub_rows, "no words of the buffer"
    return text


def test_initial_values_do_not_matter() -> None:
    print(f"TPULITE_RESET_SEED={SEED}")
    chip = RtlDevice(SMALL)
    other = RtlDevice(SMALL, verilog=randomized(cached_verilog(SMALL)))
    for name in ("cnn", "gemm_5x33x20"):
        workload = parse_workload(name)
        expected, outcome = workload(chip), workload(other)
        assert outcome.exact and outcome.counters == expected.counters, name
