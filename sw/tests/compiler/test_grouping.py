from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.compiler.document_groups import live_ranges
from tpulite.compiler.geometry.extents import runs_by_blocks
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps, repeated
from tpulite.compiler.group.candidates import Candidates
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts, middle_step
from tpulite.compiler.group.residency import network_cost, resident_activations
from tpulite.compiler.group.search import best_cuts, group_layers, improve, total_key
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.scheduled import lower_bound
from tpulite_testing.drawn.plain_graphs import GraphBuilder, layer_graphs

SAME = {"padding": (1, 1, 1, 1)}
SMALL = Config(ub_rows=2048)
OFF = Options(grouping=False)


def bottlenecks(height=56, blocks=2):
    """Return blocks of MobileNetV2: wide images between narrow ones."""
    builder = GraphBuilder((height, height, 16))
    source = "x"
    for _ in range(blocks):
        wide = builder.depthwise(builder.conv(source, 96, 1), **SAME)
        source = builder.add(builder.conv(wide, 16, 1), source)
    return builder.graph()


def covers(groups, layers):
    assert [i for group in groups for i in group.layers] == list(range(len(layers.layers)))
    for group in groups:
        assert group.slices or group.alone or runs_by_blocks(layers, group.layers)


def candidates_of(layers, config, options=Options(), refused=frozenset()):  # noqa: B008
    costs = GroupCosts(GraphTable(layers, config, options), config.ub_rows)
    return Candidates(costs, refused)


def predicted(layers, groups, config=Config()):  # noqa: B008
    """Return what a network costs in groups; bytes as rows of the unified buffer."""
    return network_cost(candidates_of(layers, config).costs, groups)


def working_rows(layers, group, config=Config()):  # noqa: B008
    """Return the rows that a group takes, if no image is on chip as a whole."""
    return candidates_of(layers, config).costs.cost(group, frozenset()).rows


def test_wide_images_between_narrow_ones_stay_inside_groups():
    layers = bottlenecks()
    groups = group_layers(layers, Config(), Options())
    covers(groups, layers)
    for first in (0, 4):  # expansion, depthwise and projection are together
        assert any({first, first + 1, first + 2} <= {*group.layers} for group in groups)
    plain = group_layers(layers, Config(), OFF)
    assert plain == tuple(Group(range(i, i + 1)) for i in range(8))
    with_groups, without = (predicted(layers, each, Config()) for each in (groups, plain))
    assert with_groups.cycles < without.cycles
    assert with_groups.read + with_groups.written < 0.3 * (without.read + without.written)


def test_the_largest_images_of_mobilenet_go_to_dram_only_if_that_saves_cycles():
    # Of a stride of 2, which takes vectors in pairs, slices are as fast.
    config = Config()
    builder = GraphBuilder((112, 112, 16))
    wide = builder.depthwise(builder.conv("x", 96, 1), **SAME)
    builder.conv(wide, 24, 1)
    layers = builder.graph()
    groups, fast = (
        group_layers(layers, config, Options(optimize=goal)) for goal in ("memory", "latency")
    )
    assert any({0, 1} <= {*group.layers} and group.slices for group in groups)
    few, many = (predicted(layers, each, config) for each in (groups, fast))
    assert many.cycles < few.cycles
    assert many.read > few.read
    halo = predicted(layers, (Group(range(3), slices=28),), Config())
    kept = predicted(layers, (Group(range(3), slices=28, rolling=True),), Config())
    assert kept.read < halo.read
    assert kept.cycles < halo.cycles


def test_layers_whose_images_stay_run_alone():
    layers = bottlenecks(height=8)
    assert group_layers(layers, Config(), Options()) == group_layers(layers, Config(), OFF)


@pytest.mark.parametrize(
    "options",
    [
        Options(rolling=False),
        Options(rolling=False, halo_guard=True),
        Options(optimize="memory"),
        Options(batch=3),
    ],
)
def test_groups_keep_to_what_the_user_asks_for(options):
    layers = bottlenecks()
    groups = group_layers(layers, Config(), options)
    covers(groups, layers)
    assert any(group.slices for group in groups)
    if not options.rolling:
        assert not any(group.rolling for group in groups)
    for group in groups if options.halo_guard else ():
        if group.slices:
            steps = plan_steps(layers, group)
            for name, image in layers.activations.items():
                if name in steps[0]:
                    assert not repeated([step[name].new for step in steps], image.shape[0])
    if options.optimize == "memory":
        fast = predicted(layers, group_layers(layers, Config(), Options()), Config())
        small = predicted(layers, groups, Config())
        traffic = small.read + small.written
        assert traffic <= fast.read + fast.written


