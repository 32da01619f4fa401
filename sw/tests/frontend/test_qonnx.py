"""QONNX files: quantizers of Brevitas, QKeras and FINN, in ONNX's own operators."""

from itertools import zip_longest

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
import onnxruntime

from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.onnx.read.qonnx import DOMAINS
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import chosen_numerics
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.qonnx_draft import Draft
from tpulite_testing.oracles.qonnx import defined, evaluate
from tpulite_testing.quick_options import quick_options

pytest_plugins = ("tpulite_testing.command_line",)


def run_plainly(data: bytes, x: np.ndarray) -> np.ndarray:
    """Run a file as its operators are written."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    return np.asarray(y)


VALUES = np.concatenate([np.arange(-40, 40) / 4, np.linspace(-300, 300, 49)]).astype(np.float32)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize(("bits", "narrow"), [(8, 0), (8, 1), (4, 0), (4, 1), (2, 0)])
def test_activations_are_as_defined(domain, signed, bits, narrow):
    b = Draft((1, VALUES.size), domain)
    y = b.quant("x", 0.5, bits, signed=signed, narrow=narrow)
    graph = load_onnx(b.build(y), "net")
    assert graph.source is not None
    found = run_plainly(graph.source.data, VALUES[None])
    wanted = defined(VALUES[None], 0.5, bits, signed=signed, narrow=narrow)
    np.testing.assert_array_equal(found, wanted)


_FIXED = {
    "ROUND": (2, 2, -2, 2, -3), "CEIL": (3, 2, -1, 2, -2), "FLOOR": (2, 1, -2, 1, -3),
    "UP": (3, 2, -2, 2, -3), "DOWN": (2, 1, -1, 1, -2), "HALF_UP": (3, 2, -2, 2, -3),
    "HALF_DOWN": (2, 1, -1, 2, -3), "half_even": (2, 2, -2, 2, -3),
}  # fmt: skip


@pytest.mark.parametrize("rounding", _FIXED)
@pytest.mark.parametrize("bits", [8, 16])
def test_constants_are_rounded_in_all_ways(rounding, bits):
    b = Draft((1, 5))
    weight = b.quant([2.5, 1.5, -1.5, 1.7, -2.6], 1, bits, rounding_mode=rounding)
    graph = load_onnx(b.build(b.node("Add", "x", weight)), "net")
    assert graph.source is not None
    found = run_plainly(graph.source.data, np.zeros((1, 5), np.float32))
    assert found.tolist() == [list(_FIXED[rounding])]


def test_constants_may_have_a_zero_point_and_binary_values():
    b = Draft((1, 4))
    values = np.array([-1.0, 0.0, 0.3, 9.0], np.float32)
    y = b.node("Add", "x", b.quant(values, 0.25, 4, 3, signed=0))
    y = b.node("Add", y, b.node("BipolarQuant", values, 0.5, domain=b.domain))
    y = b.node("Add", y, b.quant(values, 0.25, 1))
    for node in b.nodes:
        node.name = "same" if node.domain else ""
    graph = load_onnx(b.build(y), "net")
    assert graph.source is not None
    found = run_plainly(graph.source.data, np.zeros((1, 4), np.float32))
    binary = np.where(values >= 0, 0.75, -0.75)
    np.testing.assert_array_equal(found[0], defined(values, 0.25, 4, signed=0, zero=3) + binary)


def network(domain: str = DOMAINS[0], opset: int = 13) -> bytes:
    """Return a network as Brevitas writes it: normalizations are not folded, biases are floats."""
    b = Draft((1, 3, 6, 6), domain, opset)
    y = b.quant("x", 1 / 64, 8)
    bias = b.rng.normal(size=8)
    y = b.node("Conv", y, b.weight(8, 3, 3, 3), bias, pads=[1] * 4)
    gamma = b.rng.normal(size=8)
    gamma[3] = 1e-41  # a pruned channel
    moments = b.rng.normal(size=8), b.rng.uniform(0.5, 2, 8)
    y = b.node("BatchNormalization", y, gamma, b.rng.normal(size=8), *moments)
    y = b.quant(b.node("Relu", y), 0.3, 4, signed=0)
    y = b.node("Conv", y, b.weight(16, 8, 1, 1, bits=8))
    y = b.node("DepthToSpace", y, blocksize=2)
    y = b.quant(b.node("Relu", y), 0.7, 8, signed=0, op="IntQuant")
    y = b.node("Gemm", b.node("Flatten", y), b.weight(10, 576, bits=2), transB=1)
    return b.build(b.quant(y, 2, 8))


@pytest.mark.parametrize(("domain", "opset"), [(DOMAINS[0], 13), (DOMAINS[1], 11), (DOMAINS[2], 9)])
def test_a_network_runs_on_the_machine(tmp_path, domain, opset):
    path = tmp_path / "net.onnx"
    path.write_bytes(network(domain, opset))
    model = Model.load(path, options=quick_options()).compile()
    graph = model.graph
    assert model.exactness == Exactness.LITERT_REF
    on_cpu = {node.op for part in model.plan.hosts for node in part.segment.nodes}
    assert on_cpu == {"transpose", "quantize", "dequantize"} and len(model.programs) == 1
    inputs = [random_inputs(graph, 1, seed) for seed in range(3)]
    compared = compare_model(model, open_oracle("litert-ref", path, graph), inputs)
    assert compared.same and compared.elements, str(compared)


def executed(data: bytes, x: np.ndarray) -> np.ndarray:
    """Return the only output of a file by the definition of QONNX."""
    (y,) = evaluate(data, {"x": x}).outputs
    return y


def perceptron(*, deep: bool = False, biased: bool = False) -> bytes:
    """Return dense layers as FINN has them; ``deep``: of rows, none of them channels."""
    b = Draft((1, 12, 12) if deep else (1, 12))
    y = b.quant("x", 1 / 64, 8)
    for outputs in (12, 12, 5):
        y = b.node("MatMul", y, b.node("Transpose", b.weight(outputs, 12, bits=2), perm=[1, 0]))
        if biased:
            y = b.node("Add", y, b.rng.normal(size=outputs))
        moments = b.rng.normal(size=12 if deep else outputs), b.rng.uniform(0.5, 2, 12)
        if not deep:
            moments = moments[0], moments[1][:outputs]
        sides = (b.rng.normal(size=moments[0].size) for _ in range(2))
        y = b.node("BatchNormalization", y, *sides, *moments)
        y = b.quant(y, 0.5, 2 if outputs > 5 else 8)
    return b.build(y)


def convolution(form: str) -> bytes:
    """Return a convolution with a normalization, whose weights or bias come in other ways."""
    b = Draft()
    y, weight = b.quant("x", 1 / 64, 8), b.weight(8, 3, 3, 3)
    bias = b.quant(b.rng.normal(size=8), 1 / 64, 8 if form == "bias8" else 32)
    if form == "transposed":  # as TensorFlow orders them
        weight = b.quant(b.rng.normal(size=(3, 3, 3, 8)), np.full((1, 1, 1, 8), 0.1), 4)
        weight = b.node("Transpose", weight, perm=[3, 2, 0, 1])
    elif form == "unsigned":
        weight = b.quant(b.rng.uniform(size=(8, 3, 3, 3)), 1 / 255, 8, signed=0)
    elif form == "binary":
        weight = b.quant(b.rng.normal(size=(8, 3, 3, 3)), 0.1, 1)
    elif form == "identity":
        scale = b.node("Identity", np.full(1, 0.1))
        weight = b.quant(b.node("Identity", b.rng.normal(size=(8, 3, 3, 3))), scale, 4)
    y = b.node("Conv", y, weight, bias)
    sides = (b.rng.normal(size=8) for _ in range(3))
    if form == "training":
        y = b.node("BatchNormalization", y, *sides, np.ones(8), training_mode=1)
        b.opset = 15
        b.nodes[-1].output.extend(["mean", "variance"])
    else:
        y = b.node("BatchNormalization", y, *sides, np.ones(8))
    return b.build(b.quant(y, 0.1, 8))


FORMS = ("bias8", "bias32", "transposed", "unsigned", "binary", "identity")

FOLDED = {
    "convolutions": network(),
    "dense": perceptron(),
    "dense_biased": perceptron(biased=True),
    "rows": perceptron(deep=True),
    **{form: convolution(form) for form in FORMS},
}


@pytest.mark.parametrize("name", FOLDED)
def test_normalizations_that_are_folded_are_the_same(name):
    graph = load_onnx(FOLDED[name], "net")
    assert graph.source is not None
    operators = {node.op_type for node in onnx.load_model_from_string(graph.source.data).graph.node}
    kept = name in ("rows", "unsigned")
    assert ("BatchNormalization" in operators) == kept and "Transpose" not in operators
    shape = graph.tensors[graph.inputs[0]].shape
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(1, 3, 6, 6) if len(shape) > 3 else shape)
        x = x.astype(np.float32)
        np.testing.assert_array_equal(run_plainly(graph.source.data, x), executed(FOLDED[name], x))


@pytest.mark.parametrize("form", FORMS)
def test_other_weights_and_biases_run_on_the_machine(tmp_path, form):
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution(form))
    model = Model.load(path, options=quick_options()).compile()
    assert len(model.programs) == (form != "unsigned")
    inputs = [random_inputs(model.graph, 1, seed) for seed in range(2)]
    assert compare_model(model, open_oracle("litert-ref", path, model.graph), inputs).same


GROUPS = {"grouped": 2, "depthwise": 24}


def lowest(form: str) -> bytes:
    """Return a product with weights of -128, whose normalization has negative gains."""
    b = Draft((1, 24) if form in ("Gemm", "MatMul", "transB") else (1, 24, 6, 6))
    group = GROUPS.get(form, 1)
    outputs = 10 if group < 24 else 48
    shapes = {"MatMul": (24, 10), "Gemm": (24, 10), "transB": (10, 24)}
    kernels = (24, 10, 2, 2) if form == "ConvTranspose" else (outputs, 24 // group, 3, 3)
    shape = shapes.get(form, kernels)
    values = b.rng.integers(-127, 128, shape)
    values[tuple(b.rng.integers(0, shape, (6, len(shape))).T)] = -128
    flags = {"transB": {"transB": 1}, "strided": {"strides": [2, 2], "pads": [1] * 4}}
    flags |= {form: {"group": group} for form in GROUPS}
    op = {"transB": "Gemm", "strided": "Conv"}.get(form, "Conv" if form in GROUPS else form)
    weight = b.quant(values / 64, 1 / 64, 8)
    y = b.node(op, b.quant("x", 1 / 16, 8), weight, **flags.get(form, {}))
    gain = -b.rng.uniform(0.5, 1, outputs)
    sides = gain, *(b.rng.normal(size=outputs) for _ in range(2)), np.ones(outputs)
    return b.build(b.quant(b.node("BatchNormalization", y, *sides), 0.25, 8))


LOWEST = ("Conv", "strided", "ConvTranspose", "Gemm", "transB", "MatMul", *GROUPS)


@pytest.mark.parametrize("form", LOWEST)
def test_weights_of_128_have_their_last_step_in_inputs_of_their_own(tmp_path, form):
    data = lowest(form)
    model = checked(data, tmp_path / "net.onnx")
    assert (model.cpu_share, len(model.programs)) == (0, 1)
    graph = load_onnx(data, "net")
    assert graph.source is not None
    x = np.random.default_rng(1).normal(size=graph.tensors["x"].shape).astype(np.float32)
    np.testing.assert_array_equal(run_plainly(graph.source.data, x), executed(data, x))


def test_unsigned_weights_keep_a_normalization_that_changes_their_signs():
    b, product = Draft((1, 24)), OnnxBuilder()
    integers = b.rng.integers(0, 200, (24, 10)).astype(np.uint8)
    weight = product.node("DequantizeLinear", integers, np.float32(1 / 64), np.uint8(0))
    b.nodes, b.tensors = product.nodes, product.constants
    y = b.node("MatMul", b.quant("x", 1 / 16, 8), weight)
    sides = -b.rng.uniform(0.5, 1, 10), *(b.rng.normal(size=10) for _ in range(2)), np.ones(10)
    graph = load_onnx(b.build(b.node("BatchNormalization", y, *sides, epsilon=0.0)), "net")
    assert graph.source is not None
    x = b.rng.normal(size=(1, 24)).astype(np.float32)
    sums = defined(x, 1 / 16, 8) @ (integers / 64)
    wanted = (sums - sides[2]) * sides[0] + sides[1]
    np.testing.assert_allclose(run_plainly(graph.source.data, x), wanted, rtol=1e-4)


def test_a_normalization_that_trains_is_not_folded():
    graph = load_onnx(convolution("training"), "net")
    assert graph.source is not None
    nodes = onnx.load_model_from_string(graph.source.data).graph.node
    assert "BatchNormalization" in {node.op_type for node in nodes}


def test_scales_belong_to_the_last_axes():
    b, weight = Draft((1, 5)), np.arange(25).reshape(5, 5) / 9
    scale = np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32)
    data = b.build(b.node("MatMul", b.quant("x", 0.5, 8), b.quant(weight, scale, 4)))
    graph, x = load_onnx(data, "net"), np.arange(5, dtype=np.float32)[None]
    assert graph.source is not None
    np.testing.assert_allclose(run_plainly(graph.source.data, x), executed(data, x), rtol=1e-6)


def test_quantizers_in_branches_are_refused_unless_the_branch_is_known(tpulite, tmp_path):
    for known in (True, False):
        b, inner = Draft((1, 4)), Draft((1, 4))
        y = inner.quant("x", 0.5, 4)
        outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, (1, 4))]
        branch = helper.make_graph(inner.nodes, "then", [], outputs, inner.tensors)
        other = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["same"])], "else", [],
            [helper.make_tensor_value_info("same", TensorProto.FLOAT, (1, 4))],
        )  # fmt: skip
        condition = numpy_helper.from_array(np.array(True), "condition")
        b.tensors.append(condition)
        name = "condition" if known else b.node("Cast", b.node("ReduceMax", "x"), to=9)
        y = b.node("If", name, then_branch=branch, else_branch=other)
        (tmp_path / "net.onnx").write_bytes(b.build(y))
        code, _, err = tpulite("inspect", "net.onnx")
        assert code == (0 if known else 2), err
        assert known or "of QONNX is in a branch, a loop or a function" in err


def test_a_network_whose_results_are_not_rounded_is_quantized(tpulite, tmp_path):
    b = Draft()
    x = b.quant("x", 1 / 16, 8)
    y = b.node("Add", *(b.node("Conv", x, b.weight(8, 3, 3, 3)) for _ in range(2)))
    y = b.node("Conv", b.quant(b.node("Relu", y), 0.25, 4, signed=0), b.weight(8, 8, 3, 3))
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    np.save(tmp_path / "x.npy", b.rng.normal(size=(16, 3, 6, 6)).astype(np.float32))
    code, out, err = tpulite("quantize", "net.onnx", "--calibrate", "x.npy")
    assert code == 0, out + err
    model = Model.load(tmp_path / "net.int8.onnx", options=quick_options()).compile()
    assert model.programs and model.cpu_share == 0


@pytest.mark.parametrize("bounds", [(-1.25, 2.25), (0.25, 1.75), (-1.3, 2.6), (-np.inf, 1.25)])
def test_clips_end_at_the_integers_of_the_oracle(tmp_path, bounds):
    b, path = Draft(), tmp_path / "net.onnx"
    y = b.node(
        "Clip",
        b.quant(b.node("Conv", b.quant("x", 0.25, 8), b.weight(8, 3, 3, 3)), 0.5, 8),
        *bounds,
    )
    path.write_bytes(b.build(b.node("Conv", b.quant(y, 0.5, 8), b.weight(4, 8, 1, 1))))
    model = Model.load(path, options=quick_options()).compile()
    inputs = [random_inputs(model.graph, 1, seed) for seed in range(3)]
    compared = compare_model(model, open_oracle("litert-ref", path, model.graph), inputs)
    assert compared.same, str(compared)


def test_a_bias_that_is_rounded_behind_its_product_becomes_one_of_gemm():
    b = Draft((1, 12))
    y = b.node("MatMul", b.quant("x", 0.25, 8), b.quant(b.rng.normal(size=(12, 5)), 0.25, 4))
    y = b.node("Add", y, b.quant(b.rng.normal(size=5), 0.25, 8))
    data = b.build(b.quant(y, 0.5, 8))
    graph, x = load_onnx(data, "net"), b.rng.normal(size=(1, 12)).astype(np.float32)
    assert graph.source is not None
    nodes = onnx.load_model_from_string(graph.source.data).graph.node
    assert "Gemm" in {node.op_type for node in nodes}
    np.testing.assert_array_equal(run_plainly(graph.source.data, x), executed(data, x))


def checked(data: bytes, path, count: int = 2) -> Model:
    """Compare a file with LiteRT's kernels; return the model."""
    path.write_bytes(data)
    model = Model.load(path, options=quick_options()).compile()
    inputs = [random_inputs(model.graph, 1, seed) for seed in range(count)]
    compared = compare_model(model, open_oracle("litert-ref", path, model.graph), inputs)
    assert compared.same and compared.elements, str(compared)
    return model


