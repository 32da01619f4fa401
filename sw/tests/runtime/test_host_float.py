"""What the host computes in floating point, against LiteRT: within one step of the output."""

import warnings

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.runtime.host.float_ops import FLOAT_RULES
from tpulite.runtime.host.ops import host_reason, quantize, run_node
from tpulite.runtime.inputs import random_inputs
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.model_graphs import meaning, single, tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

RNG = np.random.default_rng(2024)
X = {"scale": 0.05, "zero_point": -7}
Y = {"scale": 0.07, "zero_point": 11}


def weights(*shape, dtype="int8"):
    return RNG.integers(-127, 128, shape).astype(dtype)


def conv(b):
    return b.conv(
        b.input((1, 9, 8, 5), **X), weights(6, 3, 2, 5), weights(6, dtype="int32") * 9,
        weight_scale=RNG.uniform(0.001, 0.01, 6), **Y, stride=(2, 1), dilation=(1, 2),
        activation="RELU6",
    )  # fmt: skip


def depthwise(b):
    return b.depthwise(
        b.input((1, 9, 8, 3), **X), weights(1, 3, 3, 6), weights(6, dtype="int32") * 9,
        weight_scale=RNG.uniform(0.001, 0.02, 6), **Y, stride=(2, 2), activation="RELU",
    )  # fmt: skip


def dense(b):
    return b.dense(
        b.input((2, 30), **X), weights(7, 30), weights(7, dtype="int32") * 20,
        weight_scale=0.004, **Y,
    )  # fmt: skip


def pair(code):
    def build(b):
        a, c = b.input((1, 4, 3, 5), **X), b.input((1, 1, 1, 5), 0.03, 20)
        return b.elementwise(code, a, c, **Y, activation="RELU6")

    return build


def function(code):
    def build(b):
        x = b.input((1, 4, 3, 5), **X)
        scales = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
        y = b.tensor(b.shape(x), *scales.get(code, (0.07, 11)))
        options = {"options_type": "LeakyReluOptions", "alpha": 0.3}
        return b.operator(code, [x], [y], **(options if code == "LEAKY_RELU" else {}))

    return build


def average_pool(b):
    return b.pool(
        "AVERAGE_POOL_2D", b.input((1, 7, 6, 4), **X), (3, 2), stride=(2, 1), padding="SAME"
    )


def mean(b):
    x = b.input((1, 6, 5, 40), **X)
    axes = b.constant(np.array([1, 2], np.int32))
    y = b.tensor((1, 40), **Y)
    return b.operator("MEAN", [x, axes], [y], options_type="ReducerOptions", keepDims=False)


CASES = {
    "conv": conv,
    "depthwise": depthwise,
    "dense": dense,
    "average_pool": average_pool,
    "mean": mean,
    "add": pair("ADD"),
    "sub": pair("SUB"),
    "mul": pair("MUL"),
    "sigmoid": function("LOGISTIC"),
    "tanh": function("TANH"),
    "hard_swish": function("HARD_SWISH"),
    "leaky_relu": function("LEAKY_RELU"),
    "requantize": function("QUANTIZE"),
}


@pytest.mark.parametrize("op", CASES)
def test_results_are_those_of_litert_to_the_step(op):
    builder = Builder()
    model = builder.build(CASES[op](builder))
    graph = load_tflite(model)
    (node,) = graph.nodes
    assert node.op == op
    exact = op == "requantize"
    reason = "" if exact else "approximate: computed in floating point"
    assert host_reason(node, graph, "litert-ref") == reason
    inputs = random_inputs(graph, 1, 2024)
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for detail, name in zip(interpreter.get_input_details(), graph.inputs, strict=True):
        interpreter.set_tensor(detail["index"], inputs[name])
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(int)
    (result,) = run_node(node, graph, inputs, "litert-ref").values()
    assert np.abs(result - expected).max() <= 1
    assert (result == expected).all() if exact else (result == expected).mean() > 0.8
    assert len(np.unique(expected)) > 8


def test_functions_of_one_number():
    x = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    for op, expected in {
        "gelu": x * (1 + np.array([-0.9973002, -0.3829249, 0, 0.3829249, 0.9973002])) / 2,
        "hard_sigmoid": [0, 0.4, 0.5, 0.6, 1],
        "selu": np.where(x < 0, 1.05 * 1.67 * np.expm1(x), 1.05 * x),
        "softplus": np.log1p(np.exp(x)),
        "log_softmax": x - np.log(np.exp(x).sum()),
        "softmax": np.exp(x) / np.exp(x).sum(),
        "elu": np.where(x < 0, 1.67 * np.expm1(x), x),
        "clip": [-1, -0.5, 0, 0.5, 2],
    }.items():
        attributes = {
            **{"approximate": False, "low": -1.0, "high": 2.0, "gamma": 1.05},
            **{"alpha": 0.2 if op == "hard_sigmoid" else 1.67, "beta": 0.5},
        }
        if "softmax" in op:
            attributes = {}
        graph = single(op, [tensor("x", (5,))], [tensor("y", (5,))], attributes)
        y = FLOAT_RULES[op](graph.nodes[0], [x])
        np.testing.assert_allclose(y, expected, atol=1e-6, err_msg=op)


@pytest.mark.parametrize("resolver", ["litert-ref", "litert-opt", "litert-xnnpack"])
def test_quantize_and_dequantize_equal_litert(resolver):
    kinds = {
        "litert-ref": OpResolverType.BUILTIN_REF,
        "litert-opt": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        "litert-xnnpack": OpResolverType.AUTO,
    }
    rng = np.random.default_rng(2024)
    for case in range(30):
        builder = Builder("float32")
        scale = float(np.float32(2.0 ** rng.uniform(-12, 3)))
        dtype = ("int8", "uint8")[case % 2]
        limits = np.iinfo(dtype)
        count = int(rng.integers(500, 2000))
        x = builder.input((1, count))
        q = builder.tensor(
            (1, count), scale, int(rng.integers(limits.min, limits.max + 1)), dtype=dtype
        )
        y = builder.tensor((1, count))
        builder.operator("QUANTIZE", [x], [q], options_type="QuantizeOptions")
        builder.operator("DEQUANTIZE", [q], [y], options_type="DequantizeOptions")
        model = builder.build(q, y)
        graph = load_tflite(model)
        values = rng.uniform(-300, 300, (1, count))
        values[0, :300] = np.rint(values[0, :300]) + 0.5  # ties, as near as float32 gets
        values = (values.astype(np.float32) * np.float32(scale)).astype(np.float32)
        interpreter = Interpreter(
            model_content=model, experimental_op_resolver_type=kinds[resolver]
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        known = {graph.inputs[0]: values}
        for node, detail in zip(graph.nodes, interpreter.get_output_details(), strict=True):
            known |= run_node(node, graph, known, resolver)
            np.testing.assert_array_equal(
                known[node.outputs[0]], interpreter.get_tensor(detail["index"])
            )


def test_onnx_quantizes_half_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)
    assert quantize(x, meaning(1.0), "int8", "ort").tolist() == [0, 2, 2, 0]
