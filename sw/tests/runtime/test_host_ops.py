import numpy as np
import pytest

from tpulite.runtime.host.ops import dequantize, host_reason, quantize, run_node
from tpulite_testing.graphs.model_graphs import meaning, single, tensor

EXACT = ("litert-ref", "litert-opt", "litert-xnnpack", "tflm", "ort")
SIDES = (1, 2, 0, 1)


def run(graph, *values, exact="litert-ref"):
    (node,) = graph.nodes
    outputs = run_node(node, graph, dict(zip(graph.inputs, values, strict=True)), exact)
    return [outputs[name] for name in graph.outputs]


def integers(*shape, seed=1, dtype="int8"):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def constant(name, values):
    data = np.array(values, np.int32)
    return tensor(name, data.shape, "int32", data=data)


X = integers(2, 4, 5, 3)
MOVES = {
    "transpose": ([], {"permutation": (0, 3, 1, 2)}, [X.transpose(0, 3, 1, 2)]),
    "reshape": ([], {"shape": (8, 15)}, [X.reshape(8, 15)]),
    "squeeze": ([], {}, [X.reshape(2, 60)]),
    "pad": (
        [],
        {"padding": SIDES, "value": -7},
        [np.pad(X, ((0, 0), (1, 0), (2, 1), (0, 0)), constant_values=-7)],
    ),
    "slice": ([[0, 1, 0, 2], [1, 2, -1, 1]], {}, [X[0:1, 1:3, :, 2:3]]),
    "gather": ([[3, 0, 3]], {"axis": 1}, [X[:, [3, 0, 3]]]),
    "tile": ([[1, 2, 1, 3]], {}, [np.tile(X, (1, 2, 1, 3))]),
    "strided_slice": (
        [[1, 9, 4, 0], [2, 3, 0, 9], [1, 1, -2, 2]],
        {"shrink_axis_mask": 1, "begin_mask": 2, "end_mask": 4},
        [X[1, :3, 4::-2, 0:9:2]],
    ),
    "argmax": ([], {"axis": 2}, [X.argmax(axis=2)]),
}


@pytest.mark.parametrize("op", MOVES)
def test_moves_are_those_of_numpy(op):
    constants, attributes, expected = MOVES[op]
    operands = [constant(f"c{i}", values) for i, values in enumerate(constants)]
    scale = None if op == "argmax" else (0.5, 3)
    dtype = "int64" if op == "argmax" else "int8"
    outputs = [tensor(f"y{i}", y.shape, dtype, scale) for i, y in enumerate(expected)]
    graph = single(op, [tensor("x", X.shape, "int8", (0.5, 3)), *operands], outputs, attributes)
    assert host_reason(graph.nodes[0], graph, "litert-ref") == ""
    for y, right in zip(run(graph, X), expected, strict=True):
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, right)


def test_strided_slices_make_and_keep_axes():
    bounds = [constant(f"c{i}", v) for i, v in enumerate(([0, 0, 1], [0, 0, 2], [1, 1, 1]))]
    attributes = {"new_axis_mask": 1, "ellipsis_mask": 2, "offset": 1}
    expected = X[None, ..., 1:3]
    x, y = tensor("x", X.shape, "int8"), tensor("y", expected.shape, "int8")
    np.testing.assert_array_equal(
        run(single("strided_slice", [x, *bounds], [y], attributes), X)[0], expected
    )


@pytest.mark.parametrize("file_format", ["tflite", "onnx"])
def test_split_returns_all_parts(file_format):
    parts = [tensor(f"y{i}", (2, 2, 5, 3), "int8", (0.5, 3)) for i in range(2)]
    x = tensor("x", X.shape, "int8", (0.5, 3))
    inputs = [constant("axis", [1]), x] if file_format == "tflite" else [x]
    graph = single("split", inputs, parts, {"axis": 1}, file_format=file_format)
    for y, right in zip(run(graph, X), np.split(X, 2, axis=1), strict=True):
        np.testing.assert_array_equal(y, right)


def test_slices_of_onnx_name_their_axes():
    bounds = [constant(f"c{i}", v) for i, v in enumerate(([-1, 1], [-99, 3], [3, 1], [-1, 1]))]
    expected = X[:, 1:3, :, ::-1]
    graph = single(
        "slice",
        [tensor("x", X.shape, "int8"), *bounds],
        [tensor("y", expected.shape, "int8")],
        file_format="onnx",
    )
    np.testing.assert_array_equal(run(graph, X)[0], expected)


