"""Compile published networks, and compare their cycles with the recorded table.

Prints what takes more cycles than recorded; the exit code is 1 if anything does and nothing is
written. ``--page`` only writes docs/published.md from the table.
"""

import argparse
import csv
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tpulite.bench import NetworkRecord, find_networks, measure_network
from tpulite_testing.published.catalog import network_file
from tpulite_testing.published.table import Row, page, read_rows, worse, write_rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "published.md"

_VELA = ("--accelerator-config", "ethos-u85-256")


def _estimate(vela: str, name: str) -> tuple[int, int]:
    """Return the cycles that Vela estimates for a network, and operators that it leaves out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.tflite"
        path.write_bytes(network_file(name))
        command = [vela, *_VELA, "--output-dir", folder, str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"{vela} {name}: {ended.stderr.strip()[-500:]}")
        (summary,) = Path(folder).glob(f"{name}_summary_*.csv")
        with summary.open(newline="") as file:
            (row,) = csv.DictReader(file)
    left = re.search(r"CPU operators = (\d+)", ended.stdout)
    return int(float(row["cycles_total"])), int(left[1]) if left else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the cycles, and the page")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", default="", metavar="REGEX", help="only networks that match")
    parser.add_argument("--vela", metavar="FILE", help="with --write: estimate with this Vela, too")
    arguments = parser.parse_args()
    recorded = read_rows()
    if arguments.page:
        PAGE.write_text(page(recorded.values()), encoding="utf-8")
        return 0
    records: list[NetworkRecord] = []
    for name in find_networks([arguments.only]):
        record = measure_network("16x16", name)
        print(f"{name}: {record.cycles:,} cycles, {record.ratio:.2f}", flush=True)
        records.append(record)
        if arguments.write:
            before = recorded.get(name, Row(record))
            vela = before.vela, before.vela_host
            if arguments.vela:
                vela = _estimate(arguments.vela, name)
            recorded[name] = Row(record, *vela)
    if arguments.write:
        write_rows(recorded.values())
        PAGE.write_text(page(read_rows().values()), encoding="utf-8")
        return 0
    found = worse(recorded, [each for each in records if each.network in recorded])
    for line in found:
        print(f"WORSE {line}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
