"""Functions of one byte that are several nodes: one table on the machine, LiteRT's results."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.layers import Lut
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.quick_options import quick_options

REF, OPT = Exactness.LITERT_REF, Exactness.LITERT_OPT
SHAPE = (1, 5, 7, 3)


def in_floats(b: Builder, x: int, *codes: str) -> int:
    y = b.unary("DEQUANTIZE", x, dtype="float32")
    for code in codes:
        y = b.unary(code, y, dtype="float32")
    return b.unary("QUANTIZE", y, 0.04, -10)


def elu(b: Builder, x: int) -> int:
    return in_floats(b, x, "ELU")


def softplus(b: Builder, x: int) -> int:
    one = b.constant(np.ones((1,), np.float32))
    y = b.unary("EXP", b.unary("DEQUANTIZE", x, dtype="float32"), dtype="float32")
    total = b.tensor(SHAPE, dtype="float32")
    b.operator("ADD", [y, one], [total], options_type="AddOptions")
    return b.unary("QUANTIZE", b.unary("LOG", total, dtype="float32"), 0.04, -10)


def softsign(b: Builder, x: int) -> int:
    one = b.constant(np.array([100], np.int8), 0.01)
    return b.elementwise("DIV", x, b.add(b.unary("ABS", x, 0.05), one, 0.06), 0.008, 3)


def hard_swish(b: Builder, x: int) -> int:
    three = b.constant(np.array([120], np.int8), 0.025)
    y = b.add(x, three, 6 / 255, -128, activation="RELU6")
    return b.elementwise("MUL", x, y, 0.2, -60)


def silu(b: Builder, x: int) -> int:
    return b.elementwise("MUL", x, b.unary("LOGISTIC", x, 1 / 256, -128), 0.05, -100)


def selu(b: Builder, x: int) -> int:
    zero = b.constant(np.array([4], np.int8), 0.05, 4)
    positive = b.operator("GREATER", [x, zero], [b.tensor(SHAPE, dtype="bool")])
    negative = b.unary("EXP", x, 0.05, 4)
    y = b.tensor(SHAPE, 0.05, 4)
    return b.operator("SELECT_V2", [positive, x, negative], [y], options_type="SelectV2Options")


FUNCTIONS = [(elu, OPT), *((f, e) for f in (softplus, softsign, hard_swish, silu, selu)
                           for e in (REF, OPT))]  # fmt: skip


def network(function: Callable[[Builder, int], int]) -> tuple[Builder, int]:
    b = Builder()
    x = b.input(SHAPE, scale=0.05, zero_point=4)
    y = b.pool("MAX_POOL_2D", x, (1, 1))
    return b, function(b, y)


def check(data: bytes, exact: Exactness) -> Model:
    model = Model.load(load_tflite(data), exact=exact, options=quick_options())
    library = open_library(data, "tflite", exact)
    rng = np.random.default_rng(1)
    for value in rng.integers(-128, 128, (8, *SHAPE)).astype(np.int8):
        outputs = model.run({"t0": value}).outputs
        for name, wanted in zip(model.graph.outputs, library([value]), strict=True):
            np.testing.assert_array_equal(outputs[name].reshape(wanted.shape), wanted)
    return model


@pytest.mark.parametrize(("function", "exact"), FUNCTIONS)
def test_a_function_of_one_byte_is_one_table(function, exact):
    b, y = network(function)
    model = check(b.build(y), exact)
    (layers,) = model.layers
    assert sum(isinstance(layer, Lut) for layer in layers.layers) == 1
    assert not [each.name for each in model.summary() if each.where == "host"]


def test_what_reference_kernels_lack_is_computed_by_the_others():
    b, y = network(elu)
    data = b.build(y)
    models = [Model.load(load_tflite(data), exact=exact) for exact in (REF, OPT)]
    tables = [model.graph.nodes[-1]["table"] for model in models]
    assert tables[0] == tables[1]


def test_what_others_read_of_a_function_is_computed_as_well():
    b, y = network(silu)
    inner = next(i for i in range(len(b.tensors)) if b.tensors[i].quantization.scale == [1 / 256])
    model = check(b.build(y, inner), REF)
    assert [node.op for node in model.graph.nodes].count("table") == 1


def test_an_operand_of_many_elements_is_no_function_of_one_byte():
    b, y = network(silu)
    weight = b.constant(np.arange(3, dtype=np.int8), 0.1)
    model = check(b.build(b.elementwise("MUL", y, weight, 0.1)), REF)
    assert [node.op for node in model.graph.nodes][-2:] == ["table", "mul"]
