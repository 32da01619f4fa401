"""Compilations whose groups are given, or random: the search would seldom choose such ones."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tpulite.compiler import pipeline, stages
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.passes import Pass
from tpulite.compiler.state import State
from tpulite.graph.layers import LayerGraph
from tpulite_testing.kept import compiling_anew

__all__ = ["forced_groups", "random_groups"]


@contextmanager
def forced_groups(choose) -> Iterator[None]:
    """Let ``choose(layers, config, options, refused)`` choose the groups of compilations.

    A pass in the place of the one that would choose others asserts that they are those, and the
    program that has none is no candidate.
    """

    def group_layers(layers, config, options, *, refused=frozenset()):
        return choose(layers, config, options, refused)

    def assert_forced(state: State) -> State:
        wanted = choose(state.layers, state.config, state.options, state.limits.refused)
        assert _shared(state.groups) == _shared(wanted)
        members = [index for group in wanted for index in group.layers]
        assert members == list(range(len(state.layers.layers))), "each layer is in one group"
        return state

    check = Pass("assert-forced", assert_forced, "groups", needed=True)
    kept = tuple(
        check if each.name == "choose-groups" else each
        for each in pipeline.PASSES
        if each.name != "choose-bound"  # it has no groups
    )
    with compiling_anew(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "group_layers", group_layers)
        patch.setattr(pipeline, "PASSES", kept)
        yield


def _shared(groups: tuple[Group, ...]) -> list[Group]:
    """Return the groups of several layers: those of one may be cut in other ways."""
    return [each for each in groups if not each.alone]


def random_groups(seed: int):
    """Return a function that cuts networks anywhere; refused groups become layers alone."""

    def choose(layers, config, options, refused) -> tuple[Group, ...]:
        rng, table = random.Random(seed), GraphTable(layers, config, options)
        groups: list[Group] = []
        count = len(layers.layers)
        while (start := groups[-1].layers.stop if groups else 0) < count:
            group = _group(rng, layers, range(start, min(start + rng.randint(1, 6), count)))
            if group is None and table.columns_can_be_cut(start) and rng.random() < 0.5:
                columns, slices = rng.choice((2, 3)), rng.choice((1, 2))
                group = Group(range(start, start + 1), slices, columns)
            if group is None or group in refused:
                group = Group(range(start, start + 1))
            groups.append(group)
        return tuple(groups)

    return choose


def _group(rng: random.Random, layers: LayerGraph, members: range) -> Group | None:
    """Return a group of the first members that can be sliced; None for none of them."""
    stop = members.start
    while stop < members.stop and layers.layers[stop].sliceable():
        stop += 1
    members = range(members.start, stop)
    if not members or rng.random() < 0.2:
        return None
    slices, rolling = rng.choice((1, 2, 3, 4, 6, 8)), rng.random() < 0.7
    reloaded = frozenset(i for i in members if rng.random() < 0.2)
    pipelined = rng.random() < 0.5
    return Group(members, slices, rolling=rolling, reloaded=reloaded, pipelined=pipelined)
