from itertools import pairwise

import numpy as np
import pytest

from tpulite.graph.layers import Lut
from tpulite.graph.macs import macs_of
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import HostSegment, MachineSegment, partition
from tpulite.quant.place import place
from tpulite.quant.placed import NodePlacement
from tpulite_testing.graphs.small_graphs import activation, constant, graph_of, node

REF = Exactness.LITERT_REF


def network():
    """Return quantize, a dense layer, relu, softmax, dequantize."""
    tensors = [
        activation("image", (1, 8), None),
        activation("x", (1, 8), 0.1),
        constant("w", np.ones((4, 8), np.int8), 0.1),
        activation("a", (1, 4), 0.5),
        activation("b", (1, 4), 0.5),
        activation("p", (1, 4), 1 / 256, -128),
        activation("y", (1, 4), None),
    ]
    nodes = [
        node("quantize", "image", "x"),
        node("dense", "x w", "a", activation="none"),
        node("relu", "a", "b"),
        node("softmax", "b", "p", beta=1.0),
        node("dequantize", "p", "y"),
    ]
    return graph_of(nodes, tensors, "image", "y")


def chain(*ops):
    """Return functions one after the other, of tensors that all mean the same."""
    names = [f"t{i}" for i in range(len(ops) + 1)]
    tensors = [activation(name, (1, 2, 2, 8), 0.1) for name in names]
    nodes = [node(op, names[i], names[i + 1], shape=(1, 2, 2, 8)) for i, op in enumerate(ops)]
    return graph_of(nodes, tensors, names[0], names[-1])


def test_every_node_has_an_engine():
    graph = network()
    placements = place(graph, REF).placements
    engines = [placements[n.name].engine for n in graph.nodes]
    assert engines == ["host", "MXU", "VPU", "host", "host"]
    assert [macs_of(n, graph) for n in graph.nodes] == [0, 32, 0, 0, 0]
    reason = "it is at the end of the network; --strict runs it on the machine"
    assert placements[graph.nodes[3].name] == NodePlacement("host", reason, follows=True)
    (reshape,) = place(chain("reshape"), REF).placements.values()
    assert reshape.engine == "none"


def test_an_operator_nobody_knows_has_a_reason():
    graph = chain("mystery")
    (mystery,) = place(graph, REF).placements.values()
    assert mystery == NodePlacement("host", "unsupported operator mystery", False)


def test_ends_stay_on_the_host_unasked():
    first, middle, last = partition(place(network(), REF))
    assert isinstance(first, HostSegment)
    assert (first.inputs, first.outputs) == (("image",), ("x",))
    assert isinstance(middle, MachineSegment)
    assert (middle.inputs, middle.outputs) == (("x",), ("b",))
    assert [type(layer) for layer in middle.layers.layers][1:] == [Lut]
    assert isinstance(last, HostSegment)
    assert [n.op for n in last.nodes] == ["softmax", "dequantize"]
    assert (last.inputs, last.outputs, last.macs) == (("b",), ("y",), 0)


def test_nodes_that_the_machine_lacks_are_all_named():
    graph = chain("relu", "mystery", "relu", "softmax", "relu", "riddle")
    with pytest.raises(ValueError) as error:
        partition(place(graph, REF), strict=True)
    assert str(error.value) == (
        "The machine cannot run 3 of 6 nodes of 'net': "
        "node 't2' (MYSTERY), tensor 't2': unsupported operator mystery; "
        "node 't4' (SOFTMAX), tensor 't4': it is between nodes that run on the machine; "
        "node 't6' (RIDDLE), tensor 't6': unsupported operator riddle"
    )


def test_host_and_machine_take_turns():
    graph = chain("relu", "mystery", "relu", "softmax", "relu", "riddle")
    segments = partition(place(graph, REF))
    assert [type(s) for s in segments] == [MachineSegment, HostSegment] * 3
    for before, after in pairwise(segments):
        assert before.outputs == after.inputs
    host = segments[1]
    assert isinstance(host, HostSegment)
    assert host.reasons == ("unsupported operator mystery",)


def test_changes_of_shape_stay_with_their_input():
    segments = partition(place(chain("relu", "reshape", "softmax", "reshape"), REF))
    assert [[n.op for n in s.nodes] for s in segments] == [
        ["relu", "reshape"],
        ["softmax", "reshape"],
    ]


def test_changes_of_scale_stay_with_their_input():
    segments = partition(place(chain("relu", "softmax", "requantize"), REF))
    assert [[n.op for n in s.nodes] for s in segments] == [["relu"], ["softmax", "requantize"]]


def test_branches_meet_again():
    tensors = [activation(name, (1, 2, 2, 8), 0.1) for name in ("x", "a", "b", "y")]
    nodes = [
        node("relu", "x", "a"),
        node("mystery", "x", "b"),
        node("add", "a b", "y", activation="none"),
    ]
    graph = graph_of(nodes, tensors, "x", "y")
    segments = partition(place(graph, REF))
    done = {"x"}
    for segment in segments:
        assert set(segment.inputs) <= done
        done |= set(segment.outputs)
    assert "y" in done
    assert sorted(n.op for s in segments for n in s.nodes) == ["add", "mystery", "relu"]


def test_a_host_convolution_counts():
    tensors = [
        activation("x", (1, 8), 0.1),
        constant("w", np.ones((4, 8), np.int8), 0.1),
        constant("b", np.ones(4, np.float32)),
        activation("y", (1, 4), 0.5),
    ]
    graph = graph_of([node("dense", "x w b", "y", activation="none")], tensors, "x", "y")
    with pytest.raises(ValueError, match="its bias 'b' is not an int32 constant"):
        partition(place(graph, REF), strict=True)
    (segment,) = partition(place(graph, REF))
    assert isinstance(segment, HostSegment)
    assert segment.macs == 32
