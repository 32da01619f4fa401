import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, Opcode, VectorOp
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.schedule.fit import verify_places
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, find_lifetimes
from tpulite_testing.compiling.rectangles import (
    NETWORKS,
    collide,
    lifetimes,
    network_schedule,
    schedule_of,
)
from tpulite_testing.timing import yardsticks

CONFIG = Config(ub_rows=256)


@given(lifetimes(), st.data())
def test_agrees_with_comparing_all_pairs(spans, data):
    rows = {}
    for each in spans:
        row = data.draw(st.integers(0, 100))
        bank = each.buffer.bank
        rows[each.buffer] = row if bank is None else row // 8 * 8 + bank
    found = verify_places(schedule_of(spans), rows, CONFIG)
    assert bool(found) == collide(spans, rows)
    names = {each.buffer.name for each in spans}
    assert all(set(text.split("'")[1::2]) <= names for text in found)


@pytest.mark.parametrize("name", NETWORKS)
def test_finds_any_buffer_that_is_moved(name):
    config, schedule = NETWORKS[name], network_schedule(name)
    assert verify_places(schedule, schedule.rows, config) == ()
    spans = schedule.lifetimes
    for each in spans[:: max(1, len(spans) // 40)]:
        others = [
            other.buffer
            for other in spans
            if other.first <= each.last
            and other.last >= each.first
            and other.buffer is not each.buffer
            and other.buffer.over is not each.buffer
            and each.buffer.over is not other.buffer
        ]
        if not others:
            continue
        moved = {**schedule.rows, each.buffer: schedule.rows[others[0]]}
        assert any(
            f"{each.buffer.name!r}" in text for text in verify_places(schedule, moved, config)
        )


def test_looks_at_commands_alone():
    a, b = Buffer("a", 4), Buffer("b", 4)
    right = schedule_of((Lifetime(a, 0, 2), Lifetime(b, 2, 3)))
    wrong = Schedule(right.ops, (Lifetime(a, 0, 1), Lifetime(b, 2, 3)), {b: a}, {}, 0, 0)
    text = "'b' overlaps 'a' from command 2 (VECTOR) on"
    assert verify_places(wrong, {a: 0, b: 3}, CONFIG) == (text,)
    assert verify_places(wrong, {a: 0, b: 4}, CONFIG) == ()


def test_names_what_lies_outside_or_in_the_wrong_bank():
    a, b, c = Buffer("a", 10), Buffer("b", 10), Buffer("c", 10, bank=4)
    schedule = schedule_of((Lifetime(a, 0, 0), Lifetime(b, 1, 1), Lifetime(c, 2, 2)), first_row=8)
    assert verify_places(schedule, {a: 7, b: 250}, CONFIG) == (
        "'a' takes rows 7 to 16, but there are 8 to 255",
        "'b' takes rows 250 to 259, but there are 8 to 255",
        "'c' has no place",
    )
    assert verify_places(schedule, {a: 8, b: 8, c: 9}, CONFIG) == (
        "'c' begins in bank 1, not in 4",
    )
    assert verify_places(schedule, {a: 8, b: 246, c: 12}, CONFIG) == ()


def test_resident_buffers_live_forever():
    weights, a = Buffer("weights", 4, row=2), Buffer("a", 4)
    schedule = schedule_of((Lifetime(weights, 3, 3), Lifetime(a, 0, 1)))
    assert verify_places(schedule, {a: 6}, CONFIG) == ()
    text = "'a' overlaps 'weights' from command 0 (VECTOR) on"
    assert verify_places(schedule, {a: 5}, CONFIG) == (text,)


def test_costs_little_for_each_buffer():
    spans = [Lifetime(Buffer(str(i), 4), i, i + 12) for i in range(5000)]
    rows = {each.buffer: 8 * (i % 16) for i, each in enumerate(spans)}
    schedule = schedule_of(spans)
    assert verify_places(schedule, rows, CONFIG) == ()
    cost = yardsticks(lambda: verify_places(schedule, rows, CONFIG)) / len(spans)
    print(f"{cost:.1f} yardsticks a buffer")
    assert cost < 5


class TestInPlace:
    """Buffers that take the rows of the one that they are over."""

    def vector(self, out, a, b=None, **fields):
        places = {"out_row": out, "a_row": a} | ({} if b is None else {"b_row": b})
        operation = VectorOp.LUT if b is None else VectorOp.ADD
        fixed = {"operation": operation, "rows": 1, "columns": 8, "window_rows": 1}
        fixed |= {"window_columns": 1, "a_step": 1, "b_step": 1, "out_step": 1}
        return Op(
            Opcode.VECTOR,
            0,
            fixed | fields,
            {
                name: each if isinstance(each, Region) else Region(each)
                for name, each in places.items()
            },
        )

    def store(self, buffer, row=0, rows=8):
        return Op(Opcode.STORE, 0, {"lines": 1, "rows": rows}, {"row": Region(buffer, row)})

    def verify(self, *ops, row=0, **rows):
        buffers = {region.buffer for op in ops for region in op.rows.values()}
        schedule = Schedule(tuple(ops), find_lifetimes(ops), {}, {}, 0, 0)
        places = {buffer: rows.get(buffer.name, row) for buffer in buffers}
        return verify_places(schedule, places, CONFIG)

    def pair(self, rows=8, over=True):
        a = Buffer("a", rows)
        return a, Buffer("b", rows, over=a if over else None)

    def test_every_vector_may_overwrite_itself(self):
        a, b = self.pair()
        assert self.verify(self.store(a), self.vector(b, a), self.store(b)) == ()

    def test_only_with_leave_and_in_the_same_rows(self):
        a, b = self.pair(over=False)
        text = ("'b' overlaps 'a' from command 1 (VECTOR) on",)
        assert self.verify(self.store(a), self.vector(b, a)) == text
        a, b = self.pair()
        assert self.verify(self.store(a), self.vector(b, a), b=1) == text
        assert self.verify(self.store(a), self.vector(b, a), b=8) == ()
        a = Buffer("a", 8)
        assert self.verify(self.store(a), self.vector(Buffer("b", 9, over=a), a)) == text

    def test_parts_may_follow_each_other(self):
        a, b = self.pair(16)
        low, high = (self.vector(Region(b, row), Region(a, row), Region(a, row)) for row in (0, 8))
        assert self.verify(low, high) == ()
        # The store reads rows that are still there, or no longer.
        assert self.verify(low, self.store(a, 8), high) == ()
        text = ("'b' overwrites 'a' before command 1 (STORE) touches it",)
        assert self.verify(low, self.store(a, 7, 1), high) == text
        assert self.verify(high, self.store(a, 7), low) == text

    def test_chains(self):
        a, b = self.pair(16)
        c = Buffer("c", 16, over=b)
        first, second, *rest = (
            self.vector(Region(new, row), Region(old, row))
            for new, old in ((b, a), (c, b))
            for row in (0, 8)
        )
        assert self.verify(first, second, *rest) == ()
        # The first half goes all the way before the second half begins.
        assert self.verify(first, rest[0], second, rest[1]) == ()
        text = "'c' overwrites 'a' before command 2 (STORE) touches it"
        assert text in self.verify(first, rest[0], self.store(a, 0, 1), second, rest[1])

    def test_order_within_a_command(self):
        a, b = self.pair(9)
        text = ("'b' overwrites 'a' before command 0 (VECTOR) touches it",)
        # Vector i writes row i, reads row i + 1, which is not yet written; or the other way round.
        assert self.verify(self.vector(b, Region(a, 1))) == ()
        assert self.verify(self.vector(Region(b, 1), a)) == text
        assert self.verify(self.vector(b, Region(a, 1), Region(a, 0))) == ()
        assert self.verify(self.vector(Region(b, 1), Region(a, 1), Region(a, 0))) == text
        # Backwards is forwards to who counts from the end; two rows of four are as one of eight.
        a, b = self.pair(8)
        split = {"rows": 2, "columns": 4, "a_pitch": 4, "out_pitch": 4}
        assert self.verify(self.vector(b, a, **split)) == ()
        assert self.verify(self.vector(b, a, **{**split, "a_pitch": 0})) == text

    def test_windows_read_all_their_vectors(self):
        a, b = self.pair(10)
        fields = {"operation": VectorOp.MAX, "window_columns": 3}
        assert self.verify(self.vector(b, a, **fields)) == ()
        text = ("'b' overwrites 'a' before command 0 (VECTOR) touches it",)
        assert self.verify(self.vector(Region(b, 1), a, **fields)) == text
        rows = {"window_columns": 1, "window_rows": 2, "window_pitch": 2}
        assert self.verify(self.vector(b, a, **fields | rows)) == ()
        assert self.verify(self.vector(Region(b, 1), a, **fields | rows)) == text

    def test_products_must_not_overwrite_what_they_read(self):
        a, b = self.pair()
        fields = {"rows": 1, "columns": 4, "stride_y": 1, "stride_x": 1, "height": 1, "width": 4}
        fields |= {"blocks": 1, "kernel_rows": 1, "kernel_columns": 1, "drain": Drain.REQUANTIZE}
        fields |= {"dilation_y": 1, "dilation_x": 1, "out_step": 1}
        weights = Buffer("weights", 40)

        def conv(row):
            places = {"act_row": Region(a), "out_row": Region(b, row)}
            places |= {"weight_row": Region(weights), "record_row": Region(weights, 16)}
            return Op(Opcode.CONV, 0, fields, places)

        text = ("'b' overwrites 'a' before command 0 (CONV) touches it",)
        assert self.verify(conv(0), weights=16) == text
        assert self.verify(conv(4), weights=16) == ()