def test_the_guard_changes_the_choice():
    builder = GraphBuilder((48, 64, 16))
    for _ in range(3):
        builder.conv(builder.layers[-1].output if builder.layers else "x", 16, 5, padding=(2,) * 4)
    layers = builder.graph()
    options = Options(rolling=False, optimize="memory")
    config = Config(ub_rows=4096)
    free = group_layers(layers, config, options)
    guarded = group_layers(layers, config, replace(options, halo_guard=True))
    assert free != guarded


def test_refused_groups_are_not_used_again():
    layers, refused = bottlenecks(), set()
    for _ in range(4):
        groups = group_layers(layers, Config(), Options(), refused=frozenset(refused))
        assert refused.isdisjoint(groups)
        for group in groups:  # nor with fewer slices, which takes more room
            assert not any(
                replace(group, slices=each.slices) == each and group.slices <= each.slices
                for each in refused
            )
        refused |= {group for group in groups if group.slices}
    assert len(refused) >= 4


def test_less_room_makes_other_groups_that_fit_it():
    layers = bottlenecks()
    found = set()
    for rows in (16384, 8192, 4096):
        groups = group_layers(layers, Config(ub_rows=rows), Options())
        found.add(groups)
        for group in groups:
            if group.slices:
                assert working_rows(layers, group) <= rows
    assert len(found) == 3


def test_rows_too_long_for_the_buffer_are_cut_into_columns():
    builder = GraphBuilder((4, 900, 16))
    builder.conv("x", 16, 3, **SAME)
    layers, config = builder.graph(), Config(ub_rows=2048)
    for options in (Options(), OFF):
        (group,) = group_layers(layers, config, options)
        assert group.columns > 1
        assert group.slices >= 1
        assert working_rows(layers, group, config) <= config.ub_rows


def test_weights_that_are_too_many_are_loaded_again_in_every_slice():
    builder = GraphBuilder((32, 16, 128))
    builder.conv(builder.conv("x", 128, 3, **SAME), 128, 3, **SAME)
    layers, config = builder.graph(), Config()
    group = Group(range(2), slices=4, rolling=True)
    kept, again = group, replace(group, reloaded=frozenset({0, 1}))
    assert working_rows(layers, kept, config) > config.ub_rows
    assert working_rows(layers, again, config) < config.ub_rows
    rows_kept, rows_again = (predicted(layers, (each,), config).read for each in (kept, again))
    constants = 2 * 8 * (72 * 16 + config.short_record_rows)
    assert rows_again - rows_kept == 3 * constants


def test_equal_arguments_give_equal_groups_and_seeds_count():
    layers = bottlenecks(blocks=3)
    config = Config(ub_rows=8192)
    options = Options(moves=60)
    assert group_layers(layers, config, options) == group_layers(layers, config, options)
    candidates = candidates_of(layers, config)
    key = partial(total_key, candidates)
    alone = tuple(Group(range(i, i + 1)) for i in range(len(layers.layers)))
    found = {improve(candidates, alone, key, moves=60, seed=seed) for seed in range(4)}
    assert len(found) > 1  # from so bad a start they end elsewhere
    for groups in found:
        covers(groups, layers)
        assert total_key(candidates, groups) < total_key(candidates, alone)
    assert improve(candidates, alone, key, moves=0, seed=0) == alone


def partitions(count):
    """Yield all ways to cut layers into intervals."""
    for mask in range(1 << (count - 1)):
        cuts = [0, *(i for i in range(1, count) if mask >> (i - 1) & 1), count]
        yield [range(a, b) for a, b in pairwise(cuts)]


