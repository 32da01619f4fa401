"""Networks that a library must run in part: every tensor is the library's, to the bit."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.export import check_exportable
from tpulite.frontend.tflite.file import load_tflite
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite.runtime.outputs import compare_outputs
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library

RNG = np.random.default_rng(2024)
SHAPE = (1, 6, 6, 8)
LITERT = ("litert-ref", "litert-opt", "litert-xnnpack")


def weights(*shape, dtype="int8"):
    return RNG.integers(-127, 128, shape).astype(dtype)


def resize(b, x):
    size = b.constant(np.array([11, 12], np.int32))
    y = b.tensor((1, 11, 12, b.shape(x)[3]), 0.05, -7)
    return b.operator("RESIZE_BILINEAR", [x, size], [y], options_type="ResizeBilinearOptions")


def log_softmax(b, x):
    y = b.tensor(b.shape(x), 16 / 256, 127)
    return b.operator("LOG_SOFTMAX", [x], [y], options_type="LogSoftmaxOptions")


def floats(b, x):
    a = b.unary("DEQUANTIZE", x, dtype="float32", options_type="DequantizeOptions")
    c = b.unary("SOFTMAX", a, dtype="float32", options_type="SoftmaxOptions", beta=1.0)
    return b.unary("QUANTIZE", c, 0.1, -100, dtype="int8", options_type="QuantizeOptions")


OPERATORS = {f.__name__: f for f in (resize, log_softmax, floats)}


def conv(b, x, outputs=8):
    inputs = b.shape(x)[3]
    return b.conv(
        x, weights(outputs, 3, 3, inputs), weights(outputs, dtype="int32") * 9,
        weight_scale=0.01, scale=0.05, zero_point=-7,
    )  # fmt: skip


@pytest.mark.parametrize("exact", LITERT)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_alone_is_the_librarys(tmp_path, name, exact):
    b = Builder()
    y = OPERATORS[name](b, b.input(SHAPE, 0.05, -7))
    model = equals_library(tmp_path, b.build(y), exact)
    assert [type(segment) for segment in model.segments] == [HostSegment]
    assert model.crossings == 0 and model.programs == ()


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_between_convolutions_crosses_twice(tmp_path, name):
    b = Builder()
    x = conv(b, conv(b, b.input(SHAPE, 0.05, -7)))
    y = conv(b, OPERATORS[name](b, x), 7)
    model = equals_library(tmp_path, b.build(y))
    sides = [MachineSegment, HostSegment, MachineSegment]
    assert [type(segment) for segment in model.segments] == sides
    assert model.crossings == 2
    assert model.statement().endswith("2 tensors move between CPU and machine")
    with pytest.raises(ValueError, match=r"^The machine cannot run \d of .* tensor 't\d+': "):
        Model.load(tmp_path / "net.tflite", strict=True)
    save_model(model, tmp_path / "net.tpulite")
    again = load_model_file(tmp_path / "net.tpulite")
    inputs = random_inputs(model.graph, 1, 7)
    np.testing.assert_array_equal(again.run(inputs).output, model.run(inputs).output)
    assert again.crossings == 2


def test_the_host_takes_along_what_costs_little(tmp_path):
    b = Builder()
    x = conv(b, conv(b, b.input((1, 12, 12, 32), 0.05, -7), 64), 8)
    y = resize(b, b.unary("RELU", resize(b, x), 0.05, -7))
    model = equals_library(tmp_path, b.build(y))
    machine, host = model.segments
    assert isinstance(machine, MachineSegment) and isinstance(host, HostSegment)
    assert host.reasons[1].startswith("it has few MACs")
    assert model.crossings == 1


@pytest.mark.parametrize("extent", [12, 6, "output"])
def test_what_only_the_host_reads_crosses_before_it_grows(tmp_path, extent):
    b = Builder()
    x = conv(b, b.input(SHAPE, 0.05, -7))
    rows = 12 if extent == "output" else extent
    y = b.tensor((1, rows, rows, 8), 0.05, -7)
    size = b.constant(np.array([rows, rows], np.int32))
    b.operator("RESIZE_BILINEAR", [x, size], [y], options_type="ResizeBilinearOptions")
    best = y
    if extent != "output":
        axis, best = b.constant(np.array(3, np.int32)), b.tensor((1, rows, rows), dtype="int32")
        b.operator("ARG_MAX", [y, axis], [best], options_type="ArgMaxOptions", outputType=2)
    model = equals_library(tmp_path, b.build(best))
    resize = next(node for node in model.graph.nodes if node.op == "resize_bilinear")
    on_host = model.plan.placed.placements[resize.name].engine == "host"
    assert on_host == (extent == 12)
    strict = Model.load(tmp_path / "net.tflite", strict=True)
    assert strict.plan.placed.placements[resize.name].engine != "host"
    check_exportable(strict)
    if on_host:
        with pytest.raises(ValueError, match=r"with --outputs \S+ the network ends before that$"):
            check_exportable(model)


def test_a_shape_that_is_an_input_has_one_value(tmp_path):
    b = Builder()
    said = b.tensor((4,), dtype="int32")
    b.inputs.append(said)
    x, weight = b.input(SHAPE, 0.05, -7), b.constant(weights(4, 3, 3, 8), 0.01)
    y = b.tensor((1, 12, 12, 4), 0.05, 3)
    options = {"options_type": "TransposeConvOptions", "strideH": 2, "strideW": 2}
    b.operator("TRANSPOSE_CONV", [said, weight, x], [y], **options)
    model = equals_library(tmp_path, b.build(y))
    (drawn,) = random_inputs(model.graph, 1, 7)[model.graph.inputs[0]].reshape(1, 4).tolist()
    assert drawn == [1, 12, 12, 4]


def test_sixteen_bits_are_the_librarys(tmp_path):
    b = Builder("int16")
    x = b.input(SHAPE, 0.001)
    weight = b.tensor((4, 3, 3, 8), [0.01] * 4, [0] * 4, dtype="int8", data=weights(4, 3, 3, 8))
    bias = b.tensor((4,), [1e-5] * 4, [0] * 4, dtype="int64", data=weights(4, dtype="int64"))
    y = b.tensor((*SHAPE[:3], 4), 0.002)
    options = {"options_type": "Conv2DOptions", "strideH": 1, "strideW": 1}
    y = b.operator("CONV_2D", [x, weight, bias], [y], **options)
    assert equals_library(tmp_path, b.build(y)).host_macs == 36 * 4 * 72


def test_states_of_floats_go_on(tmp_path):
    b = Builder("float32")
    x = b.input((1, 4))
    feature, time = (b.tensor(s, data=weights(*s, dtype="float32")) for s in ((6, 4), (6, 3)))
    state, y = b.tensor((1, 18)), b.tensor((1, 6))
    b.tensors[state].isVariable = True
    options = {"options_type": "SVDFOptions", "rank": 1}
    b.operator("SVDF", [x, feature, time, -1, state], [y], **options)
    equals_library(tmp_path, b.build(y))


def test_weights_of_eight_bits_and_activations_of_floats(tmp_path):
    b = Builder("float32")
    weight = b.tensor((7, 12), [0.01] * 7, [0] * 7, dtype="int8", data=weights(7, 12))
    y = b.tensor((1, 7))
    options = {"options_type": "FullyConnectedOptions"}
    b.operator("FULLY_CONNECTED", [b.input((1, 12)), weight, -1], [y], **options)
    assert equals_library(tmp_path, b.build(y)).host_macs == 7 * 12


def test_shapes_that_only_the_run_knows(tmp_path):
    b = Builder("float32")
    x = b.input((1, 9))
    positive, found = b.tensor((1, 9), dtype="bool"), b.tensor((1, 2), dtype="int64")
    b.tensors[found].shapeSignature = [-1, -1]
    zero = b.constant(np.zeros(1, np.float32))
    b.operator("GREATER", [x, zero], [positive], options_type="GreaterOptions")
    b.operator("WHERE", [positive], [found], options_type="WhereOptions")
    (tmp_path / "net.tflite").write_bytes(b.build(found))
    values = np.array([[-1, 2, 0, 3, -4, 5, 0, 0, 1]], np.float32)
    y = Model.load(tmp_path / "net.tflite").run(values).output
    np.testing.assert_array_equal(y, np.argwhere(values > 0))


def test_a_session_is_made_once(tmp_path, monkeypatch):
    opened = []

    def opening(*arguments):
        opened.append(arguments)
        return open_library(*arguments)

    monkeypatch.setattr("tpulite.runtime.host.part.open_library", opening)
    b = Builder()
    (tmp_path / "net.tflite").write_bytes(b.build(resize(b, conv(b, b.input(SHAPE, 0.05, -7)))))
    model = Model.load(tmp_path / "net.tflite")
    inputs = random_inputs(model.graph, 4, 1)
    model.run(inputs)
    model.compile().run(inputs)
    assert len(opened) == 1


def test_kernels_that_lack_an_operator_name_those_that_have_it(tmp_path):
    b = Builder()
    x = b.input((1, 4, 3, 2), 0.05, 0)
    b.operator("ELU", [x], [y := b.tensor((1, 4, 3, 2), dtype="float32")])
    b.tensors[x].type, b.tensors[x].quantization = b.tensors[y].type, None
    path = tmp_path / "net.tflite"
    path.write_bytes(b.build(y))
    message = (
        r"^net: 'elu_0' \(ELU\) run by the library: LiteRT \(reference kernels\) does not have ELU "
        r"\(version 1\); --exact litert-opt runs it$"
    )
    with pytest.raises(ValueError, match=message):
        Model.load(path)
    assert equals_library(tmp_path, b.build(y), exact="litert-opt").host_macs == 0


def test_outputs_are_compared_by_kernels_that_have_all_operators():
    b = Builder("float32")
    graph = load_tflite(b.build(b.unary("ELU", b.input((1, 9)))))
    ((compared,),) = compare_outputs(graph, graph, [{graph.inputs[0]: np.float32([range(-4, 5)])}])
    np.testing.assert_array_equal(compared[1], compared[2])
    np.testing.assert_allclose(compared[1][0, 0], np.expm1(-4.0), rtol=1e-6)


def test_what_the_library_lacks_is_one_line(tmp_path, monkeypatch):
    b = Builder()
    x = b.input(SHAPE, 0.05, -7)
    y = b.operator("CUSTOM:Teleport", [x], [b.tensor(SHAPE, 0.05, -7)])
    (tmp_path / "net.tflite").write_bytes(b.build(y))
    message = r"^net: 'custom_0' \(CUSTOM Teleport\) run by the library: LiteRT .* rejects it: .*"
    with pytest.raises(ValueError, match=message):
        Model.load(tmp_path / "net.tflite")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs: pip install 'ai-edge-litert"):
        Model.load(tmp_path / "net.tflite")
