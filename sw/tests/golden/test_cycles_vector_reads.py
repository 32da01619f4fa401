"""What the cycle model's vector path reads, against the rules in plain loops."""

import numpy as np
import pytest

from tpulite.golden.timing.banks import Traffic
from tpulite.golden.timing.phases import FREE, KnownPhases
from tpulite.golden.timing.vector_reads import VectorReads

BANKS = 8
SEEDS = range(60)


def random_vector(rng):
    """Return fields of a VECTOR that need make no sense, but are legal."""
    sizes = ("rows", "columns", "window_rows", "window_columns")
    places = ("a_row", "a_pitch", "a_step", "window_pitch", "param_row", "out_row", "out_pitch")
    fields = {name: int(rng.integers(1, 5)) for name in sizes}
    return fields | {name: int(rng.integers(0, 99)) for name in (*places, "out_step")}


def rows_of(fields, parameters):
    rows = [fields["param_row"] + i for i in range(parameters)]
    for y in range(fields["rows"]):
        for x in range(fields["columns"]):
            first = fields["a_row"] + y * fields["a_pitch"] + x * fields["a_step"]
            for wy in range(fields["window_rows"]):
                start = first + wy * fields["window_pitch"]
                rows += range(start, start + fields["window_columns"])
    return rows


def plain_banks(rows, begin, better, *, lost=(), earliest=()):
    """Return the bank that is asked for in each cycle, None if none is."""
    asked, refused, cycle = [], 0, begin
    earliest = earliest or [begin] * len(rows)
    for row, ready in zip(rows, earliest, strict=True):
        while cycle < ready:
            asked.append(None)
            cycle += 1
        while True:
            asked.append(row % BANKS)
            cycle += 1
            wins = better.get(cycle - 1) != row % BANKS or refused == 16
            if wins and cycle - 1 not in lost:
                refused = 0
                break
            refused += 1
    return asked


def random_traffic(rng, begin, length):
    """Return a better port, and the bank that it asks for by cycle."""
    choices = [*range(BANKS), *[FREE] * int(rng.integers(0, 12))]
    phases = bytes(rng.choice(choices, length).tolist())
    if rng.random() < 0.3:  # it stays in a bank
        phases = bytes(-i % BANKS for i in range(length))
    traffic = Traffic(BANKS)
    traffic.add(begin, begin + length, KnownPhases(phases))
    banks = {begin + i: (p + begin + i) % BANKS for i, p in enumerate(phases) if p != FREE}
    return traffic, banks


def banks_of(reads, begin):
    return [(p + begin + i) % BANKS if p < BANKS else None for i, p in enumerate(reads.made())]


@pytest.mark.parametrize("seed", SEEDS)
def test_vectors_are_read_past_better_ports(seed):
    rng = np.random.default_rng(seed)
    fields, parameters = random_vector(rng), int(rng.integers(0, 5))
    traffic, better = random_traffic(rng, 100, int(rng.integers(1, 200)))
    reads = VectorReads(fields, "a", 95, parameters, (Traffic(BANKS), traffic))
    expected = plain_banks(rows_of(fields, parameters), 95, better)
    assert banks_of(reads, 95) == expected
    assert reads.end() == 95 + len(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_starving_port_takes_a_cycle(seed):
    rng = np.random.default_rng(seed)
    fields = random_vector(rng) | {"rows": 4, "columns": 4}
    reads = VectorReads(fields, "a", 50, 0, (Traffic(BANKS),))
    assert reads.asks(49) == reads.asks(50 + len(reads.made())) == -1
    lost = [50 + int(rng.integers(0, 8)), 70 + int(rng.integers(0, 8))]
    lost = [cycle for cycle in lost if reads.asks(cycle) >= 0]
    for cycle in [*lost, *lost]:  # the second time it is known
        reads.lose(cycle)
    assert banks_of(reads, 50) == plain_banks(rows_of(fields, 0), 50, {}, lost=lost)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_come_no_earlier_than_their_vectors(seed):
    rng = np.random.default_rng(seed)
    fields = random_vector(rng) | {"window_rows": 1, "window_columns": 1}
    held, _ = random_traffic(rng, 100, 40)
    reads = VectorReads(fields, "a", 100, 0, (held,))
    reads.made()
    traffic, better = random_traffic(rng, 105, 60)
    written = VectorReads(fields, "out", 105, 0, (traffic,), reads.delays)

    ready, late = [], 0
    for row in range(fields["rows"] * fields["columns"]):
        late = max([late, *(delay for first, delay in reads.delays if first <= row)])
        ready.append(105 + row + late)
    rows = [
        fields["out_row"] + y * fields["out_pitch"] + x * fields["out_step"]
        for y in range(fields["rows"])
        for x in range(fields["columns"])
    ]
    assert reads.end() == 100 + len(ready) + late
    assert banks_of(written, 105) == plain_banks(rows, 105, better, earliest=ready)


def test_what_is_known_later_counts():
    traffic = Traffic(BANKS)
    fields = dict.fromkeys(("rows", "columns", "window_rows", "window_columns"), 1)
    fields |= {"columns": 8, "a_row": 0, "a_pitch": 8, "a_step": 1, "window_pitch": 0}
    reads = VectorReads(fields, "a", 0, 0, (traffic,))
    assert reads.end() == 8
    traffic.add(3, 5, KnownPhases(bytes([0, 7])))
    assert reads.end() == 10
