import numpy as np
import pytest

from tpulite.frontend.files import load_graph
from tpulite.models import CNN_DIGITS, MODELS, DigitsTest
from tpulite.runtime.oracles import open_oracle

INT8_ACCURACY = 443 / 448
FLOAT_ACCURACY = 442 / 448


def test_it_has_one_of_everything():
    graph = load_graph(CNN_DIGITS)
    assert [node.op for node in graph.nodes] == [
        *("conv", "depthwise", "conv", "add", "conv", "average_pool", "dense")
    ]
    (name,) = graph.inputs
    assert (graph.tensors[name].dtype, graph.tensors[name].shape) == ("int8", (1, 16, 16, 1))
    assert CNN_DIGITS.stat().st_size < 60_000


def test_weights_have_a_scale_a_channel_and_activations_are_not_symmetric():
    graph = load_graph(CNN_DIGITS)
    for node in graph.nodes:
        if node.op in ("conv", "depthwise"):
            q = graph.tensors[node.inputs[1]].quantization
            assert q is not None
            assert len(q.scale) == graph.tensors[node.outputs[0]].shape[-1]
    activations = [graph.tensors[name].quantization for x in graph.nodes for name in x.outputs]
    assert len({int(q.zero_point[0]) for q in activations if q is not None}) > 2


def test_accuracy_is_as_stated():
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    graph, test = load_graph(CNN_DIGITS), DigitsTest.load()
    oracle = open_oracle("litert-ref", CNN_DIGITS, graph)
    images = test.images.reshape(-1, 1, 16, 16, 1)
    (x,), (y,) = graph.inputs, graph.outputs
    outputs = np.concatenate([oracle({x: image})[y] for image in images])
    accuracy = test.accuracy(outputs)
    assert accuracy == INT8_ACCURACY
    stated = (MODELS / "README.md").read_text()
    assert f"{accuracy:.2%}" in stated and f"{FLOAT_ACCURACY:.2%}" in stated
