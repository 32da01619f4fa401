from dataclasses import asdict

import pytest

from tpulite.arch.config import Config
from tpulite.explore.energy import TABLES, energy
from tpulite.explore.measure import Counts


def test_energy_is_counts_times_published_energies():
    config = Config(array_size=8, ub_rows=8192, ub_banks=8, acc_rows=256)  # two memories of 8 KiB
    run = Counts(
        array_steps=100,
        buffer_reads=30,
        buffer_writes=10,
        accumulator_reads=2,
        accumulator_writes=3,
        result_rows=5,
        read_bytes=60,
        written_bytes=20,
    )
    found = energy(config, [run, run])
    assert found.array == pytest.approx(2 * 100 * 64 * 0.3 / 1000)
    assert found.buffers == pytest.approx(2 * (40 * 10 + 5 * 4 * 10) / 1000)
    assert found.results == pytest.approx(2 * 5 * 8 * 3.1 / 1000)
    assert found.dram == pytest.approx(2 * 80 / 8 * 1.95)
    assert found.total == pytest.approx(sum(asdict(found).values()))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_an_access_costs_what_the_source_says_and_in_between_in_between(table):
    for size, published in table.memories:
        assert table.access(size) == pytest.approx(published)
    assert [table.access(1 << i) for i in range(8, 24)] == sorted(
        table.access(1 << i) for i in range(8, 24)
    )
    assert TABLES["45nm"].access(2048) == pytest.approx(5)  # as from 8 to 32 KiB: the square root


def test_the_table_is_chosen_by_whoever_asks():
    run = Counts(array_steps=100, buffer_reads=30, result_rows=5, read_bytes=60)
    old, new = (energy(Config(), [run], TABLES[name]) for name in ("45nm", "7nm"))
    assert new.array == pytest.approx(old.array / 3)
    assert old == energy(Config(), [run]) and new.total < old.total
