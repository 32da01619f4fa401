"""Passes keep what a graph computes: bit for bit if it is made of integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulite.graph.passes import simplify
from tpulite.graph.passes.fold_batch_norm import fold_batch_norm
from tpulite.graph.passes.fold_constants import fold_constants
from tpulite.graph.passes.fuse_activations import fuse_activations
from tpulite.graph.passes.pads import fuse_pads
from tpulite.graph.passes.remove_identities import remove_identities
from tpulite.graph.passes.rewrite import remove_dead_nodes
from tpulite.graph.verify import verify
from tpulite_testing.drawn.graphs import random_feeds, random_graph
from tpulite_testing.oracles.interpreter import run

PASSES = [
    fold_batch_norm,
    fold_constants,
    fuse_activations,
    fuse_pads,
    remove_dead_nodes,
    remove_identities,
    simplify,
]


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.__name__)
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_integers_keep_every_bit(step, seed):
    graph = random_graph(seed, real=False)
    verify(graph)
    after = step(graph)
    verify(after)
    feeds = random_feeds(graph, seed)
    expected, actual = run(graph, feeds), run(after, feeds)
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
        assert actual[name].dtype == value.dtype


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.__name__)
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_floats_keep_their_value(step, seed):
    graph = random_graph(seed, real=True)
    after = step(graph)
    verify(after)
    feeds = random_feeds(graph, seed)
    expected, actual = run(graph, feeds), run(after, feeds)
    for name, value in expected.items():
        if step in (fold_batch_norm, simplify):
            size = np.abs(value[np.isfinite(value)]).max(initial=1)
            np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=1e-4 * size)
        else:
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


@pytest.mark.parametrize("real", [False, True])
def test_the_random_graphs_give_every_pass_something_to_do(real):
    graphs = [random_graph(seed, real=real) for seed in range(80)]
    for step in (fuse_activations, fuse_pads, remove_dead_nodes, remove_identities):
        assert sum(len(step(g).nodes) < len(g.nodes) for g in graphs) > 3, step.__name__
    folded = sum(len(fold_batch_norm(g).nodes) < len(g.nodes) for g in graphs)
    assert (folded > 1) == real
