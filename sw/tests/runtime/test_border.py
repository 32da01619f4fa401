"""Any operator may stand on either side of the border, whatever moves its tensors there."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.arch.config import Config
from tpulite.frontend.onnx.file import load_onnx
from tpulite.graph.layers import Conv
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.quant.partition import MachineSegment
from tpulite.quant.place import place
from tpulite.runtime.model import Model
from tpulite.runtime.model_plan import Plan
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.onnx_static import quantize_statically, run_library
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import thinned

RNG = np.random.default_rng(2024)
SHAPE = (1, 4, 6, 6)


def weights(*shape):
    return RNG.normal(0, 0.3, shape).astype(np.float32)


def add(b, x):
    return b.node("Add", x, b.node("Relu", x))


def mul(b, x):
    return b.node("Mul", x, b.node("Relu", x))


def average_pool(b, x):
    return b.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)


def sigmoid(b, x):
    return b.node("Sigmoid", x)


def resize(b, x):
    scales = np.array([1, 1, 2, 2], np.float32)
    return b.node(
        "Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel"
    )


def concat(b, x):
    return b.node("Concat", x, b.node("Neg", x), axis=1)


KEPT = {f.__name__: f for f in (add, mul, average_pool, sigmoid, resize, concat)}
"""Operators of the CPU."""


MOVES = {"flatten": [], "reshape": [2, -1], "transpose": [6, -1], "none": None}
"""How a tensor is moved at the border: what becomes of its axes behind the first."""


def moved(b, x, shape, name):
    """Move a tensor; return it and its shape."""
    axes = MOVES[name]
    if axes is None:
        return x, shape
    if name == "flatten":
        return b.node("Flatten", x), (1, math.prod(shape))
    if name == "transpose":
        x = b.node("Transpose", x, perm=[0, *range(2, len(shape)), 1])
    return reshaped(b, x, shape, (1, *axes))


def reshaped(b, x, shape, wanted):
    """Give a tensor another shape; return it and its shape."""
    rest = math.prod(shape) // abs(math.prod(wanted))
    return b.node("Reshape", x, np.array(wanted)), tuple(rest if n < 0 else n for n in wanted)


def product(b, x, shape, name):
    """Multiply by a matrix or convolve; return the result and its shape."""
    if name == "conv":
        if len(shape) != 4:
            x, shape = reshaped(b, x, shape, (1, 4, 6, -1))
        y = b.node("Conv", x, weights(4, shape[1], 3, 3), weights(4), pads=[1, 1, 1, 1])
        return y, (1, 4, *shape[2:])
    if name == "gemm":
        if len(shape) != 2:
            x, shape = reshaped(b, x, shape, (1, -1))
        return b.node("Gemm", x, weights(shape[1], 144), weights(144)), (1, 144)
    return b.node("MatMul", x, weights(shape[-1], 12)), (*shape[:-1], 12)


def kept(b, x, shape, name):
    """Add an operator of the CPU; return its result and its shape."""
    if name in ("average_pool", "resize", "concat") and len(shape) != 4:
        x, shape = reshaped(b, x, shape, (1, 4, 6, -1))
    factors = {"resize": (1, 1, 2, 2), "concat": (1, 2, 1, 1)}.get(name, (1,) * len(shape))
    return KEPT[name](b, x), tuple(n * f for n, f in zip(shape, factors, strict=True))


PRODUCTS = ("gemm", "matmul", "conv")

TRIPLES = list(itertools.product(KEPT, MOVES, PRODUCTS))

PAIRED = [
    (operator, move, name)
    for operator, move, name in TRIPLES
    if ([*KEPT].index(operator) + [*MOVES].index(move) + PRODUCTS.index(name)) % 3 == 0
]
"""A third of the triples, in which any two of an operator, a move and a product meet."""


def test_any_two_of_an_operator_a_move_and_a_product_meet():
    for first, second in itertools.combinations(range(3), 2):
        pairs = {(each[first], each[second]) for each in PAIRED}
        assert pairs == {(each[first], each[second]) for each in TRIPLES}


@pytest.mark.parametrize(
    "types", ["u8s8", pytest.param("s8s8", marks=pytest.mark.regress("the same, of other types"))]
)
@pytest.mark.parametrize(
    ("operator", "move", "name"),
    thinned(TRIPLES, *PAIRED, reason="any two of the three meet in others"),
)
@pytest.mark.parametrize("onto_machine", [True, False])
def test_an_operator_of_the_cpu_beside_one_of_the_machine(
    onto_machine, operator, move, name, types
):
    b = OnnxBuilder()
    x, shape = b.input("x", SHAPE), SHAPE
    if onto_machine:
        x, shape = kept(b, x, shape, operator)
        x, shape = moved(b, x, shape, move)
        x, shape = product(b, x, shape, name)
    else:
        x, shape = product(b, x, shape, name)
        x, shape = moved(b, x, shape, move)
        x, shape = kept(b, x, shape, operator)
    samples = [{"x": RNG.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(2)]
    data = quantize_statically(b.build(x), samples, types)
    graph = simplify(as_library(load_onnx(data, "border"), Exactness.ORT))
    cpu = {"add": "add", "concat": "concat", "resize": "unsupported"}.get(operator, operator)
    lacking = {node.name: "kept" for node in graph.nodes if node.op == cpu}
    plan = Plan.of(place(graph, Exactness.ORT, lacking=lacking))
    model = Model(graph, Exactness.ORT, Config(), options=quick_options(), planned=plan)
    if types == "u8s8":  # of int8 activations ONNX Runtime computes many products in floats
        assert model.crossings >= 2
    for sample in samples:
        (expected,) = run_library(data, sample)
        np.testing.assert_array_equal(model.run(sample).output, expected)


def test_channels_first_behind_a_convolution_costs_no_cycles():
    b = OnnxBuilder()
    y = b.node("Conv", b.input("x", (1, 3, 32, 32)), weights(16, 3, 3, 3), pads=[1, 1, 1, 1])
    y = b.node("Reshape", y, np.array([1, 4, -1]))
    x = RNG.normal(0, 1, (1, 3, 32, 32)).astype(np.float32)
    data = quantize_statically(b.build(y), [{"x": x}])
    model = Model.load(load_onnx(data, "groups"))
    np.testing.assert_array_equal(model.run({"x": x}).output, run_library(data, {"x": x})[0])
    (layers,) = model.layers
    assert [type(layer) for layer in layers.layers] == [Conv]


def test_what_is_no_tensor_of_the_file_is_computed_again():
    b, shape = OnnxBuilder(), (1, 4, 32, 32)
    x = b.input("x", shape)
    y = b.node("Add", b.node("Add", x, x), product(b, x, shape, "conv")[0])
    samples = [{"x": RNG.normal(0, 1, shape).astype(np.float32)} for _ in range(2)]
    data = quantize_statically(b.build(y), samples)
    graph = simplify(as_library(load_onnx(data, "again"), Exactness.ORT))
    assert graph.source is not None
    first, last = (node for node in graph.nodes if node.op == "add")
    origins = {name: o for name, o in graph.source.origins.items() if name != first.outputs[0]}
    graph = replace(graph, source=replace(graph.source, origins=origins))
    model = Model(graph, Exactness.ORT, Config(), options=quick_options())
    before, machine, after = model.segments
    assert first in before.nodes and last in after.nodes and isinstance(machine, MachineSegment)
    assert first.outputs[0] in after.inputs
    for sample in samples:
        expected = run_library(data, sample)[0]
        np.testing.assert_array_equal(model.run(sample).output, expected)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_of_rows_do_not_take_convolutions_along(op):
    b = OnnxBuilder()
    x = b.input("x", (1, 3, 96))
    for channels, outputs in ((3, 12), (12, 8)):
        y = b.node("Conv", x, weights(outputs, channels, 5), weights(outputs), pads=[2, 2])
        y = b.node(op, b.node("Relu", y), kernel_shape=[2], strides=[2])
        x = b.node("Add", y, b.node("Sigmoid", y))
    y = b.node("Gemm", b.node("Flatten", x), weights(8 * 24, 5), weights(5))
    samples = [{"x": RNG.normal(0, 1, (1, 3, 96)).astype(np.float32)} for _ in range(4)]
    data = quantize_statically(b.build(y), samples)
    model = Model.load(load_onnx(data, "rows"), options=quick_options())
    assert model.host_macs == 0
    for sample in samples:
        np.testing.assert_array_equal(model.run(sample).output, run_library(data, sample)[0])
