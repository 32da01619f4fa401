"""Products of LiteRT's int16x8 on the golden machine: every tensor is that of the library."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.export.network import check_exportable
from tpulite.frontend.files import load_graph
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.wide import (
    convolutions_of_int16,
    products_of_int16,
    scale_of_int16,
)
from tpulite_testing.oracles.model_tensors import proven_equal

CONFIGS = {
    "4": Config(array_size=4, ub_rows=1024, acc_rows=64, int16=True),
    "16": Config(int16=True),
    "small": Config(array_size=4, ub_rows=256, acc_rows=32, ub_banks=4, int16=True),
}
SIZES = (1, 3, 16, 17, 33, 64, 130, 500)


def _written(tmp_path, data: bytes):
    path = tmp_path / "wide.tflite"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kernels", ["litert-ref", "litert-opt", "litert-xnnpack", "tflm"])
@pytest.mark.parametrize("seed", range(5))
def test_every_tensor_is_that_of_the_library(tmp_path, seed: int, kernels: str):
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES, rng.integers(2, 5)).tolist()
    shape = (int(rng.choice([1, 2, 9, 40])),)
    if kernels != "tflm" or seed % 2:
        shape = (1, int(rng.integers(1, 7)), int(rng.integers(1, 7)))
    path = _written(tmp_path, products_of_int16(seed, shape, sizes))
    model = proven_equal(path, CONFIGS["16" if seed % 3 else "4"], kernels, seed)
    assert not model.plan.hosts or kernels not in ("litert-ref", "tflm")


@pytest.mark.parametrize("kernels", ["litert-ref", "litert-opt", "litert-xnnpack", "tflm"])
@pytest.mark.parametrize("seed", range(9))
def test_convolutions_are_those_of_the_library(tmp_path, seed: int, kernels: str):
    rng = np.random.default_rng(seed)
    channels = rng.choice([1, 3, 4, 9, 16, 20, 33], rng.integers(2, 4)).tolist()
    height, width = (int(extent) for extent in rng.integers(1, 25, 2))
    ends = "int16" if seed % 2 else "int8"
    path = _written(tmp_path, convolutions_of_int16(seed, (height, width), channels, ends=ends))
    model = proven_equal(path, list(CONFIGS.values())[seed % 3], kernels, seed)
    assert not model.plan.hosts


_REPEATED = np.kron(np.eye(4), np.ones((4, 1)))[:, None, None] * np.arange(1, 10).reshape(9, 1, 1)


@pytest.mark.parametrize(
    ("shape", "weight", "more"),
    [
        pytest.param((6, 7, 5), np.full((9, 3, 3, 5), 7), False, id="bound program"),
        pytest.param((9, 6, 2), np.full((3, 5, 1, 2), -9), True, id="packed rows"),
        pytest.param((16, 16, 4), _REPEATED, False, id="depthwise with a multiplier"),
        pytest.param((40, 40, 9), np.full((20, 3, 3, 9), 3), False, id="tiles"),
    ],
)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_forms_that_know_no_pairs_are_left(tmp_path, config: Config, shape, weight, more: bool):
    model = Builder("int16")
    x = model.input((1, *shape), 0.01)
    bias = np.zeros(len(weight), np.int64)
    y = model.conv(x, weight.astype(np.int8), bias, weight_scale=0.1, scale=0.05, padding="SAME")
    if more:
        last = np.ones((3, 1, 1, len(weight)), np.int8)
        y = model.conv(y, last, [1, 2, 3], weight_scale=0.1, scale=0.05)
    path = _written(tmp_path, model.build(y))
    graph = load_graph(path)
    compiled = Model.load(path, config=config, exact="litert-ref").compile()
    (program,) = compiled.programs
    assert all(each["int16"] for each in program.commands if each.opcode == Opcode.CONV)
    inputs = [random_inputs(graph, 1, 0)]
    assert compare_model(compiled, open_oracle("litert-ref", path, graph), inputs).same


@pytest.mark.parametrize("kernels", ["litert-ref", "litert-opt", "litert-xnnpack", "tflm"])
@pytest.mark.parametrize("types", [("int8", "int16"), ("int16", "int8"), ("int16", "int16")])
@pytest.mark.parametrize("seed", range(4))
def test_changes_of_scale_are_those_of_the_library(tmp_path, seed: int, types, kernels: str):
    shape = [(1, 16, 32, 20), (1, 30, 3), (8, 512), (1, 64, 64, 16)][seed]
    path = _written(tmp_path, scale_of_int16(seed, shape, types))
    graph, config = load_graph(path), CONFIGS["16" if seed % 2 else "4"]
    model = Model.load(path, config=config, exact=kernels).compile()
    assert not model.plan.hosts
    least, most = np.iinfo(types[0]).min, np.iinfo(types[0]).max
    every = np.resize(np.arange(least, most + 1), shape).astype(types[0])
    (name,) = graph.inputs
    compared = compare_model(model, open_oracle(kernels, path, graph), [{name: every}])
    assert compared.same and compared.elements, str(compared)


def test_changes_of_scale_that_may_leave_32_bits_stay_with_the_library(tmp_path):
    model = Builder("int16")
    x = model.input((1, 3), 1.0)
    path = _written(tmp_path, model.build(model.unary("QUANTIZE", x, 2.0**-14, dtype="int8")))
    assert "its quotient of scales is 16384" in _reason(path, CONFIGS["16"])


@pytest.mark.parametrize(
    ("config", "width", "stride", "outputs"),
    [
        pytest.param(CONFIGS["4"], 49, 1, 2, id="regions"),  # of 49 columns if pairs could part
        pytest.param(CONFIGS["4"], 98, 2, 2, id="regions, stride 2"),
        pytest.param(Config(ub_rows=256, acc_rows=64, int16=True), 151, 3, 20, id="tiles"),  # of 51
    ],
)
def test_wide_rows_are_cut_between_pairs(
    tmp_path, config: Config, width: int, stride: int, outputs: int
):
    model = Builder("int16")
    x = model.input((1, 3, width, 3), 0.01)
    weight = np.random.default_rng(0).integers(-99, 99, (outputs, 2, 5, 3)).astype(np.int8)
    bias = np.arange(outputs)
    y = model.conv(x, weight, bias, weight_scale=0.1, scale=0.05, stride=(1, stride))
    path = _written(tmp_path, model.build(y))
    graph = load_graph(path)
    compiled = Model.load(path, config=config, exact="litert-ref").compile()
    (program,) = compiled.programs
    columns = {each["columns"] for each in program.commands if each.opcode == Opcode.CONV}
    assert max(columns) < 2 * graph.tensors[graph.outputs[0]].shape[2]
    inputs = [random_inputs(graph, 1, i) for i in range(2)]
    assert compare_model(compiled, open_oracle("litert-ref", path, graph), inputs).same


def test_dense_layers_of_small_sums_have_the_bits_of_double(tmp_path):
    path = _written(tmp_path, products_of_int16(3, (50,), (4, 5), largest=2))
    graph = load_graph(path)
    model = Model.load(path, config=CONFIGS["16"], exact="litert-ref").compile()
    assert not model.plan.hosts
    inputs = [random_inputs(graph, 1, i) for i in range(20)]
    assert compare_model(model, open_oracle("litert-ref", path, graph), inputs).same


def _reason(path, config: Config, kernels: str = "litert-ref") -> str:
    (operator,) = Model.load(path, config=config, exact=kernels).summary()
    assert operator.where == "host"
    return operator.reason


def test_sums_that_may_leave_32_bits_stay_with_the_library(tmp_path):
    path = _written(tmp_path, products_of_int16(0, (1, 1, 1), (2000, 4)))
    assert "beyond 32 bits" in _reason(path, CONFIGS["16"])


def test_strides_of_more_than_7_pairs_stay_with_the_library(tmp_path):
    model = Builder("int16")
    x = model.input((1, 2, 20, 3), 0.01)
    weight = np.ones((2, 1, 2, 3), np.int8)
    y = model.conv(x, weight, [0, 0], weight_scale=0.1, scale=0.1, stride=(1, 8))
    path = _written(tmp_path, model.build(y))
    assert "a horizontal stride of at most 7" in _reason(path, CONFIGS["16"])


def test_dense_layers_whose_double_no_record_gives_stay_with_the_library(tmp_path):
    path = _written(tmp_path, products_of_int16(0, (1,), (256, 4)))
    assert "no multiplier gives LiteRT's results" in _reason(path, CONFIGS["16"])


def test_biases_of_int32_stay_with_the_library(tmp_path):
    path = _written(tmp_path, products_of_int16(1, (1,), (20, 4), bias_dtype=np.int32))
    assert "is not an int64 constant" in _reason(path, CONFIGS["16"])


def test_firmware_and_ranges_of_shapes_are_refused(tmp_path):
    path = _written(tmp_path, products_of_int16(0, (1, 2, 3), (20, 4)))
    model = Model.load(path, config=CONFIGS["16"])
    other = _written(tmp_path, scale_of_int16(0, (1, 9), ("int8", "int16")))
    for each in (model, Model.load(other, config=CONFIGS["16"])):
        with pytest.raises(ValueError, match="firmware has no layout of int16"):
            check_exportable(each)
    with pytest.raises(ValueError, match="has layers of int16"):
        compile_range(model.layers[0], ShapeRange((1, 1), (1, 9), (2, 2)), model.config)


def test_a_machine_without_int16_says_so(tmp_path):
    path = _written(tmp_path, products_of_int16(0, (1,), (20, 4)))
    assert "no int16" in _reason(path, Config())
    path = _written(tmp_path, scale_of_int16(0, (1, 9), ("int8", "int16")))
    assert "no int16" in _reason(path, Config())
