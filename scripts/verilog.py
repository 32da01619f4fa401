"""Write the chip as one Verilog file, build/verilog/tpulite_CONFIG.v."""

import argparse
import os
import sys
from pathlib import Path

from tpulite.configs import CONFIGS, named_config
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.toolchain import build_root


def write_verilog(name: str) -> Path:
    """Write the Verilog of a named configuration and return its path."""
    path = build_root() / "verilog" / f"tpulite_{name}.v"
    text = cached_verilog(named_config(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}")
    try:
        path = write_verilog(parser.parse_args().config)
    except ValueError as error:
        sys.exit(str(error))
    print(os.path.relpath(path))


if __name__ == "__main__":
    main()
