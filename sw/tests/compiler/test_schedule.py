import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.ops import Buffer, Side
from tpulite.compiler.schedule.fit import verify_places
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.schedule import encode, schedule, schedule_commands
from tpulite.compiler.schedule.scheduled import Lifetime
from tpulite.compiler.schedule.uses import stores_before
from tpulite_testing.compiling.rectangles import NETWORKS, network_schedule
from tpulite_testing.compiling.tilings import CONFIG, conv, load, store, tiling


def layers_of_weights(count, rows=8):
    """Return convolutions of one image, each with weights of its own."""
    image = Buffer("image", 8, side=Side.BOTTOM)
    ops = [load(image)]
    for number in range(count):
        weights, out = Buffer(f"w{number}", rows), Buffer(f"out{number}", 2)
        ops += [load(weights), conv(out, image, weights)]
    return ops


def names(ops):
    return [
        f"{op.opcode.name} {next(region.buffer.name for region in op.rows.values())}" for op in ops
    ]


@pytest.mark.parametrize("lead", [0, 1, 2, 5])
def test_loads_go_ahead_and_all_else_keeps_its_order(lead):
    ops = layers_of_weights(5, rows=1)
    result = schedule(tiling(*ops), CONFIG, lead=lead)
    assert result.lead == lead
    for kind in (True, False):
        expected = [op for op in ops if (op.opcode is Opcode.LOAD) is kind]
        assert [op for op in result.ops if (op.opcode is Opcode.LOAD) is kind] == expected
    seen = needed = 0
    for op in result.ops:
        seen += op.opcode is Opcode.LOAD
        if op.opcode is Opcode.CONV:
            needed = ops[: ops.index(op)].count(ops[0]) + sum(
                each.opcode is Opcode.LOAD for each in ops[1 : ops.index(op)]
            )
            assert seen == min(needed + lead, 6)
    assert (result.ops == tuple(ops)) == (lead == 0)


def test_lifetimes_are_positions_in_the_final_order():
    image, w0, w1, out = (Buffer(name, 10) for name in ("image", "w0", "w1", "out"))
    ops = [load(image), load(w0), conv(out, image, w0), load(w1), conv(out, out, w1)]
    late = schedule(tiling(*ops), CONFIG, lead=0)
    assert late.lifetimes == (
        Lifetime(image, 0, 2),
        Lifetime(w0, 1, 2),
        Lifetime(out, 2, 4),
        Lifetime(w1, 3, 4),
    )
    assert late.bound == 30
    early = schedule(tiling(*ops), CONFIG, lead=1)
    assert Lifetime(w1, 2, 4) in early.lifetimes and early.bound == 40


def test_loads_stay_behind_stores_of_their_bytes_alone():
    a, b, c, d = (Buffer(name, 4) for name in "abcd")
    scratch = {"window": Window.SCRATCH}
    ops = [
        load(a),
        conv(b, a),
        store(b, offset=0),
        conv(c, a),
        store(c, offset=64),
        conv(a, a),
        load(d, offset=0, **scratch),
        conv(a, d),
    ]
    result = schedule(tiling(*ops), CONFIG, lead=4)
    assert names(result.ops).index("LOAD d") == 3  # at once behind the first STORE
    ops[6] = load(d, offset=48, **scratch)
    result = schedule(tiling(*ops), CONFIG, lead=4)
    assert names(result.ops).index("LOAD d") == 5


