"""Operators between convolutions run on the machine; every tensor is the library's, to the bit."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.compiler.passes import run_rewrites
from tpulite.compiler.state import State
from tpulite.golden.timing import predict_cycles
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(2025)
SCALE, ZERO = 0.05, -128


def weights(*shape, dtype="int8"):
    return RNG.integers(-127, 128, shape).astype(dtype)


def conv(b, x, outputs=40):
    return b.conv(
        x, weights(outputs, 3, 3, b.shape(x)[3]), weights(outputs, dtype="int32") * 9,
        weight_scale=0.004, scale=SCALE, zero_point=ZERO,
    )  # fmt: skip


def pair(code, scale=SCALE, zero_point=ZERO):
    def add(b, x):
        y = b.tensor(b.shape(x), scale, zero_point)
        return b.operator(code, [x, conv(b, x)], [y])

    return add


def with_constant(code, *shape):
    def add(b, x):
        y = b.tensor(b.shape(x), SCALE, ZERO)
        return b.operator(code, [x, b.constant(weights(*shape), SCALE, ZERO)], [y])

    return add


def unary(code, scale, zero_point=ZERO):
    return lambda b, x: b.unary(code, x, scale, zero_point)


def reduction(code, *axes, scale=SCALE):
    def add(b, x):
        shape = [1 if axis in axes else extent for axis, extent in enumerate(b.shape(x))]
        inputs = [x, b.constant(np.array(axes, np.int32))]
        options = {"options_type": "ReducerOptions", "keepDims": True}
        return b.operator(code, inputs, [b.tensor(shape, scale, ZERO)], **options)

    return add


def batch_matmul(adjoint, channels):
    def add(b, x):
        y = b.tensor((*b.shape(x)[:2], channels, channels), 0.3, 2)
        options = {"options_type": "BatchMatMulOptions", adjoint: True}
        return b.operator("BATCH_MATMUL", [x, x], [y], **options)

    return add


OPERATORS = {
    "neg": unary("NEG", 0.05, -128),
    "sqrt": unary("SQRT", 0.02),
    "rsqrt": unary("RSQRT", 0.05),
    "relu_0_to_1": unary("RELU_0_TO_1", 0.01),
    "maximum": pair("MAXIMUM"),
    "minimum": pair("MINIMUM"),
    "maximum of a constant": with_constant("MAXIMUM", 1),
    "minimum of channels": with_constant("MINIMUM", 40),
    "squared_difference": pair("SQUARED_DIFFERENCE", 0.5),
    "prelu": with_constant("PRELU", 1, 1, 40),
    "prelu of elements": with_constant("PRELU", 9, 10, 40),
    "largest channel": reduction("REDUCE_MAX", 3),
    "smallest pixel": reduction("REDUCE_MIN", 1, 2),
    "mean of channels": reduction("MEAN", 3, scale=0.03),
    "sum of columns": reduction("SUM", 2, scale=0.4),
    "pixels by pixels": batch_matmul("adjY", 10),
    "channels by channels": batch_matmul("adjX", 40),
    "sum of everything": reduction("SUM", 1, 2, 3, scale=9),
}
EXACT = ("litert-ref", "litert-opt", "litert-xnnpack")


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_runs_between_convolutions(tmp_path, name):
    exact = EXACT[list(OPERATORS).index(name) % 3]
    if name.startswith("sum"):  # the reference kernel reads a multiplier that nobody has set
        exact = "litert-opt"
    b = Builder()
    x = conv(b, b.input((1, 9, 10, 8), 0.05, 3))
    y = conv(b, OPERATORS[name](b, x), 7)
    model = equals_library(tmp_path, b.build(y), exact)
    assert [type(segment) for segment in model.segments] == [MachineSegment]


def average(b, x):
    return b.pool("AVERAGE_POOL_2D", x, (9, 9), padding="SAME")


ALONE = {
    "functions of 3 channels": (unary("LOGISTIC", 1 / 256), 3, ("fill-vectors",)),
    "slopes of 3 channels": (with_constant("PRELU", 1, 1, 3), 3, ("fill-vectors",)),
    "sums with 20 channels": (with_constant("ADD", 20), 20, ("scale-addends", "fill-vectors")),
    "differences with 32 channels": (with_constant("SUB", 32), 32, ("scale-addends",)),
    "products with 20 channels": (with_constant("MUL", 20), 20, ("fill-vectors",)),
    "averages of most pixels": (average, 24, ("multiply-averages",)),
    "largest channel": (reduction("REDUCE_MAX", 3), 40, ("turn-maxima",)),
    "smallest channel": (reduction("REDUCE_MIN", 3), 40, ("turn-maxima",)),
}


@pytest.mark.parametrize("name", ALONE)
def test_operator_runs_alone(tmp_path, name):
    add, channels, passes = ALONE[name]
    b = Builder()
    model = equals_library(tmp_path, b.build(add(b, b.input((1, 9, 10, channels), SCALE, ZERO))))
    (segment,) = model.segments
    assert isinstance(segment, MachineSegment)
    state = State.of(model.layers[0], model.config, quick_options())
    assert {*passes} <= {*run_rewrites(state).changed}


def test_largest_of_columns_and_channels_of_a_batch(tmp_path):
    b = Builder()
    x = b.input((3, 8, 3, 25), SCALE, ZERO)
    inputs = [x, b.constant(np.array([2, 3], np.int32))]
    y = b.operator("REDUCE_MAX", inputs, [b.like(x, (3, 8))], options_type="ReducerOptions")
    equals_library(tmp_path, b.build(y))


def test_integers_without_scale_are_the_librarys(tmp_path):
    b = Builder()
    x = conv(b, b.input((1, 9, 10, 8), 0.05, 3), 6)
    y = b.operator("NEG", [x], [b.tensor(b.shape(x))])
    model = equals_library(tmp_path, b.build(y))
    assert [type(segment) for segment in model.segments] == [MachineSegment, HostSegment]


def onnx_conv(b, x, outputs=40, channels=40):
    weight = weights(outputs, channels, 3, 3)
    y = b.node("Conv", x, b.weight(weight, 0.00413), pads=[1, 1, 1, 1])
    return b.quantize(y, 0.0517, -128)


def onnx_function(op, scale=0.0713, zero_point=-19, **attributes):
    return lambda b, x: b.quantize(b.node(op, x, **attributes), scale, zero_point)


def onnx_prelu(b, x):
    slopes = RNG.uniform(-0.5, 1, (40, 1, 1)).astype(np.float32)
    return b.quantize(b.node("PRelu", x, slopes), 0.0413, 7)


def onnx_square(b, x):
    return b.quantize(b.node("Pow", x, np.float32(2)), 0.413, -128)


def onnx_pair(op):
    return lambda b, x: b.quantize(b.node(op, x, onnx_conv(b, x)), 0.0413, 7)


def onnx_matmul(b, x):
    other = b.node("Transpose", x, perm=[0, 1, 3, 2])
    return b.quantize(b.node("MatMul", x, other), 0.313, 7)


ONNX_OPERATORS = {
    "MatMul": onnx_matmul,
    "Neg": onnx_function("Neg"),
    "Sqrt": onnx_function("Sqrt"),
    "Exp": onnx_function("Exp"),
    "Erf": onnx_function("Erf", 0.0081, 1),
    "HardSigmoid": onnx_function("HardSigmoid", 0.0041, -128, alpha=0.15),
    "PRelu": onnx_prelu,
    "Pow": onnx_square,
    "Max": onnx_pair("Max"),
    "Min": onnx_pair("Min"),
    "ReduceMax": onnx_function("ReduceMax", 0.0413, 7, axes=[1]),
    "ReduceMin": onnx_function("ReduceMin", 0.0413, 7, axes=[2, 3]),
}


@pytest.mark.parametrize("name", ONNX_OPERATORS)
def test_onnx_operator_runs_between_convolutions(tmp_path, name):
    b = OnnxBuilder()
    x = onnx_conv(b, b.quantize(b.input("x", (1, 8, 9, 10)), 0.0517, -7), channels=8)
    channels = 1 if name == "ReduceMax" else 40
    y = onnx_conv(b, ONNX_OPERATORS[name](b, x), 7, channels)
    model = equals_library(tmp_path, b.build(y), "ort")
    assert sum(isinstance(segment, MachineSegment) for segment in model.segments) == 1


@pytest.mark.parametrize("exact", EXACT)
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_meet_an_adjoint_matrix_without_transposing_it(tmp_path, rows, exact):
    """Transposed on the vector path, the matrix would take 17 cycles for each of 1,024 vectors."""
    b = Builder()
    x, y = b.input((1, 2, rows, 64), 0.05, 3), b.input((1, 2, 128, 64), 0.04, -9)
    z = b.tensor((1, 2, rows, 128), 0.7, 5)
    options = {"options_type": "BatchMatMulOptions", "adjY": True}
    model = equals_library(
        tmp_path, b.build(b.operator("BATCH_MATMUL", [x, y], [z], **options)), exact
    )
    assert [type(segment) for segment in model.segments] == [MachineSegment]
    (program,) = model.programs
    assert predict_cycles(program.commands, program.config) < 17 * 1024 / 2
