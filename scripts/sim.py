"""The main job: classify handwritten digits on the whole chip, simulated by $SIM.

Verilator runs all 448 test images, Icarus the first two batches of 16. The figures go to
build/sim/mlp.json. With WAVES=1 two batches leave a waveform.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tpulite.configs import named_config
from tpulite.models import DigitsTest
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilog import TOP
from tpulite_tb.digits import BATCH
from tpulite_tb.harness import simulate_verilog

ROOT = Path(__file__).resolve().parents[1]
TEST = ROOT / "tb/system/test_mlp.py"
CONFIG = "16x16"
SHORT = 2
QUIET = {
    "COCOTB_LOG_LEVEL": "ERROR",
    "GPI_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of cocotbext-axi
}


def main() -> int:
    """Build, simulate, report; 1 if a bit differs or the simulation breaks off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/sim", help="for mlp.json")
    parser.add_argument("--short", action="store_true", help="two batches only")
    parser.add_argument("--flip-weight-bit", action="store_true", help="see it fail")
    options = parser.parse_args()

    simulator = os.environ.get("SIM") or "verilator"
    waves = bool(int(os.environ.get("WAVES") or 0))
    short = options.short or waves or simulator == "icarus"
    path = options.folder.resolve() / "mlp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    job = {
        "simulator": simulator,
        "batches": SHORT if short else len(DigitsTest.load()) // BATCH,
        "stream": not short,
        "flip_weight_bit": options.flip_weight_bit,
        "json": str(path),
    }

    print(f"Building the {CONFIG} chip for {simulator}, unless it is built …", flush=True)
    try:
        folder = simulate_verilog(
            cached_verilog(named_config(CONFIG)),
            str(TEST),
            top=TOP,
            name=f"mlp_{CONFIG}",
            live=True,
            extra_env={"TPULITE_DIGITS": json.dumps(job), **QUIET},
        )
    except (AssertionError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if waves:
        print_waves_help(next(folder.glob("waves.*")))
    if path.exists():
        print(f"Figures: {os.path.relpath(path)}")
    return 0


def print_waves_help(path: Path) -> None:
    """Say how to look at a waveform."""
    name = os.path.relpath(path)
    print(
        f"Waveform: {name}\n"
        f"  gtkwave {name}    or    surfer {name}    (https://surfer-project.org)\n"
        f"  Look at {TOP}.trace_*_state (0 idle, 1 busy, 2 token, 3 buffer, 4 AXI) and\n"
        f"  {TOP}.trace_*_index, the command of each engine; then at the DRAM port {TOP}.m_axi_*\n"
        f"  and at irq, which ends a run."
    )


if __name__ == "__main__":
    sys.exit(main())