@pytest.mark.parametrize("bits", [0, 8, 32])
@pytest.mark.parametrize("batch", [1, 2])
def test_biases_that_are_added_to_products_of_rows_run_on_the_machine(tmp_path, batch, bits):
    b = Draft((batch, 6, 12))
    y = b.quant("x", 1 / 32, 8)
    for outputs, inputs in ((16, 12), (16, 16), (12, 16)):
        weight = b.node("Transpose", b.weight(outputs, inputs), perm=[1, 0])
        product, bias = b.node("MatMul", y, weight), b.rng.normal(size=outputs)
        bias = b.quant(bias, 1 / 64, bits) if bits else b.constant(bias)
        y = b.node("Add", *((product, bias) if inputs < outputs else (bias, product)))
        y = b.quant(b.node("Relu", y) if inputs == outputs else y, 0.25, 8)
    model = checked(b.build(y), tmp_path / "net.onnx")
    assert (model.cpu_share, len(model.programs), model.crossings) == (0, 1, 2)


def pooled(form: str, *, mode="FLOOR", bits=8, signed=0, named=False, scale=0.25, drop=0) -> bytes:
    """Return an average pool as Brevitas and FINN truncate it."""
    b = Draft((1, 5, 12, 8))
    y, size = b.quant("x", 0.25, bits, signed=signed), 4
    if form == "global":
        y, size = b.node("GlobalAveragePool", y), 96
    elif form == "padded":
        y = b.node("AveragePool", y, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
        size = 6
    else:
        y = b.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    if form != "mean":
        y = b.node("Mul", *((y, size) if form == "pool" else (float(size), y)))
    dropped = int(np.ceil(np.log2(size))) - drop
    result = (scale * 2**dropped, bits + drop) if named else (bits + drop,)
    flags = {"signed": signed, "narrow": 0} if named else {}
    y = b.node(
        "Trunc", y, scale, 0, bits + drop + dropped, *result,
        domain=b.domain, rounding_mode=mode, **flags,
    )  # fmt: skip
    return b.build(y)


TRUNCATED = [
    ("pool", {}),
    ("pool", {"bits": 4}),
    ("pool", {"mode": "CEIL", "signed": 1}),
    ("pool", {"named": True, "signed": 1, "bits": 5}),
    ("global", {"named": True}),
    ("global", {"signed": 1, "bits": 3}),
    ("global", {"mode": "CEIL", "bits": 6, "drop": 2}),
    ("global", {"named": True, "bits": 6, "drop": -3}),
]
"""Forms that are convolutions."""

LEFT = [
    ("pool", {"bits": 8, "drop": 1}),
    ("padded", {}),
    ("mean", {}),
    ("mean", {"named": True, "mode": "CEIL"}),
    ("pool", {"scale": 0.3}),
    ("pool", {"mode": "ROUND"}),
]
"""Forms that are functions of floats, or that round halves as the library does."""


@pytest.mark.parametrize(("form", "flags"), [*TRUNCATED, *LEFT])
def test_truncations_are_as_defined(form, flags):
    data = pooled(form, **flags)
    graph = load_onnx(data, "net")
    assert graph.source is not None
    for seed in range(3):
        x = 10 * np.random.default_rng(seed).normal(size=(1, 5, 12, 8)).astype(np.float32)
        np.testing.assert_array_equal(run_plainly(graph.source.data, x), executed(data, x))


@pytest.mark.parametrize(("form", "flags"), TRUNCATED)
def test_truncated_pools_run_on_the_machine(tmp_path, form, flags):
    data = pooled(form, **flags)
    model = checked(data, tmp_path / "net.onnx")
    assert (model.cpu_share, len(model.programs), model.crossings) == (0, 1, 2)
    x = 10 * np.random.default_rng(1).normal(size=(1, 5, 12, 8)).astype(np.float32)
    (found,) = model.run({"x": x}).outputs.values()
    np.testing.assert_array_equal(found.reshape(executed(data, x).shape), executed(data, x))


def test_the_tensors_of_truncations_are_found_behind_each_other(tmp_path):
    b = Draft((1, 4, 8, 8))
    y = b.quant("x", 0.25, 4)
    for weights in (6, 3):
        y = b.node("MaxPool", y, kernel_shape=[2, 2])
        y = b.node("Mul", b.node("AveragePool", y, kernel_shape=[2, 2], strides=[1, 1]), 4)
        y = b.node("Trunc", y, 0.25, 0, 6, 4, domain=b.domain, rounding_mode="FLOOR")
        y = b.node("Conv", y, b.weight(weights, 4 if weights == 6 else 6, 1, 1))
        y = b.quant(y, 0.25, 4)
    assert checked(b.build(y), tmp_path / "net.onnx").cpu_share == 0


@pytest.mark.parametrize(
    ("zero", "limits"), [(0, ()), (100, ()), (0, (-100,)), (0, ("", 90)), (-20, (-90, 80))]
)
def test_pools_of_other_quantizers_are_truncated_as_defined(zero, limits):
    """Also where integers of a pool, less their zero point, are beyond int8."""
    b, steps = Draft((1, 5, 4, 4)), OnnxBuilder()
    names = [steps.constant(np.array(each)) for each in (np.float32(1 / 16), np.int8(zero))]
    ends = [each if each == "" else steps.constant(np.int8(each)) for each in limits]
    y = steps.node("QuantizeLinear", "x", *names)
    y = steps.node("DequantizeLinear", steps.node("Clip", y, *ends) if ends else y, *names)
    y = steps.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    b.nodes, b.tensors = steps.nodes, steps.constants
    y = b.node("Mul", y, 4)
    y = b.node("Trunc", y, 1 / 16, 0, 10, 8, domain=b.domain, rounding_mode="FLOOR")
    graph = load_onnx(b.build(y), "net")
    assert graph.source is not None
    x = 8 * b.rng.normal(-1, 1, (1, 5, 4, 4)).astype(np.float32)
    low, high = (
        given if given != "" else end
        for given, end in zip_longest(limits, (-128, 127), fillvalue="")
    )
    integers = (np.round(16 * x) + zero).clip(low, high) - zero
    sums = integers.reshape(1, 5, 2, 2, 2, 2).sum((3, 5))
    np.testing.assert_array_equal(run_plainly(graph.source.data, x), np.floor(sums / 4) / 16)


def test_a_branch_may_read_what_is_truncated():
    b = Draft((1, 4, 4, 4))
    pool = b.node("AveragePool", b.quant("x", 0.25, 4), kernel_shape=[2, 2], strides=[2, 2])
    y = b.node("Mul", pool, 4)
    truncated = b.node("Trunc", y, 0.25, 0, 6, 4, domain=b.domain, rounding_mode="FLOOR")
    out = [helper.make_tensor_value_info("same", TensorProto.FLOAT, None)]
    branches = [
        helper.make_graph([helper.make_node("Identity", [name], ["same"])], "branch", [], out)
        for name in (y, truncated)
    ]
    some = b.node("Greater", b.node("ReduceSum", "x", keepdims=0), 0)
    y = b.node("If", some, then_branch=branches[0], else_branch=branches[1])
    graph = load_onnx(b.build(y), "net")
    assert graph.source is not None
    assert run_plainly(graph.source.data, np.ones((1, 4, 4, 4), np.float32)).max() == 4


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ((0.5, 1, 8, 4), "has a zero point; it must be 0"),
        ((0.0, 0, 8, 4), "has a scale that is not positive"),
        ((np.ones(3), 0, 8, 4), "has a scale of 3 numbers; it must be one"),
        ((0.5, 0, 8, 9), "drops -1.0 of 8.0 bits; it must drop 0 to 16"),
        ((0.5, 0, 8, -1.0, 4), "drops"),
        ((0.5, 0, 8), "has a result bit width that is computed"),
    ],
)
def test_truncations_that_cannot_be_written_are_one_line(tpulite, tmp_path, inputs, said):
    b = Draft((1, 4))
    y = b.node("Trunc", "x", *inputs, domain=b.domain, rounding_mode="FLOOR")
    (tmp_path / "net.onnx").write_bytes(b.build(y))
    code, _, err = tpulite("inspect", "net.onnx")
    assert code == 2 and err.count("\n") == 1 and f"(Trunc) {said}" in err


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 8, 1, 1), (1,), (1, 1, 6, 6), (8, 6, 6)])
def test_what_is_added_to_convolutions_is_a_bias_if_it_is_of_channels(tmp_path, shape):
    b = Draft()
    y = b.node("Conv", b.quant("x", 1 / 32, 8), b.weight(8, 3, 3, 3), pads=[1] * 4)
    y = b.node("Add", y, b.rng.normal(size=shape))
    biased = not (len(shape) > 2 and shape[-1] > 1)
    data = b.build(b.quant(y, 0.25, 8))
    if biased:
        assert checked(data, tmp_path / "net.onnx").cpu_share == 0
    else:
        assert "add" in {node.op for node in load_onnx(data, "net").nodes}


