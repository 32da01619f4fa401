"""Single bit flips in the chip while it runs networks: a table, a component a line.

What has been tried is kept, as that of `tpulite regress --jobs bit-flips`, so an interrupted run
goes on, and both know each other's results. The last line weighs components by their bits: it is
what a flip of any bit of the chip does. The exit code is 1 if a full reset did not bring the chip
back. --ecc prints instead what parity, or single-error correction and double-error detection, would
add to the memories.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.cache import cache_home
from tpulite.cli.workers import study_progress
from tpulite.configs import named_config
from tpulite.executors import LocalExecutor
from tpulite.executors.kept import Records
from tpulite.regress.regression import run_regression, run_seeds, seed_ranges
from tpulite_tb.flips import Fate, components

PAGE = Path(__file__).resolve().parents[1] / "docs/trust.md"
_BLOCK = re.compile(r"(?<=<!-- once: `make flips COUNT=)\d+.*?(?=<!-- end of once)", re.DOTALL)
_JOB = "bit-flips"
_COLUMNS = (*Fate, "strayed", "lasting")


def _line(name: str, bits: int, flips: int, shares: list[float]) -> str:
    percents = " | ".join(f"{100 * share:.1f}" for share in shares)
    return f"| {name} | {bits:,} | {flips:,} | {percents} |"


def _check_bits(bits: int) -> int:
    """Return the bits that extended Hamming code adds to a word."""
    code = 2
    while 1 << code < bits + code + 1:
        code += 1
    return code + 1


def _print_ecc() -> None:
    """Print a table of the large memories of two machines."""
    print("| machine | memory | rows x bits | parity a row | SECDED a row | more bits |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name in ("4x4", "16x16"):
        config: Config = named_config(name)
        memories = {
            "unified buffer": (config.ub_rows, 8 * config.row_bytes),
            "accumulators": (config.acc_rows, 32 * config.array_size),
        }
        for memory, (rows, bits) in memories.items():
            more = _check_bits(bits)
            size = f"{rows:,} x {bits}"
            print(f"| {name} | {memory} | {size} | 1 | {more} | {100 * more / bits:.1f} % |")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first flip")
    parser.add_argument("--count", type=int, default=5_000, help="how many")
    parser.add_argument("--workers", type=int, help="processes, by default one for each core")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    parser.add_argument("--ecc", action="store_true", help="what codes would add to the memories")
    options = parser.parse_args()
    if options.ecc:
        _print_ecc()
        return
    sizes = {name: sum(each.size for each in found) for name, found in components().items()}
    tasks = list(seed_ranges([_JOB], range(options.first, options.first + options.count)))
    records = Records(cache_home() / "regress")
    with LocalExecutor(run_seeds, None, options.workers) as executor, study_progress() as tell:
        outcome = run_regression(tasks, executor, records, tell=tell)[_JOB]

    names = " | ".join(f"{name} %" for name in _COLUMNS)
    lines = [f"| component | bits | flips | {names} |", "| --- |" + " ---: |" * (2 + len(_COLUMNS))]
    weighted: Counter[str] = Counter()
    for name in sorted(sizes):
        counts = {what: outcome.counts[f"{what} of {name}"] for what in _COLUMNS}
        flips = sum(counts[fate] for fate in Fate if fate in counts)
        shares = {what: count / max(1, flips) for what, count in counts.items()}
        weighted.update({what: share * sizes[name] for what, share in shares.items()})
        lines.append(_line(name, sizes[name], flips, list(shares.values())))
    bits = sum(sizes.values())
    lines.append(
        _line("any bit", bits, outcome.seeds, [weighted[what] / bits for what in _COLUMNS])
    )
    table = "\n".join(lines)
    print(table)
    if options.write:
        block = f"{options.count}` -->\n\n{table}\n\n"
        PAGE.write_text(_BLOCK.sub(block.replace("\\", ""), PAGE.read_text()))
    for (first, _), reason in outcome.failures.items():
        print(f"{first}: {reason.splitlines()[0]}", file=sys.stderr)
    sys.exit(bool(outcome.failures))


if __name__ == "__main__":
    main()
