"""Where a tensor of the graph is in the file, and how its elements move from there."""

from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Origin, Source
from tpulite.graph.passes.trace_origins import trace_origins
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.ops import run_node
from tpulite_testing.graphs.small_graphs import activation, graph_of, node

RNG = np.random.default_rng(7)


def moved():
    """Return functions, reshapes and transposes, of which the file has the middle one's result."""
    tensors = [
        activation("x", (1, 2, 3, 4), 0.1),
        activation("flat", (6, 4), 0.1),
        activation("turned", (4, 6), 0.1),
        activation("known", (4, 2, 3), 0.1),
        activation("after", (3, 4, 2), 0.1),
        activation("y", (1, 24), 0.1),
        activation("scaled", (24,), 0.2),
    ]
    nodes = [
        node("reshape", "x", "flat", shape=(6, 4)),
        node("transpose", "flat", "turned", perm=(1, 0)),
        node("reshape", "turned", "known", shape=(4, 2, 3)),
        node("transpose", "known", "after", perm=(2, 0, 1)),
        node("reshape", "after", "y", shape=(1, 24)),
        node("reshape", "y", "scaled", shape=(24,)),
    ]
    return graph_of(nodes, tensors, "x", "scaled")


def test_origins_go_through_moves_both_ways_and_stop_where_scales_change():
    graph = moved()
    key, perm = "in the file", (1, 2, 0)
    file = Origin(key, (3, 4, 2), (((3, 4, 2), perm),))
    graph = trace_origins(replace(graph, source=Source(b"", {"known": file})))
    assert graph.source is not None
    origins = graph.source.origins
    assert set(origins) == set(graph.tensors) - {"scaled"}
    value = RNG.integers(-128, 128, (3, 4, 2)).astype(np.int8)
    values = {"x": origins["x"].from_file(value, (1, 2, 3, 4))}
    for each in graph.nodes:
        values |= run_node(each, graph, values, Exactness.LITERT_REF)
    for name, origin in origins.items():
        assert origin.key == key
        np.testing.assert_array_equal(origin.from_file(value, values[name].shape), values[name])
        np.testing.assert_array_equal(origin.to_file(values[name]), value)
    np.testing.assert_array_equal(values["known"], value.transpose(perm))


def test_without_a_file_there_is_nothing_to_trace():
    graph = moved()
    assert trace_origins(graph) is graph
