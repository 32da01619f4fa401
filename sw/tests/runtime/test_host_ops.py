import warnings

import numpy as np
import pytest

from tpulite.frontend.tflite.file import load_tflite
from tpulite.quant.exactness import Exactness
from tpulite.quant.own import is_own
from tpulite.runtime.host.ops import dequantize, quantize, run_node
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.model_graphs import meaning, single, tensor

EXACT = tuple(map(Exactness, ("litert-ref", "litert-opt", "litert-xnnpack", "tflm", "ort")))
REF = Exactness.LITERT_REF


def run(graph, *values, exact=REF):
    (node,) = graph.nodes
    outputs = run_node(node, graph, dict(zip(graph.inputs, values, strict=True)), exact)
    return [outputs[name] for name in graph.outputs]


X = np.random.default_rng(1).integers(-128, 128, (2, 4, 5, 3)).astype(np.int8)
MOVES = {
    "transpose": ({"perm": (0, 3, 1, 2)}, X.transpose(0, 3, 1, 2)),
    "reshape": ({"shape": (8, 15)}, X.reshape(8, 15)),
    "argmax": ({"axis": 2}, X.argmax(axis=2)),
}


@pytest.mark.parametrize("op", MOVES)
def test_moves_are_those_of_numpy(op):
    attributes, expected = MOVES[op]
    scale, dtype = (None, "int64") if op == "argmax" else ((0.5, 3), "int8")
    y = tensor("y", expected.shape, dtype, scale)
    graph = single(op, [tensor("x", X.shape, "int8", (0.5, 3))], [y], attributes)
    assert is_own(graph.nodes[0], graph, REF)
    (result,) = run(graph, X)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("exact", EXACT)
def test_quantize_rounds_ties_as_the_library_does(exact):
    ties = np.array([0.5, 1.5, -0.5, -1.5, 2.4, 1e30, -1e30], np.float32)
    whole = np.repeat(ties, 8)  # the optimized kernel computes eight at once, and a rest otherwise
    ordinary = quantize(whole * 4, meaning(4.0, 3), "int8", exact)[::8]
    away = exact in ("litert-ref", "tflm")
    expected = [4, 5, 2, 1, 5, 127, -128] if away else [3, 5, 3, 1, 5, 127, -128]
    assert ordinary.tolist() == expected
    assert quantize(ties, meaning(1.0, 0), "uint8", exact)[-2:].tolist() == [255, 0]
    nobody = np.array([np.nan, np.inf], np.float32)
    assert quantize(nobody, meaning(1.0, 3), "int8", exact).tolist() == [-128, 127]


def test_softmax_is_ours_where_its_bits_are_known():
    x = tensor("x", (1, 4), "int8", (0.1, 0))
    graph = single("softmax", [x], [tensor("y", (1, 4), "int8", (1 / 256, -128))], {"beta": 1.0})
    assert [is_own(graph.nodes[0], graph, exact) for exact in EXACT] == [True] * 4 + [False]
    for exact in EXACT[:4]:
        shares = run(graph, np.array([[10, 0, 0, 10]], np.int8), exact=exact)[0].astype(int) + 128
        assert shares.tolist() == [[94, 34, 34, 94]]


def test_what_has_other_types_is_a_librarys():
    ends = {
        "softmax": ("int8", (0.1, 0), "int8", (1 / 128, -128)),
        "quantize": ("float16", None, "int8", (0.1, 0)),
        "dequantize": ("int16", (0.1, 0), "float32", None),
        "requantize": ("int16", (0.1, 0), "int8", (0.1, 0)),
        "argmax": ("float32", None, "int32", None),
        "integer_lstm": ("int8", (0.1, 0), "int8", (0.1, 0)),
    }
    for op, (before, x, after, y) in ends.items():
        graph = single(op, [tensor("x", (1, 4), before, x)], [tensor("y", (1, 4), after, y)])
        assert not is_own(graph.nodes[0], graph, REF), op


def test_dequantize_by_channel():
    q = type(meaning(1.0))(np.array([1, 2], np.float32), np.array([0, 1], np.int64), 1)
    x = np.array([[1, 2], [3, 4]], np.int8)
    for exact in EXACT:
        assert dequantize(x, q, exact).tolist() == [[1, 2], [3, 6]]


@pytest.mark.parametrize("resolver", ["litert-ref", "litert-opt", "litert-xnnpack"])
def test_quantize_and_dequantize_equal_litert(resolver):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
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
            known |= run_node(node, graph, known, Exactness(resolver))
            np.testing.assert_array_equal(
                known[node.outputs[0]], interpreter.get_tensor(detail["index"])
            )


def test_onnx_quantizes_half_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)
    assert quantize(x, meaning(1.0), "int8", Exactness.ORT).tolist() == [0, 2, 2, 0]
