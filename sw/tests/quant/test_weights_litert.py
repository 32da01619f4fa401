"""Weights in groups and of 4 bits against LiteRT, on the untouched file, output by output."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.frontend.tflite.cut import unpack
from tpulite.frontend.tflite.file import load_tflite
from tpulite.quant.exactness import Exactness
from tpulite.quant.int4_tflite import int4_tflite
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder, schema
from tpulite_testing.quick_options import quick_options

KERNELS = [Exactness.LITERT_REF, Exactness.LITERT_OPT, Exactness.LITERT_XNNPACK]


def check(data: bytes, exact: Exactness, runs: int = 20) -> None:
    """Compare the outputs of a file, none of whose nodes may run on the CPU."""
    model = Model.load(load_tflite(data), exact=exact, options=quick_options())
    assert not [each.name for each in model.summary() if each.where == "host"]
    rng = np.random.default_rng(len(data))
    (x,) = (model.graph.tensors[name] for name in model.graph.inputs)
    library = open_library(data, "tflite", exact)
    for value in rng.integers(-128, 128, (runs, *x.shape)).astype(np.int8):
        wanted = library([value])
        found = model.reference({x.name: value})
        for name, each in zip(model.graph.outputs, wanted, strict=True):
            np.testing.assert_array_equal(found[name].reshape(each.shape), each)


def scales(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return scales of which some are powers of two, so that sums lie between two results."""
    return np.where(rng.random(count) < 0.5, 2.0**-7, rng.uniform(0.002, 0.02, count))


@pytest.mark.parametrize("exact", KERNELS, ids=str)
@pytest.mark.parametrize(("group", "each"), [(2, 3), (4, 8), (6, 1), (3, 2)])
def test_convolutions_in_groups_are_one_product_each(group, each, exact):
    rng = np.random.default_rng(group)
    b = Builder()
    x = b.input((1, 7, 6, 4 * group), scale=0.5, zero_point=-3)
    weight = rng.integers(-127, 128, (group * each, 3, 3, 4)).astype(np.int8)
    fields = {"weight_scale": scales(rng, group * each), "scale": 0.5, "zero_point": 4}
    y = b.conv(x, weight, rng.integers(-99, 99, group * each), stride=(1, 2), **fields)
    data = b.build(y)
    check(data, exact)
    macs = sum(each.macs for each in Model.load(load_tflite(data), exact=exact).summary())
    assert macs == 7 * 3 * group * each * 9 * 4


@pytest.mark.parametrize("exact", KERNELS, ids=str)
def test_a_channel_a_group_is_depthwise(exact):
    rng = np.random.default_rng(1)
    b = Builder()
    x = b.input((1, 7, 6, 5), scale=0.5, zero_point=-3)
    weight = rng.integers(-127, 128, (10, 3, 3, 1)).astype(np.int8)
    bias = rng.integers(-99, 99, 10)
    y = b.conv(x, weight, bias, weight_scale=scales(rng, 10), scale=0.5, padding="VALID")
    check(b.build(y), exact)


def pack(b: Builder, weight: np.ndarray) -> None:
    """Give weights of a model 4 bits: two in a byte, the first in the low half."""
    halves = np.append(weight.reshape(-1), np.zeros(weight.size % 2, np.int8)).view(np.uint8)
    data = (halves[0::2] & 15) | (halves[1::2] << 4)
    for tensor in b.tensors:
        if tuple(tensor.shape) == weight.shape:
            tensor.type = schema.TensorType.INT4
            b.replace_data(tensor, data)


@pytest.mark.parametrize("exact", KERNELS, ids=str)
@pytest.mark.parametrize("op", ["conv", "depthwise", "dense", "dense of odd rows"])
def test_weights_of_4_bits_are_those_of_8(op, exact):
    op, _, odd = op.partition(" ")
    rng = np.random.default_rng(2)
    b = Builder()
    x = b.input((1, 7, 5 if odd else 6, 5), scale=0.5, zero_point=-3)
    inputs = 175 if odd else 210
    shape = {"conv": (9, 3, 3, 5), "depthwise": (1, 3, 3, 5), "dense": (64, inputs)}[op]
    weight = rng.integers(-8, 8, shape).astype(np.int8)
    channels = shape[3 if op == "depthwise" else 0]
    bias = rng.integers(-99, 99, channels)
    y = getattr(b, op)(x, weight, bias, weight_scale=scales(rng, channels), scale=0.5)
    pack(b, weight)
    check(b.build(y), exact)


@pytest.mark.parametrize("per_channel", [True, False])
def test_int8_files_become_int4(per_channel):
    rng = np.random.default_rng(3)
    b = Builder()
    x = b.input((1, 6, 6, 8), scale=0.02, zero_point=-3)
    kernel, matrix = (rng.integers(-127, 128, s).astype(np.int8) for s in ((9, 3, 3, 8), (7, 324)))
    fields = {"scale": 0.1, "zero_point": 4, "activation": "RELU"}
    y = b.conv(x, kernel, rng.integers(-999, 999, 9), weight_scale=scales(rng, 9), **fields)
    y = b.dense(y, matrix, rng.integers(-999, 999, 7), weight_scale=0.005, scale=0.5)
    data = b.build(y)
    inputs = rng.integers(-128, 128, (40, 1, 6, 6, 8)).astype(np.int8)
    narrow = int4_tflite(data, [{"t0": each} for each in inputs], per_channel=per_channel)
    check(narrow, Exactness.LITERT_REF)
    types = [[x.type for x in unpack(file).subgraphs[0].tensors] for file in (data, narrow)]
    assert [each.count(schema.TensorType.INT4) for each in types] == [0, 2]
    sessions = [open_library(file, "tflite", Exactness.LITERT_REF) for file in (data, narrow)]
    before, after = (np.ravel([run([each])[0] for each in inputs]) for run in sessions)
    assert np.corrcoef(before, after)[0, 1] > 0.98


@pytest.mark.parametrize("exact", KERNELS, ids=str)
@pytest.mark.parametrize("scale", [0.0417, 0.0625, 0.071, 0.083])
def test_dense_layers_whose_int8_weights_have_a_zero_point(scale, exact):
    """XNNPACK leaves them to the optimized kernel."""
    rng, b = np.random.default_rng(3), Builder()
    x = b.input((40, 16), 0.05, 3)
    weight = b.constant(rng.integers(-90, 90, (12, 16)).astype(np.int8), 0.00390625, 5)
    made, options = b.tensor((40, 12), scale, -3), {"options_type": "FullyConnectedOptions"}
    check(b.build(b.operator("FULLY_CONNECTED", [x, weight], [made], **options)), exact)
