"""Write the chip for other tools: Verilog, SDC and LPF in build/verilog."""

import argparse
import os
import sys
from pathlib import Path

from tpulite.configs import CONFIGS, named_config
from tpulite_rtl.constraints import lpf, sdc
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.toolchain import build_root
from tpulite_rtl.verilog import file_stem, header


def write_chip(name: str, period: float) -> list[Path]:
    """Write the files of a named configuration and return their paths."""
    config = named_config(name)
    stem = build_root() / "verilog" / file_stem(name)
    files = {
        stem.with_suffix(".sdc"): sdc(period),
        stem.with_suffix(".lpf"): lpf(period),
        stem.with_suffix(".v"): header(name, config) + cached_verilog(config),
    }
    stem.parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    return sorted(files)


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--period", type=float, default=10.0, help="of the clock, in ns (10)")
    options = parser.parse_args()
    try:
        paths = write_chip(options.config, options.period)
    except ValueError as error:
        sys.exit(str(error))
    for path in paths:
        print(os.path.relpath(path))


if __name__ == "__main__":
    main()
