"""Drawn networks: boxes and arrows are those of the network, and each arrow reaches its box."""

import numpy as np
import pytest

from tpulite.bench.converted import mobilenet_v2_graph
from tpulite.graph.graph import Graph, Node, State, Tensor
from tpulite.models import CNN_DIGITS
from tpulite.quant.exactness import Exactness
from tpulite.quant.place import place
from tpulite.report.html.network import lay_out
from tpulite.report.network_graph import Box, NetworkGraph
from tpulite.runtime.model import Model

HIGH = 0.6


def test_a_box_for_each_operator_and_an_arrow_for_each_tensor_between_two() -> None:
    model = Model.load(CNN_DIGITS)
    graph, found = model.graph, NetworkGraph.of(model.plan.placed)
    assert [box.name for box in found.boxes[1:-1]] == [node.name for node in graph.nodes]
    assert found.boxes[0].by is None and found.boxes[-1].operator == "output"
    assert [(box.where, box.macs) for box in found.boxes[1:-1]] == [
        (x.where, x.macs) for x in model.summary()
    ]
    assert set(found.arrows[:-1]) == {
        (begin, end)
        for begin, made in enumerate([graph.inputs, *(node.outputs for node in graph.nodes)])
        for end, node in enumerate(graph.nodes, start=1)
        if set(made) & set(node.inputs)
    }
    assert found.arrows[-1] == (len(graph.nodes), len(graph.nodes) + 1)


def test_operators_on_the_cpu_are_counted_by_reason() -> None:
    rows = [("a", "A", "host", "x"), ("b", "A", "host", "x"), ("c", "B", "host", "y")]
    rows += [("d", "B", "MXU", ""), ("e", "C", "host", "x")]
    boxes = [Box(name, op, "", "", where, where, why) for name, op, where, why in rows]
    assert NetworkGraph(tuple(boxes), ()).on_the_cpu() == "2 A, C: x; B: y"
    assert NetworkGraph((boxes[3],), ()).on_the_cpu() == ""


def test_states_are_drawn_where_a_run_begins_and_ends_with_them() -> None:
    x, y = (Tensor(name, (1, 4), "int8") for name in "xy")
    node = Node("relu", "relu", ("x",), ("y",))
    state = State("s", "x", "y", np.zeros((1, 4), np.int8))
    graph = Graph("net", (node,), {"x": x, "y": y}, (), ("y",), "tflite", states=(state,))
    found = NetworkGraph.of(place(graph, Exactness.LITERT_REF))
    assert [box.name for box in found.boxes] == ["x", "relu", "y", "y"]
    assert set(found.arrows) == {(0, 1), (1, 2), (1, 3)}


@pytest.mark.parametrize(
    "arrows",
    [
        [(0, 1)],
        [(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)],  # bends around boxes
        [(0, 2), (1, 2), (3, 4), (4, 5), (3, 5)],  # two parts, the second one with a bend
        None,  # those of a network of many layers
    ],
)
def test_arrows_point_down_from_box_to_box_and_around_others(arrows: list | None) -> None:
    if arrows is None:
        model = Model.load(mobilenet_v2_graph("net"))
        arrows = [*NetworkGraph.of(model.plan.placed).arrows]
    boxes = 1 + max(max(pair) for pair in arrows)
    layout = lay_out(boxes, arrows, high=HIGH)
    assert len(set(layout.places)) == boxes
    for (begin, end), way in zip(arrows, layout.ways, strict=True):
        (x, y), (to_x, to_y) = layout.places[begin], layout.places[end]
        assert way[0] == pytest.approx((x, y - HIGH / 2))
        assert way[-1] == pytest.approx((to_x, to_y + HIGH / 2))
        assert (np.diff(way[:, 1]) < 0).all()
        others = np.delete(np.array(layout.places), [begin, end], axis=0)
        near = np.abs(way[:, None] - others) < (0.45, HIGH / 2 - 1e-6)
        assert not near.all(axis=2).any()


def test_boxes_without_arrows_have_a_place() -> None:
    assert len(set(lay_out(3, [(0, 1)], high=HIGH).places)) == 3
    assert len(lay_out(1, [], high=HIGH).places) == 1
