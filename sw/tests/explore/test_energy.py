import pytest

from tpulite.arch.config import Config
from tpulite.explore.energy import energy
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
    assert found.total == pytest.approx(sum(found.as_dict().values()))


def test_an_access_costs_twice_as_much_in_a_memory_four_times_as_large():
    runs = [Counts(buffer_reads=100)]
    small, large = (energy(Config(ub_rows=rows), runs).buffers for rows in (1024, 4096))
    assert large == pytest.approx(2 * small)
