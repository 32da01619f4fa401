"""Write docs/bench.md and docs/ablation.md from what `tpulite bench` has measured.

tpulite bench --json build/bench.json
tpulite bench --compile --json build/compile.json
tpulite bench --ablation --quick --json build/ablation.json
tpulite bench --ablation mobilenet_v2_1.0_224 resnet50_224 --device model --json build/large.json
python scripts/bench_pages.py build/bench.json build/compile.json build/ablation.json \
    build/large.json
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from markdown_table import table
from tpulite.bench import MECHANISMS, Ablation, Compilation, Record
from tpulite.bench.goals import COMPILE_BYTES, COMPILE_SECONDS, standing
from tpulite.cli.bench_tables import cycles_each, number

ROOT = Path(__file__).resolve().parents[1]

_INSTEAD = {
    "layer groups": "layers run one after the other; feature maps that do not fit go through DRAM",
    "rolling buffers": "rows that two slices of a group share are computed or loaded again",
    "prefetch": "loads, and weight tiles of the array, wait until all earlier computation has "
    "ended",
    "block-level start": "layers use as few commands as the accumulators allow, so the next layer "
    "starts late",
    "interleaved depthwise": "a depthwise convolution streams one output row at a time",
    "dense mode": "each pixel of an input with few channels is padded to a whole vector in DRAM",
    "dead channel removal": "channels that no result needs are computed as well",
}

T = TypeVar("T", Record, Ablation, Compilation)


def bench_page(records: Sequence[Record], compilations: Sequence[Compilation]) -> str:
    """Return docs/bench.md."""
    standings = [(record, ours) for record in records if (ours := standing(record)) is not None]
    lines = [
        "# Benchmarks",
        "",
        "`scripts/bench_pages.py` writes this page; its docstring has the commands. Cycles of the",
        "device `rtl` are read from the chip's counters, those of `model` come from the",
        "[cycle model](decisions/0004-the-cycle-model.md). They are counted from START to the",
        "interrupt, with all data in DRAM at the start and the reference memory (128-bit AXI, 50",
        "cycles of read latency). All results are bit-exact.",
        "",
        "## Targets and other machines",
        "",
        "The best other machine is the one with the fewest cycles among the machines below with",
        "256 multipliers; its conditions are given with it. For workloads of several batches,",
        "cycles are those of one batch of 16.",
        "",
        *table(
            "workload|device|MACs / 256|cycles|target|met|best other machine|its cycles",
            (
                (
                    f"`{record.workload}`",
                    record.device,
                    f"{ours.limit:,}",
                    f"{ours.cycles:,.0f}",
                    f"{ours.goal:,}",
                    "yes" if ours.met else "**no**",
                    f"{ours.peer}: {ours.peer_conditions}" if ours.peer else "",
                    number(ours.peer_cycles),
                )
                for record, ours in standings
            ),
        ),
        "## All workloads",
        "",
        "`limit` is the larger of MACs / 256 and the minimum number of DRAM beats. `each` is the",
        "number of cycles per batch of 16, or per vector. Bytes include the commands.",
        "",
        *table(
            "workload|device|MACs|cycles|each|limit|utilization|bytes read|bytes written",
            (
                (
                    f"`{record.workload}`",
                    record.device,
                    f"{record.macs:,}",
                    number(record.cycles),
                    cycles_each(record),
                    f"{max(record.limit_cycles, record.dram_cycles):,}",
                    "" if record.utilization is None else f"{record.utilization:.1%}",
                    number(record.dram_read_bytes),
                    number(record.dram_written_bytes),
                )
                for record in records
            ),
        ),
        "## Compiling",
        "",
        "Seconds from integer layers to a checked program, nothing from a cache, and the most",
        "memory of a process that does nothing else. Targets: the seconds below, and "
        f"{COMPILE_BYTES / 1e9:g} GB.",
        "",
        *table(
            "network|layers|commands|seconds|target|memory",
            (
                (
                    f"`{x.workload}`",
                    f"{x.layers:,}",
                    f"{x.commands:,}",
                    f"{x.seconds:.2f}",
                    f"{COMPILE_SECONDS[x.workload]:.2f}" if x.workload in COMPILE_SECONDS else "",
                    "" if x.peak_bytes is None else f"{x.peak_bytes / 1e6:,.0f} MB",
                )
                for x in compilations
            ),
        ),
        "## Figures of other machines",
        "",
        *table(
            "workload|machine|cycles|figure|conditions|source",
            (
                (
                    f"`{record.workload}`",
                    peer["peer"],
                    f"{peer['cycles']:,}",
                    peer["kind"],
                    peer["conditions"],
                    peer["source"],
                )
                for record in records
                for peer in record.peers
            ),
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def ablation_page(results: Sequence[Ablation]) -> str:
    """Return docs/ablation.md."""
    whole = {x.workload: x for x in results if x.off is None}
    by_key = {(x.workload, x.off): x for x in results}
    head = "workload|device|everything on|" + "|".join(MECHANISMS)
    cycles, traffic = [], []
    for name, base in whole.items():
        others = [by_key[name, off] for off in MECHANISMS]
        cycles.append(
            (f"`{name}`", base.device, number(base.cycles), *(_cycles(x, base) for x in others))
        )
        traffic.append(
            (f"`{name}`", base.device, _moved(base), *("" if x.same else _moved(x) for x in others))
        )
    lines = [
        "# Ablation: what each mechanism is worth",
        "",
        "Each mechanism of the compiler is disabled in turn and compared with the default, which",
        "enables all. `scripts/bench_pages.py` writes this page; its docstring has the commands.",
        "Cycles of the device `rtl` are read from the chip's counters; on `model`, results come",
        "from the golden model and cycles from the",
        "[cycle model](decisions/0004-the-cycle-model.md). All results are bit-exact. An empty",
        "cell means that the program does not change.",
        "",
        *table("disabled|what happens instead", _INSTEAD.items()),
        "## Cycles",
        "",
        *table(head, cycles),
        "## Bytes of DRAM",
        "",
        "Bytes read, commands included, plus bytes written.",
        "",
        *table(head, traffic),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _cycles(result: Ablation, base: Ablation) -> str:
    if result.same or not result.cycles or not base.cycles:
        return ""
    return f"{result.cycles:,} ({result.cycles / base.cycles - 1:+.1%})"


def _moved(result: Ablation) -> str:
    return f"{number(result.dram_read_bytes)} + {number(result.dram_written_bytes)}"


def _pick(entries: Iterable[dict[str, Any]], kind: type[T]) -> list[T]:
    """Return the entries that are of a kind, told by their fields."""
    names = {field.name for field in fields(kind)}
    return [kind(**entry) for entry in entries if entry.keys() == names]


def main() -> int:
    """Write the pages for which there are figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="what `tpulite bench --json` wrote")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree to write to")
    options = parser.parse_args()
    entries = [entry for path in options.files for entry in json.loads(path.read_text())]
    records, compilations = _pick(entries, Record), _pick(entries, Compilation)
    results = _pick(entries, Ablation)
    if len(records) + len(compilations) + len(results) < len(entries):
        parser.error("there are figures that this version of `tpulite bench` has not written")
    wrong = [x.workload for x in (*records, *results) if not x.bit_exact]
    if wrong:
        parser.error(f"results are not exact: {', '.join(dict.fromkeys(wrong))}")
    pages = {"bench.md": bench_page(records, compilations)} if records else {}
    if results:
        pages["ablation.md"] = ablation_page(results)
    for name, text in pages.items():
        path: Path = options.root / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
