"""Published networks: no more cycles than recorded, and the bits of LiteRT."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.bench import NetworkRecord, measure_network
from tpulite_testing.published.catalog import NETWORKS, SMALL, network_file
from tpulite_testing.published.table import Row, page, read_rows, worse

pytest_plugins = ("tpulite_testing.command_line",)

PAGE = Path(__file__).resolve().parents[3] / "docs/published.md"

LARGE = sorted(NETWORKS.keys() - set(SMALL))


def compare(records: list[NetworkRecord]) -> None:
    """Fail with what became worse."""
    if found := worse(read_rows(), records):
        advice = "`python scripts/published.py --write --only REGEX` records what became faster"
        pytest.fail("\n".join(["", *found, advice]), pytrace=False)


def test_no_small_network_takes_more_cycles_than_recorded():
    records = [measure_network("16x16", name) for name in SMALL]
    compare(records)
    recorded = read_rows()
    assert [(r.layers, r.bound, r.macs) for r in records] == [
        (it.layers, it.bound, it.macs) for it in (recorded[r.network].record for r in records)
    ]


@pytest.mark.regress("ten minutes; the small networks are measured above")
@pytest.mark.parametrize("name", LARGE)
def test_no_network_takes_more_cycles_than_recorded(name):
    compare([measure_network("16x16", name)])


@pytest.mark.parametrize("name", ["blazeface", "ds_tcn"])
def test_small_networks_are_exact(tpulite, tmp_path, name):
    check_exact(tpulite, tmp_path, name)


@pytest.mark.regress("a quarter of an hour; two small networks are compared above")
@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"blazeface", "ds_tcn"}))
def test_networks_are_exact(tpulite, tmp_path, name):
    check_exact(tpulite, tmp_path, name)


def check_exact(tpulite, tmp_path, name: str) -> None:
    """Compare the program, and each tensor of the definition, with LiteRT on the file."""
    (tmp_path / "net.tflite").write_bytes(network_file(name))
    code, out, err = tpulite("compare", "net.tflite", "--oracle", "litert-ref", "--limit", "1")
    assert (code, err) == (0, ""), out


def test_the_readme_states_how_the_networks_compare_with_vela():
    ratios = [row.vela / row.record.cycles for row in read_rows().values() if row.vela]
    stated = f"take {min(ratios):.1f} to {max(ratios):.1f} times fewer cycles than Vela"
    readme = (PAGE.parents[1] / "README.md").read_text()
    assert f"[{len(ratios)} published networks]" in readme
    assert stated in " ".join(readme.split())


def test_all_networks_are_recorded():
    assert list(read_rows()) == list(NETWORKS)


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(read_rows().values()), (
        "run `python scripts/published.py --page`"
    )


RECORD = NetworkRecord("unet", 1000, 90, 80, 70)


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        (RECORD, False),
        (replace(RECORD, cycles=89), False),
        (replace(RECORD, cycles=91), True),
        (replace(RECORD, cycles=10, host="TRANSPOSE"), True),
    ],
)
def test_one_cycle_more_is_worse(now, is_worse):
    assert bool(worse({"unet": Row(RECORD)}, [now])) == is_worse