def test_a_normalization_of_other_channels_is_left_to_the_library(tpulite, tmp_path):
    b = Draft()
    y = b.node("Conv", b.quant("x", 0.25, 8), b.weight(8, 3, 3, 3))
    y = b.node("BatchNormalization", y, *(np.ones(5) for _ in range(4)))
    (tmp_path / "net.onnx").write_bytes(b.build(b.quant(y, 0.5, 8)))
    code, _, err = tpulite("compile", "net.onnx")
    assert code == 2 and "broadcast" not in err and err.count("\n") == 1


@pytest.mark.parametrize("biased", [False, True])
def test_dense_layers_run_on_the_machine(tmp_path, biased):
    path = tmp_path / "net.onnx"
    path.write_bytes(perceptron(biased=biased))
    model = Model.load(path, options=quick_options()).compile()
    on_cpu = {node.op for part in model.plan.hosts for node in part.segment.nodes}
    assert on_cpu == {"quantize", "dequantize"} and len(model.programs) == 1
    inputs = [random_inputs(model.graph, 1, seed) for seed in range(3)]
    oracle = open_oracle("litert-ref", path, model.graph)
    assert compare_model(model, oracle, inputs).same


def test_numerics_of_onnx_runtime_can_be_chosen(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(network())
    model = Model.load(path, exact="ort", options=quick_options()).compile()
    inputs = [random_inputs(model.graph, 1, seed) for seed in range(2)]
    assert compare_model(model, open_oracle("ort", path, model.graph), inputs).same


def wrong(**change) -> bytes:
    b = Draft((1, 8))
    x = b.node("Add", "x", np.ones(8))
    scale = change.pop("scale", 0.5)
    if scale is None:
        scale = b.node("Exp", "x")
    return b.build(b.quant(x, scale, change.pop("bits", 4), change.pop("zero", 0), **change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bits": 16}, "has the bit width 16; activations have 2 to 8"),
        ({"bits": 1}, "makes an activation 1 or -1; only weights may be binary"),
        ({"bits": 1, "signed": 0}, "has the bit width 1; activations have 2 to 8"),
        ({"bits": np.nan}, "has the bit width nan, not one from 1 to 32"),
        ({"bits": np.inf}, "has the bit width inf, not one from 1 to 32"),
        ({"bits": 4.5}, "has the bit width 4.5, not one from 1 to 32"),
        ({"bits": 99}, "has the bit width 99.0, not one from 1 to 32"),
        ({"zero": 2}, "gives an activation a zero point; it must be 0"),
        ({"rounding_mode": "FLOOR"}, "rounds an activation by FLOOR; it must be ROUND"),
        ({"rounding_mode": "DICE"}, "has the unknown rounding DICE"),
        ({"scale": -1}, "has a scale that is not positive"),
        ({"scale": np.inf}, "has a scale that is not positive"),
        ({"scale": np.ones((2, 4))}, "has a scale of several axes"),
        ({"scale": None}, "has a scale that is computed; qonnx-cleanup may fold it"),
        ({"op": "BipolarQuant"}, "makes an activation 1 or -1"),
        ({"op": "FloatQuant"}, "is an operator of QONNX that tpulite does not have"),
    ],
)
def test_what_cannot_be_written_is_one_line(tpulite, tmp_path, change, said):
    (tmp_path / "net.onnx").write_bytes(wrong(**change))
    code, out, err = tpulite("compile", "net.onnx")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "net.onnx: node '" in err and said in err
    assert not list(tmp_path.glob("*.tpulite"))


def test_files_without_quantizers_keep_their_numerics():
    b = Draft((1, 4))
    graph = load_onnx(b.build(b.node("Relu", "x")), "net")
    assert graph.source is not None and not graph.source.dialect
    assert chosen_numerics(graph) == Exactness.ORT
