"""``tpulite gemm``: what it shows of a product, and what it refuses."""

import json

import pytest

pytest_plugins = ("tpulite_testing.command_line",)


def test_both_orders_are_shown_beside_panels_and_tiles(tpulite):
    code, out, err = tpulite("gemm", "9x20x5")
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "A by rows panels: 1 of 8, 1 of 1 180 320" in rows
    assert "B by columns panels: 1 of 4, 1 of 1 100 320" in rows
    assert "B tiles: 2 x 1 of 16x16 512" in rows
    assert [row.split()[0] for row in rows[-3:]] == ["fast", "document", "device:"]
    assert rows[-1] == "device: golden; every element equals numpy's A @ B"


def test_one_order_has_its_figures_and_pictures(tpulite, tmp_path):
    words = ("--order", "document", "--panels", "p.svg", "--tiles", "t.svg", "--json", "-")
    code, out, err = tpulite("gemm", "20x4x20", *words, "--config", "8x8")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["m"], record["k"], record["n"], record["device"]) == (20, 4, 20, "golden")
    (order,) = record["orders"]
    assert (order["order"], order["products"], order["rows"]) == ("document", 3 * 3, 8)
    assert order["cycles"] > 0 and order["dram_bytes"] > 0
    assert "out[8x8] += A[8x4] B[4x8]" in (tmp_path / "p.svg").read_text()
    assert "Tiles of 8x8" in (tmp_path / "t.svg").read_text()


@pytest.mark.parametrize("size", ["20x30", "0x1x1", "axbxc", "1x1x1x1"])
def test_what_is_no_size_is_refused(tpulite, tmp_path, size):
    code, out, err = tpulite("gemm", size, "--panels", "p.svg")
    assert (code, out) == (2, "")
    assert err == f"tpulite: {size!r} is not a size: it must be MxKxN, like 25x64x49\n"
    assert not (tmp_path / "p.svg").exists()


@pytest.mark.parametrize("size", ["9999999x99999x99999", "1x99999999x1", "9999x1x9999"])
def test_what_is_too_large_is_named(tpulite, size):
    assert tpulite("gemm", size) == (
        2,
        "",
        f"tpulite: {size} is too large: a matrix may have 16,777,216 elements; give smaller "
        "extents, like 256x256x256\n",
    )