@given(layer_graphs(most_layers=5), st.sampled_from([64, 128, 512]), st.sampled_from([0.25, 1.0]))
def test_no_other_cuts_are_cheaper(layers, ub_rows, part):
    candidates = candidates_of(layers, Config(ub_rows=ub_rows))
    count = len(layers.layers)
    alone = tuple(Group(range(i, i + 1)) for i in range(count))
    resident = resident_activations(candidates.costs, alone, largest=int(part * ub_rows))
    best: dict[range, tuple[int, int]] = {}
    for stop in range(1, count + 1):
        for group, cost in candidates.before(stop, resident):
            key = candidates.key(cost)
            best[group.layers] = min(key, best.get(group.layers, key))
    cheapest = min(
        tuple(sum(values) for values in zip(*(best[interval] for interval in cuts), strict=True))
        for cuts in partitions(count)
        if all(interval in best for interval in cuts)
    )
    groups = best_cuts(candidates, resident)
    covers(groups, layers)
    found = [candidates.key(candidates.costs.cost(group, resident)) for group in groups]
    assert tuple(sum(values) for values in zip(*found, strict=True)) == cheapest


@given(layer_graphs(), st.sampled_from([64, 256, 1024]), st.sampled_from(["latency", "memory"]))
def test_random_networks_are_covered_and_moves_never_cost(layers, ub_rows, optimize):
    config = Config(ub_rows=ub_rows)
    options = Options(optimize=optimize)
    groups = group_layers(layers, config, options)
    covers(groups, layers)
    candidates = candidates_of(layers, config, options)
    before = group_layers(layers, config, replace(options, moves=0))
    assert total_key(candidates, groups) <= total_key(candidates, before)


@given(st.data(), layer_graphs(), st.booleans())
def test_the_step_in_the_middle_is_like_the_exact_ones(data, layers, rolling):
    slices = data.draw(st.integers(2, 8))
    group = Group(range(len(layers.layers)), slices=slices, rolling=rolling)
    steps = plan_steps(layers, group)
    count, spans = middle_step(GraphTable(layers, SMALL, Options()), group, 0)
    assert count == len(steps)
    assert set(spans) == set(steps[0])
    for name, span in spans.items():
        height = layers.activations[name].shape[0]
        total = sum(len(step[name].new) for step in steps)
        if rolling:
            assert span.total == total == height
        assert 1 <= span.live <= height + span.kept
    last = layers.layers[-1].output
    assert spans[last].live == max(len(step[last].live) for step in steps)


def test_middle_steps_of_a_chain_are_exact():
    builder = GraphBuilder((60, 8, 16))
    builder.conv(builder.conv("x", 16, name="a", **SAME), 16, name="b", stride=(2, 2), **SAME)
    layers = builder.graph()
    for rolling in (False, True):
        group = Group(range(2), slices=5, rolling=rolling)
        steps = plan_steps(layers, group)
        _, spans = middle_step(GraphTable(layers, SMALL, Options()), group, 0)
        for name in layers.activations:
            assert spans[name].live == len(steps[2][name].live)
            assert spans[name].live - spans[name].kept == len(steps[2][name].new)
            total = sum(len(step[name].new) for step in steps)
            assert spans[name].total == pytest.approx(total, abs=2)


def test_a_group_takes_at_least_the_rows_of_its_live_ranges():
    layers = bottlenecks(blocks=1)
    table = GraphTable(layers, Config(), Options())
    for rolling in (False, True):
        for slices in (4, 8, 14):
            group = Group(range(4), slices=slices, rolling=rolling)
            assert working_rows(layers, group) >= lower_bound(live_ranges(table, group))


def test_large_images_of_known_shape_are_grouped_as_expected():
    """A stage of ResNet-50: images of 56 x 56 x 256 do not fit, those of 64 channels do."""
    builder = GraphBuilder((56, 56, 256))
    narrow = builder.conv("x", 64, 1)
    wide = builder.conv(builder.conv(narrow, 64, 3, **SAME), 256, 1)
    builder.conv(builder.add(wide, "x"), 64, 1)
    layers = builder.graph()
    groups = group_layers(layers, Config(), Options())
    covers(groups, layers)
    at = {i: group for group in groups for i in group.layers}
    assert at[2] == at[3]  # what the last convolution computes is added without a way to DRAM
    assert at[2].slices > 0
    plain = predicted(layers, group_layers(layers, Config(), OFF), Config())
    found = predicted(layers, groups, Config())
    assert plain.written - found.written >= 56 * 56 * 16
    assert plain.read - found.read >= 56 * 56 * 16


def test_numpy_integers_do_not_leak_into_groups():
    for group in group_layers(bottlenecks(), Config(), Options()):
        assert not isinstance(group.slices, np.integer)
