import pytest

from tpulite.compiler.ops import Buffer
from tpulite.compiler.options import Options
from tpulite.compiler.schedule import fit as module
from tpulite.compiler.schedule.allocate import Allocation, place_buffers
from tpulite.compiler.schedule.fit import allocate_buffers, schedule_ops
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import LEAD
from tpulite_testing.compiling.tilings import CONFIG, conv, load, store, tiling


def fit(ops, options):
    """Return a schedule and its places."""
    ordered = schedule_ops(ops, CONFIG, options)
    assert not isinstance(ordered, Shortage)
    return ordered, allocate_buffers(ordered, CONFIG, options)


def products(rows=4):
    """Return ten products, each with weights of its own."""
    ops = []
    for number in range(10):
        weights, out = Buffer(f"w{number}", rows), Buffer(f"out{number}", 2)
        ops += [load(weights), conv(out, weights, weights), store(out)]
    return tiling(*ops)


@pytest.mark.parametrize("prefetch", [True, False])
def test_loads_go_ahead_only_if_they_may(prefetch):
    ordered, allocation = fit(products(), Options(prefetch=prefetch))
    assert ordered.lead == (LEAD if prefetch else 0)
    kinds = [op.opcode for op in ordered.ops]
    assert (kinds == [op.opcode for op in products().ops]) is not prefetch
    assert allocation.peak >= allocation.bound == ordered.bound


def test_what_an_allocator_cannot_pack_stays_where_scheduling_has_put_it(monkeypatch):
    def place(ordered, config, allocator="online"):
        if allocator == "longest":
            buffer = ordered.lifetimes[0].buffer
            return Shortage(buffer, free=0, largest=0, row_bytes=16, allocator=allocator)
        return place_buffers(ordered, config, allocator)

    monkeypatch.setattr(module, "place_buffers", place)
    ordered, allocation = fit(products(), Options(allocator="longest"))
    assert allocation.rows == ordered.rows and ordered.lead == LEAD


def test_what_never_fits_is_said():
    shortage = schedule_ops(products(rows=70), CONFIG, Options())
    assert isinstance(shortage, Shortage)
    assert str(shortage).startswith("'w0' needs 70 rows (1120 bytes), but ")


def test_places_are_not_trusted(monkeypatch):
    def place(ordered, config, allocator):
        found = place_buffers(ordered, config, allocator)
        return Allocation(dict.fromkeys(found.rows, 0), found.peak, found.bound)

    monkeypatch.setattr(module, "place_buffers", place)
    with pytest.raises(AssertionError, match=r"^Buffers overlap: "):
        fit(products(), Options())
