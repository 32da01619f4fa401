import pytest

from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.compiler.schedule.schedule import schedule, schedule_commands
from tpulite.compiler.schedule.scheduled import Lifetime
from tpulite.compiler.schedule.uses import join_in_place
from tpulite_testing.compiling.tilings import CONFIG, conv, load, store, tiling, vector


def chain(**new):
    a = Buffer("a", 8, bank=0)
    b = Buffer("b", **{"rows": 8, "over": a, **new})
    return a, b


def test_joins_what_ends_where_the_other_begins():
    a, b = chain()
    c = Buffer("c", 8, over=b)
    ops = [conv(a, a, layer=0), vector(b, a, layer=1), vector(b, a, layer=1)]
    ops += [vector(c, b, layer=2), store(c)]
    assert join_in_place(tuple(ops)) == {b: a, c: a}
    result = schedule(tiling(*ops), CONFIG, lead=4)
    assert result.rows[a] == result.rows[b] == result.rows[c]
    assert result.bound == 8
    assert result.places == (Lifetime(a, 0, 4),)
    scheduled = schedule_commands(tiling(*ops), CONFIG, lead=4)
    assert isinstance(scheduled, tuple) and scheduled[0][-2]["row"] == result.rows[c]


def test_fits_where_two_places_would_not():
    a = Buffer("a", 40, side=Side.BOTTOM)
    b = Buffer("b", 40, side=Side.BOTTOM, over=a)
    ops = [conv(a, a), vector(b, a, layer=1), store(b)]
    assert schedule(tiling(*ops), CONFIG, lead=4).bound == 40


@pytest.mark.parametrize("new", [{"rows": 7}, {"bank": 4}, {"row": 0}])
def test_needs_equal_rows_and_bank(new):
    a, b = chain(**new)
    assert join_in_place((conv(a, a), vector(b, a, layer=1))) == {}


def test_needs_what_is_over_to_be_movable():
    a = Buffer("a", 8, row=0)
    b = Buffer("b", 8, over=a)
    assert join_in_place((vector(b, a, layer=1),)) == {}


@pytest.mark.parametrize(
    "use",
    [
        lambda a, b: conv(a, a, layer=1),
        lambda a, b: vector(Buffer("c", 8), a, layer=2),
        lambda a, b: vector(Buffer("c", 8), a, layer=1),
        lambda a, b: store(a),
        lambda a, b: load(a),
    ],
)
def test_nobody_else_may_need_the_old_one_later(use):
    a, b = chain()
    first, last = conv(a, a), vector(b, a, layer=1)
    assert join_in_place((first, last, use(a, b))) == {}
    assert join_in_place((first, use(a, b), last)) == {b: a}


@pytest.mark.parametrize(
    "use", [lambda a, b: conv(b, a, layer=1), lambda a, b: vector(b, a, layer=2)]
)
def test_only_the_vectors_of_one_layer_may_join(use):
    a, b = chain()
    assert join_in_place((conv(a, a), vector(b, a, layer=1), use(a, b))) == {}


def test_nobody_else_may_touch_the_new_one_before():
    a, b = chain()
    ops = (conv(a, a), vector(b, a, layer=1), store(b), vector(b, a, layer=1))
    assert join_in_place(ops) == {}


def test_one_place_goes_to_one_buffer():
    a, b = chain()
    c = Buffer("c", 8, over=a)
    both = Op(Opcode.VECTOR, 1, {}, {"a_row": Region(a), "out_row": Region(b), "b_row": Region(c)})
    assert join_in_place((conv(a, a), both)) == {b: a}
