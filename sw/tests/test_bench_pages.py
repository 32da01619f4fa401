import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tpulite.bench import ABLATED, EVERY, MECHANISMS, Ablation, Compilation, Record
from tpulite.report.peers import peers_of
from tpulite_testing.replay.corpus import QUICK
from tpulite_testing.replay.record import read_records

ROOT = Path(__file__).resolve().parents[2]


def pages(folder, *files):
    command = [sys.executable, ROOT / "scripts/bench_pages.py", *files, "--root", folder]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def record(workload, cycles, exact=True):
    return Record(
        workload=workload,
        macs=303_104 * 16,
        cycles=cycles,
        cycles_per_batch=cycles / 16,
        cycles_per_vector=None,
        limit_cycles=1184 * 16,
        dram_cycles=100,
        memory="reference",
        utilization=0.5,
        limit_share=0.5,
        bit_exact=exact,
        device="rtl",
        array_size=16,
        cycles_per_second=None,
        dram_read_bytes=123_456,
        dram_written_bytes=4096,
        counters={},
        peers=[asdict(peer) for peer in peers_of(workload)],
    )


def ablation(off, cycles, same=False):
    return Ablation("kws", off, same, cycles, 1000 + cycles, 16, 148, True, "model")


@pytest.fixture
def write(tmp_path):
    def save(name, *entries):
        path = tmp_path / name
        path.write_text(json.dumps([asdict(entry) for entry in entries]))
        return path

    return save


def test_pages_hold_the_figures(tmp_path, write):
    figures = {"mlp_b16_stream": 19_211, "gemm_4x4x4": 160, "add_56x56x48": 19_000}
    bench = write("bench.json", *(record(*figure) for figure in figures.items()))
    compiled = write("compile.json", Compilation("resnet8", 14, 118, 0.061, 51_200_000))
    others = {off: ablation(off, 15_000 if off != "dense mode" else 34_094) for off in MECHANISMS}
    others["layer groups"] = ablation("layer groups", 15_106, same=True)
    whole = ablation(None, 15_106)
    ablations = write("ablation.json", whole, *others.values())
    result = pages(tmp_path, bench, compiled, ablations)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

    text = (tmp_path / "docs/bench.md").read_text()
    assert "\n| `mlp_b16_stream` | rtl | 1,184 | 1,201 | 1,202 | yes | SCALE-Sim OS 16x16: " in text
    assert text.count("| `gemm_4x4x4` |") == 1  # it has neither target nor peers
    assert "| 19,900 | yes |  |  |\n" in text  # a target, and no peer
    assert "| 19,211 | 1,200.7 | 18,944 | 50.0% | 123,456 | 4,096 |\n" in text
    assert "| `resnet8` | 14 | 118 | 0.06 | 0.05 | 51 MB |\n" in text

    text = (tmp_path / "docs/ablation.md").read_text()
    cycles, traffic = (line for line in text.splitlines() if line.startswith("| `kws`"))
    assert cycles.startswith("| `kws` | model | 15,106 |  | 15,000 (-0.7%) |")
    assert cycles.endswith("| 34,094 (+125.7%) | 15,000 (-0.7%) |")
    assert traffic.endswith("| 35,094 + 16 | 16,000 + 16 |")
    assert all(f"\n| {name} | " in text for name in MECHANISMS)


def test_only_pages_with_figures_are_written(tmp_path, write):
    assert pages(tmp_path, write("bench.json", record("kws", 16))).returncode == 0
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["bench.md"]


def test_wrong_figures_are_refused(tmp_path, write):
    result = pages(tmp_path, write("bench.json", record("kws", 16, exact=False)))
    assert result.returncode == 2 and "results are not exact: kws\n" in result.stderr
    strange = tmp_path / "strange.json"
    strange.write_text('[{"workload": "kws"}]')
    result = pages(tmp_path, strange)
    assert result.returncode == 2 and "has not written" in result.stderr
    assert not (tmp_path / "docs").exists()


def test_pages_of_the_repository_show_every_workload_and_mechanism():
    """They cannot be measured again here; but they must be those of this version's workloads."""
    bench, ablations = ((ROOT / "docs" / name).read_text() for name in ("bench.md", "ablation.md"))
    assert all(f"| `{name}` |" in bench for name in EVERY)
    assert all(f"| `{name}` |" in ablations for name in ABLATED)
    assert all(f"| {name} |" in ablations for name in MECHANISMS)


def test_cycles_of_the_page_are_those_of_todays_programs():
    """The replay corpus is compiled anew by its test, and counts within a few cycles of the RTL."""
    text = (ROOT / "docs/bench.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| rtl \| [\d,]+ \| ([\d,]+) \|  \|", text, re.MULTILINE)
    measured = {name: int(cycles.replace(",", "")) for name, cycles in rows}
    records = {x.removeprefix("bench/"): y.cycles for x, y in read_records(QUICK.path).items()}
    both = measured.keys() & records.keys()
    assert len(both) > 20
    assert [x for x in sorted(both) if abs(measured[x] - (records[x] or 0)) > 4] == []