@given(st.lists(st.tuples(st.booleans(), *[st.integers(0, 12)] * 4), max_size=20))
def test_the_last_store_to_any_byte_counts(transfers):
    config = Config(array_size=4)
    buffer = Buffer("x", 64)
    ops = []
    for loads, offset, lines, rows, stride in transfers:
        make = load if loads else store
        fields = {"offset": offset * BEAT_BYTES, "stride": stride * BEAT_BYTES}
        ops.append(make(buffer, window=Window.SCRATCH, lines=lines + 1, rows=rows + 1, **fields))
    expected, written = {}, {}
    for i, op in enumerate(ops):
        starts = [op.fields["offset"] + y * op.fields["stride"] for y in range(op.fields["lines"])]
        beats = {
            beat
            for start in starts
            for beat in range(start // 16, -(-(start + 4 * op.fields["rows"]) // 16))
        }
        if op.opcode is Opcode.STORE:
            written |= dict.fromkeys(beats, i)
        elif found := [written[beat] for beat in beats if beat in written]:
            expected[i] = max(found)
    assert stores_before(tuple(ops), config) == expected


def test_loads_that_take_the_place_of_others_are_withdrawn():
    image, out = Buffer("image", 8, side=Side.TOP), Buffer("out", 40, side=Side.TOP)
    weights = Buffer("weights", 20)
    ops = [load(image), conv(image, image), conv(out, image), load(weights), conv(weights, weights)]
    # Both loads fit before the first command, but then there is no place for the second's result.
    result = schedule(tiling(*ops), CONFIG, lead=2)
    assert names(result.ops)[-2:] == ["LOAD weights", "CONV weights"]
    assert result.lead == 2 and verify_places(result, result.rows, CONFIG) == ()
    assert schedule(tiling(*ops), Config(ub_rows=128), lead=2).ops[1] == ops[3]


def test_of_large_loads_one_goes_ahead():
    ahead = []
    for rows in (1, 2, 3, 8):
        result = schedule(tiling(*layers_of_weights(5, rows=rows)), CONFIG, lead=3)
        first = next(i for i, op in enumerate(result.ops) if op.opcode is Opcode.CONV)
        ahead.append(first - 2)  # the image and the first weights are needed
    assert ahead == [3, 2, 1, 1]  # a sixteenth of 64 rows, or one


@pytest.mark.parametrize(("region", "early"), [(3, True), (100, False)])
def test_where_something_finds_no_place_nothing_goes_ahead(monkeypatch, region, early):
    monkeypatch.setattr("tpulite.compiler.schedule.schedule._REGION", region)
    a, b = (Buffer(name, 2, side=Side.TOP) for name in "ab")
    large, weights = (Buffer(*each, side=Side.BOTTOM) for each in [("large", 24), ("weights", 8)])
    ops = [load(a), conv(a, a), load(b), conv(b, b), load(large), conv(large, large)]
    # Loaded beside the large buffer, the weights would lie in the middle of what it leaves.
    ops += [load(weights), conv(Buffer("out", 40), weights)]
    result = schedule(tiling(*ops), CONFIG, lead=1)
    assert (result.ops[1] == ops[2]) == early
    assert result.ops[-2:] == tuple(ops[-2:])
    assert result.lead == int(early) and verify_places(result, result.rows, CONFIG) == ()


def test_images_have_a_place_before_what_comes_and_goes():
    # From the top, w would be put where the image must go.
    a, w = Buffer("a", 30, side=Side.TOP), Buffer("w", 4, side=Side.TOP)
    image = Buffer("image", 60, side=Side.BOTTOM)
    ops = [load(a), load(w), conv(a, a, w), conv(w, w), conv(image, w)]
    result = schedule(tiling(*ops), CONFIG, lead=0)
    assert result.rows[image] == 0 and result.rows[w] == 60
    assert verify_places(result, result.rows, CONFIG) == ()


def test_places_of_large_buffers_are_found_first_in_need():
    a, b, c = (Buffer(name, rows, side=Side.TOP) for name, rows in (("a", 8), ("b", 28), ("c", 32)))
    ops = [conv(b, a), conv(c, b)]
    # One after the other, a and b are put at the end, and b splits what c needs.
    result = schedule(tiling(*ops), CONFIG, lead=4)
    assert result.lead == 0
    assert (result.rows[b], result.rows[c]) == (0, 28)
    assert isinstance(schedule_commands(tiling(*ops), CONFIG, lead=4), Shortage)


def test_says_what_does_not_fit():
    a, b = Buffer("a", 40), Buffer("b", 30)
    shortage = schedule(tiling(load(a), conv(b, a), first_row=2), CONFIG, lead=4)
    assert isinstance(shortage, Shortage) and shortage.buffer is b
    assert str(shortage) == (
        "'b' needs 30 rows (480 bytes), but when it is needed 22 rows are free, "
        "at most 22 of them together (allocator 'online')"
    )


def test_rejects_negative_leads():
    with pytest.raises(ValueError, match=r"^lead must be at least 0, not -1$"):
        schedule(tiling(), CONFIG, lead=-1)


def test_commands_are_those_of_the_schedule():
    ops = layers_of_weights(4)
    result = schedule(tiling(*ops, first_row=3), CONFIG, lead=2)
    assert min(result.rows.values()) >= 3
    commands, layers = encode(result, result.rows)
    assert (commands, layers) == schedule_commands(tiling(*ops, first_row=3), CONFIG, lead=2)
    assert commands[-1].opcode == Opcode.END and len(layers) == len(ops) == len(commands) - 1
    for op, command in zip(result.ops, commands, strict=False):
        assert command.opcode is op.opcode
        for name, region in op.rows.items():
            assert command[name] == result.rows[region.buffer] + region.row


def test_resident_buffers_keep_their_rows():
    weights, image = Buffer("weights", 4, row=7), Buffer("image", 4)
    ops = [load(image), conv(image, image, weights)]
    result = schedule(tiling(*ops, first_row=20), CONFIG, lead=4)
    assert [each.buffer for each in result.lifetimes] == [image]
    assert encode(result, result.rows)[0][1]["weight_row"] == 7


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_keep_their_places_apart(name):
    result = network_schedule(name)
    assert verify_places(result, result.rows, NETWORKS[name]) == ()


def test_loads_of_networks_go_ahead():
    """But not where that costs commands and saves no cycle."""
    assert any(network_schedule(name).lead > 0 for name in NETWORKS)


def test_random_tilings_are_placed_or_refused():
    rng = np.random.default_rng(1)
    placed = 0
    for _ in range(200):
        buffers = [
            Buffer(
                f"b{number}",
                int(rng.integers(1, 25)),
                bank=[None, 0, 4][rng.integers(3)],
                side=list(Side)[rng.integers(3)],
            )
            for number in range(12)
        ]
        ops = []
        for number in range(12):
            ops += [load(buffers[number])] if rng.random() < 0.6 else []
            ops.append(conv(*(buffers[i] for i in rng.integers(max(number - 3, 0), number + 1, 3))))
        result = schedule(tiling(*ops), CONFIG, lead=int(rng.integers(0, 6)))
        if isinstance(result, Shortage):
            continue
        placed += 1
        assert verify_places(result, result.rows, CONFIG) == ()
        assert sorted(map(id, result.ops)) == sorted(map(id, ops))
    assert 50 < placed < 200
