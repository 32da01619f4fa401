"""Files with PADs, dead channels and changes of sign, tensor by tensor against LiteRT."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.files import load_graph
from tpulite.graph.layers import Conv, Depthwise, Lut, Pad
from tpulite.runtime.comparison import compare_tensors
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.tflite_builder import Builder

CORNERS = [((0, 1), (0, 1)), ((1, 0), (1, 0)), ((1, 1), (0, 1)), ((2, 1), (0, 0))]


def build(pads, zero_point, *, value=None, stride=(2, 2)) -> bytes:
    """Return uint8 -> int8, PAD, a convolution with dead channels, PAD, depthwise, 1x1."""
    rng = np.random.default_rng(2024)
    b = Builder("uint8")
    x = b.input((1, 11, 12, 3), 0.03, zero_point + 128)
    b.dtype = "int8"
    x = b.unary("QUANTIZE", x, 0.03, zero_point, dtype="int8")
    weight = rng.integers(-127, 128, (20, 3, 3, 3)).astype(np.int8)
    weight[3:9] = 0
    x = b.conv(
        b.pad(x, ((0, 0), *pads, (0, 0)), value),
        weight,
        rng.integers(-500, 500, 20),
        weight_scale=np.full(20, 0.01),
        scale=0.1,
        zero_point=-128,
        stride=stride,
        padding="VALID",
        activation="RELU",
    )
    weight = rng.integers(-127, 128, (1, 3, 3, 20)).astype(np.int8)
    x = b.depthwise(
        b.pad(x, ((0, 0), *pads, (0, 0))),
        weight,
        rng.integers(-500, 500, 20),
        weight_scale=np.full(20, 0.01),
        scale=0.2,
        zero_point=-3,
        padding="VALID",
    )
    weight = rng.integers(-127, 128, (7, 1, 1, 20)).astype(np.int8)
    weight[..., 15:] = 0
    y = b.conv(x, weight, [0] * 7, weight_scale=np.full(7, 0.01), scale=0.3, zero_point=5)
    return b.build(y)


def compare(path, model, device=None):
    """Compare all that is computed with LiteRT; return what was left out by node."""
    oracle = open_oracle("litert-ref", path, load_graph(path))
    runner = None if device is None else Runner(model, device, tensors=True)
    pairs = []
    for values in _each(random_inputs(model.graph, 3, 2024)):
        ours = model.reference(values, simplified=True)
        pairs.append((ours if runner is None else runner.run(values).tensors, oracle(values)))
    names = {name: node.name for node in model.graph.nodes for name in node.outputs}
    differences = compare_tensors(names, pairs, model.known_channels())
    assert not [x.node for x in differences if x.different]
    assert [x.node for x in differences] == [node.name for node in model.graph.nodes]
    return {x.node: x.left_out for x in differences}


def _each(inputs):
    return [{name: x[i : i + 1] for name, x in inputs.items()} for i in range(3)]


@pytest.mark.parametrize("pads", CORNERS)
@pytest.mark.parametrize("zero_point", [-128, -1, 0, 77])
def test_pads_of_zero_points_are_folded_wherever_they_lie(tmp_path, pads, zero_point):
    path = tmp_path / "net.tflite"
    path.write_bytes(build(pads, zero_point))
    model = Model.load(path, exact="litert-ref")
    (layers,), (simplified,) = model.layers, model.simplified
    top, left, bottom, right = pads[0][0], pads[1][0], pads[0][1], pads[1][1]
    assert [type(x) for x in layers.layers] == [Lut, Conv, Depthwise, Conv]
    assert {x.padding for x in layers.layers[1:3]} == {(top, left, bottom, right)}
    assert [type(x) for x in simplified.layers.layers] == [Conv, Depthwise, Conv]
    assert simplified.layers.activations[layers.layers[2].output].shape[2] < 20
    compare(path, model)


def test_a_pad_of_another_number_stays(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(build(CORNERS[0], -1, value=5))
    model = Model.load(path, exact="litert-ref")
    assert sum(isinstance(layer, Pad) for layer in model.layers[0].layers) == 1
    compare(path, model)


def test_a_device_that_stores_every_tensor_leaves_out_the_same(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(build(CORNERS[0], -1))
    model = Model.load(path, exact="litert-ref")
    left_out = compare(path, model)
    assert compare(path, model, "golden") == left_out and any(left_out.values())