@pytest.mark.parametrize("op", ["concat", "pack"])
def test_joining_is_exact_if_all_parts_mean_the_same(op):
    a, b = integers(2, 3, seed=2), integers(2, 3, seed=3)
    expected = np.concatenate([a, b], axis=1) if op == "concat" else np.stack([a, b], axis=1)
    inputs = [tensor(name, (2, 3), "int8", (0.5, 3)) for name in "ab"]
    graph = single(op, inputs, [tensor("y", expected.shape, "int8", (0.5, 3))], {"axis": 1})
    assert host_reason(graph.nodes[0], graph, "litert-ref") == ""
    np.testing.assert_array_equal(run(graph, a, b)[0], expected)

    inputs = [inputs[0], tensor("b", (2, 3), "int8", (1.0, 3))]
    graph = single(op, inputs, [tensor("y", expected.shape, "int8", (0.5, 3))], {"axis": 1})
    if op == "pack":
        with pytest.raises(ValueError, match=r"^Node 'pack_0' \(PACK\): the host has no such op"):
            run(graph, a, b)
    else:
        assert host_reason(graph.nodes[0], graph, "litert-ref").startswith("approximate")
        doubled = np.clip(2 * (b.astype(int) - 3) + 3, -128, 127)
        np.testing.assert_array_equal(run(graph, a, b)[0], np.concatenate([a, doubled], axis=1))


def test_max_pool_compares_integers():
    x, y = tensor("x", X.shape, "int8", (0.5, 3)), tensor("y", (2, 2, 2, 3), "int8", (0.5, 3))
    attributes = {"window": (3, 3), "stride": (2, 2), "padding": (0, 0, 1, 0), "activation": "none"}
    graph = single("max_pool", [x], [y], attributes)
    assert host_reason(graph.nodes[0], graph, "litert-ref") == ""
    padded = np.pad(X, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=-128)
    expected = [[padded[:, i : i + 3, j : j + 3].max(axis=(1, 2)) for j in (0, 2)] for i in (0, 2)]
    np.testing.assert_array_equal(run(graph, X)[0], np.array(expected).transpose(2, 0, 1, 3))


@pytest.mark.parametrize("exact", EXACT)
def test_quantize_rounds_ties_as_the_library_does(exact):
    ties = np.array([0.5, 1.5, -0.5, -1.5, 2.4, 1e30, -1e30], np.float32)
    ordinary = quantize(ties * 4, meaning(4.0, 3), "int8", exact)
    away = exact in ("litert-ref", "tflm")
    expected = [4, 5, 2, 1, 5, 127, -128] if away else [3, 5, 3, 1, 5, 127, -128]
    assert ordinary.tolist() == expected
    assert quantize(ties, meaning(1.0, 0), "uint8", exact)[-2:].tolist() == [255, 0]
    nobody = np.array([np.nan, np.inf], np.float32)
    assert quantize(nobody, meaning(1.0, 3), "int8", exact).tolist() == [-128, 127]


def test_softmax_names_whose_bits_it_has():
    x = tensor("x", (1, 4), "int8", (0.1, 0))
    graph = single("softmax", [x], [tensor("y", (1, 4), "int8", (1 / 256, -128))], {"beta": 1.0})
    reasons = {exact: host_reason(graph.nodes[0], graph, exact) for exact in EXACT}
    assert reasons.pop("ort") == "approximate: computed in floating point"
    assert set(reasons.values()) == {""}
    for exact in EXACT:
        shares = run(graph, np.array([[10, 0, 0, 10]], np.int8), exact=exact)[0].astype(int) + 128
        assert shares.tolist() == [[94, 34, 34, 94]]


def test_a_softmax_with_another_output_scale_is_refused():
    x, y = tensor("x", (1, 4), "int8", (0.1, 0)), tensor("y", (1, 4), "int8", (1 / 128, -128))
    with pytest.raises(ValueError, match=r"output 'y' must have scale 1/256 and zero point -128"):
        run(single("softmax", [x], [y]), np.zeros((1, 4), np.int8))


def test_what_nobody_computes_names_the_node():
    reason = "3 groups of channels"
    for op, attributes, message in (
        ("unsupported", {"reason": reason}, reason),
        ("lstm", {}, "the host has no such operator either"),
    ):
        graph = single(op, [tensor("x", (2,))], [tensor("y", (2,))], attributes)
        assert host_reason(graph.nodes[0], graph, "litert-ref") == message
        with pytest.raises(ValueError, match=rf"^Node '{op}_0' \({op.upper()}\): {message}$"):
            run(graph, np.zeros(2, np.float32))


def test_dequantize_by_channel():
    q = type(meaning(1.0))(np.array([1, 2], np.float32), np.array([0, 1], np.int64), 1)
    x = np.array([[1, 2], [3, 4]], np.int8)
    for exact in EXACT:
        assert dequantize(x, q, exact).tolist() == [[1, 2], [3, 6]]
