"""What ``make test`` runs where: each size somewhere, and one size of each bench on both."""

import pytest

from tpulite_tb.effort import repeats
from tpulite_tb.simulators import SIMULATORS, simulators_of
from tpulite_testing.regress import REGRESS


@pytest.mark.parametrize("sizes", range(1, 9))
def test_a_bench_has_its_first_size_on_both_simulators(sizes: int) -> None:
    chosen = simulators_of(sizes)
    assert len(chosen) == sizes and all(chosen)
    assert chosen[0] == SIMULATORS


@pytest.mark.skipif(bool(REGRESS), reason="make regress draws in full everywhere")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SIM": "verilator"}, 9),
        ({"SIM": "icarus"}, 3),
        ({"SIM": "verilator", "TPULITE_EFFORT": "part"}, 3),
    ],
)
def test_only_the_first_size_draws_in_full(monkeypatch, environment, expected) -> None:
    monkeypatch.delenv("TPULITE_EFFORT", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert repeats(9) == expected
