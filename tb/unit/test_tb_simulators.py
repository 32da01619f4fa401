"""What ``make test`` runs where: each size somewhere, and one size of each bench on both."""

import pytest

from tpulite_tb.effort import repeats
from tpulite_tb.simulators import PARTS, SIMULATORS, runs_of
from tpulite_testing.regress import REGRESS


@pytest.mark.parametrize("bench", ["fifo", "matrix_unit"])
@pytest.mark.parametrize("sizes", range(1, 9))
def test_a_bench_has_its_first_size_on_both_simulators(bench: str, sizes: int) -> None:
    chosen = runs_of(bench, sizes)
    assert len(chosen) == sizes and all(chosen)
    assert set(chosen[0]) == set(SIMULATORS)
    assert chosen[0]["verilator"] == 1


def test_a_size_that_runs_on_one_simulator_alone_draws_more_than_a_first_one_on_icarus() -> None:
    for bench, simulator in {"fifo": "icarus", "matrix_unit": "verilator"}.items():
        assert list(runs_of(bench, 2)[1]) == [simulator]
        assert 1 < runs_of(bench, 2)[1][simulator] < PARTS["icarus"]


@pytest.mark.skipif(bool(REGRESS), reason="make regress draws in full everywhere")
@pytest.mark.parametrize(("parts", "expected"), [(None, 9), ("1", 9), ("4", 3), ("12", 1)])
def test_a_bench_draws_a_part(monkeypatch, parts: str | None, expected: int) -> None:
    monkeypatch.delenv("TPULITE_EFFORT", raising=False)
    if parts:
        monkeypatch.setenv("TPULITE_EFFORT", parts)
    assert repeats(9) == expected


@pytest.mark.skipif(bool(REGRESS), reason="make regress draws in full everywhere")
def test_make_regress_draws_in_full(monkeypatch) -> None:
    monkeypatch.setattr("tpulite_tb.effort.REGRESS", "1")
    monkeypatch.setenv("TPULITE_EFFORT", "12")
    assert repeats(9) == 9
