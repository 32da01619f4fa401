"""Find which waived points of coverage no run of the chip reaches; print what is not proven.

With --write, tb/coverage_waivers.csv says which are proven. Without, the exit code is 1 if it calls
one proven that is not.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from amaranth.back import verilog

from tpulite.arch.config import Config
from tpulite_formal.unreachable import unreachable
from tpulite_rtl.top import Chip
from tpulite_tb.coverage.verilog import with_points
from tpulite_tb.coverage.waivers import WAIVERS, Waiver, read_waivers
from tpulite_tb.coverage.watches import with_watches
from tpulite_tb.harness import component_ports
from tpulite_tb.machines import SMALL

MACHINES = {
    "none of the options": SMALL,
    "options of any size": replace(
        SMALL,
        axi_slices=True,
        ram_registers=True,
        softmax=True,
        int16=True,
        transposed_tiles=True,
        int4=True,
    ),
    "few lanes": replace(
        SMALL, requant_lanes=2, vector_lanes=2, ub_banks=8, roundings=("tflite", "away")
    ),
}
"""Chips of which a waiver must hold."""


def decided(
    waivers: Sequence[Waiver], config: Config, folder: Path, seconds: int
) -> dict[Waiver, bool]:
    """Return which waivers have points on a chip, and whether no run reaches any of these.

    The host and the memory beside the chip are free, and so is when it is reset, for four cycles or
    more. Parameters are those of :func:`tpulite_formal.unreachable.unreachable`.
    """
    chip = Chip(config)
    return decided_of(
        with_points(verilog.convert, chip, name="dut", ports=component_ports(chip)),
        waivers,
        folder,
        seconds,
    )


def decided_of(
    source: str, waivers: Sequence[Waiver], folder: Path, seconds: int
) -> dict[Waiver, bool]:
    """Do what `decided` does, of Verilog with points."""
    watched, owners = with_watches(source, waivers)
    never = unreachable(watched, folder, seconds) if owners else set()
    found = dict.fromkeys(owners, True)
    for watch, waiver in enumerate(owners):
        found[waiver] &= watch in never
    return found


def main() -> None:
    """Prove, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=4, help="for the solver, a point")
    parser.add_argument("--write", action="store_true", help="write the column `proof`")
    options = parser.parse_args()
    every = read_waivers(WAIVERS)
    waivers = [waiver for waiver in every if not waiver.property]  # those are decided elsewhere
    proven: dict[Waiver, bool] = {}
    for name, config in MACHINES.items():
        print(f"4x4, {name}: minutes ...", flush=True)
        with TemporaryDirectory() as folder:
            found = decided(waivers, config, Path(folder), options.seconds)
        proven |= {waiver: proven.get(waiver, True) and never for waiver, never in found.items()}
    proofs = {w: ("chip" if proven[w] else "") if w in proven else "absent" for w in waivers}
    for waiver, proof in proofs.items():
        if not proof:
            print(f"not proven: {waiver}: {waiver.reason}")
    if options.write:
        write_waivers([replace(each, proof=proofs.get(each, each.proof)) for each in every])
    elif lost := [waiver for waiver, proof in proofs.items() if waiver.proof not in ("", proof)]:
        sys.exit("\n".join(f"{waiver} is not proven by {waiver.proof}" for waiver in lost))


def write_waivers(waivers: list[Waiver]) -> None:
    """Write the table of waivers."""
    with WAIVERS.open("w", newline="") as file:
        names = [field.name for field in fields(Waiver)]
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(waiver) for waiver in waivers)


if __name__ == "__main__":
    main()
