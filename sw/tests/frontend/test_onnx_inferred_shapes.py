"""Shapes are inferred without weights, which stay as they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import static_shape
from tpulite.frontend.onnx.read.fold import infer_and_fold, infer_shapes

WEIGHT = np.random.default_rng(1).standard_normal((192, 256)).astype(np.float32)


def product(rows: int) -> onnx.ModelProto:
    """A product with a large matrix, reshaped by a constant."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"])]
    nodes.append(helper.make_node("Reshape", ["p", "shape"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, rows))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = numpy_helper.from_array(np.array([2, 512]), "shape")
    constants = [numpy_helper.from_array(WEIGHT, "w"), shape]
    return helper.make_model(helper.make_graph(nodes, "product", [x], [y], constants))


def weight(model: onnx.ModelProto) -> np.ndarray:
    return numpy_helper.to_array(model.graph.initializer[0])


def test_shapes_are_those_that_onnx_infers():
    model = product(192)
    wanted = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    infer_shapes(model, strict=True, values=True)
    assert model == wanted
    assert np.array_equal(weight(model), WEIGHT)


def test_weights_stay_where_shapes_contradict():
    model = product(191)
    with pytest.raises(onnx.shape_inference.InferenceError):
        infer_shapes(model, strict=True)
    assert np.array_equal(weight(model), WEIGHT)


def test_onnx_runtime_knows_the_shape_behind_a_group_normalization():
    nodes = [helper.make_node("GroupNormalization", ["x", "gamma", "beta"], ["n"], num_groups=2)]
    nodes.append(helper.make_node("Relu", ["n"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 3, 3))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [
        numpy_helper.from_array(np.ones(4, np.float32), name) for name in ("gamma", "beta")
    ]
    graph = helper.make_graph(nodes, "groups", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    infer_and_fold(model, 21)
    assert static_shape(model.graph.output[0]) == (1, 4, 3, 3)
