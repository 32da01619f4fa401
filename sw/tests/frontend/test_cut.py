"""Parts of networks between tensors of their files: the same bits as in the whole."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")

from tpulite.frontend.cut import cut_graph
from tpulite.frontend.files import load_graph
from tpulite.frontend.onnx.file import load_onnx
from tpulite.models import CNN_DIGITS
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.files.onnx_builder import OnnxBuilder

pytest_plugins = ("tpulite_testing.command_line",)

RNG = np.random.default_rng(3)


def network() -> bytes:
    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 3, 8, 8)), 0.0483, 3)
    for inputs, outputs in ((3, 16), (16, 32), (32, 8)):
        weight = RNG.integers(-127, 128, (outputs, inputs, 3, 3)).astype(np.int8)
        y = b.node("Conv", x, b.weight(weight, 0.00213 / inputs**0.5), name=f"conv{outputs}")
        x = b.quantize(y, 0.0517, -7)
    return b.build(x)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [(["conv_2d_4"], []), ([], ["conv_2d_2"]), (["conv_2d_0"], ["dense"]), (["stem"], ["add"])],
)
def test_part_of_a_tflite_file(inputs, outputs):
    graph = load_graph(CNN_DIGITS)
    part = cut_graph(graph, inputs, outputs)
    check(graph, part)
    nodes = {node.name: node.outputs[0] for node in graph.nodes}
    assert part.inputs == (tuple(nodes.get(name, name) for name in inputs) or graph.inputs)
    assert part.outputs == (tuple(nodes.get(name, name) for name in outputs) or graph.outputs)
    assert len(part.nodes) < len(graph.nodes)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["quantizelinear4"], []),
        ([], ["quantizelinear4,quantizelinear8"]),
        (["conv16"], ["quantizelinear12"]),
        ([], ["conv32"]),
    ],
)
def test_part_of_an_onnx_file(inputs, outputs):
    graph = as_library(load_onnx(network(), "net"), Exactness.ORT)
    part = cut_graph(graph, inputs, outputs)
    check(graph, part)
    assert len(part.nodes) < len(graph.nodes)


def check(graph, part):
    """Run the whole network, and the part on the tensors that the whole has at its borders."""
    whole = Model.load(graph)
    inputs = random_inputs(graph, 2, 5)
    known = {**whole.reference(inputs), **inputs}
    model = Model.load(part)
    names = {name: _found(name, known) for name in part.inputs}
    found = model.reference({name: values for name, (values, _) in names.items()})
    compared = 0
    for name, values in found.items():
        expected, _ = _found(name, known, missing=True)
        if expected is not None:
            np.testing.assert_array_equal(values, expected, err_msg=name)
            compared += 1
    assert compared


def _found(name, known, missing=False):
    """Return a tensor of the whole network in the order of axes of the part."""
    if name in known:
        return known[name], name
    if f"{name}.nhwc" in known:
        return known[f"{name}.nhwc"].transpose(0, 3, 1, 2), name
    base = name.removesuffix(".nhwc")
    if base in known and known[base].ndim == 4:
        return known[base].transpose(0, 2, 3, 1), name
    assert missing, name
    return None, name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--outputs", "conv61"),
            "conv61: no such tensor or node (did you mean conv16?)",
        ),
        (("--inputs", "zzz"), "zzz: no such tensor or node"),
        (
            ("--inputs", "conv32", "--outputs", "conv16"),
            "'quantizelinear8' is not needed",
        ),
        (("--inputs", "conv16", "--outputs", "conv16"), "cannot be an input and an output at once"),
    ],
)
def test_wrong_names_are_one_line(tpulite, tmp_path, arguments, said):
    (tmp_path / "net.onnx").write_bytes(network())
    code, _, err = tpulite("compile", "net.onnx", *arguments)
    assert (code, len(err.splitlines())) == (2, 1)
    assert err.startswith("tpulite: net.onnx: ")
    assert said in err


def test_a_part_is_compared_with_its_library(tpulite, tmp_path):
    (tmp_path / "net.onnx").write_bytes(network())
    words = ("--inputs", "quantizelinear4", "--outputs", "quantizelinear8")
    code, out, _ = tpulite("compare", "net.onnx", "--oracle", "ort", *words)
    assert (code, "every bit is the same" in out) == (0, True)
    code, out, _ = tpulite("compare", CNN_DIGITS, "--oracle", "litert-ref", "--inputs", "conv_2d_0")
    assert (code, "every bit is the same" in out) == (0, True)


def test_a_compiled_network_is_not_cut(tpulite, tmp_path):
    assert tpulite("compile", CNN_DIGITS, "-o", "net.tpulite", "--outputs", "conv_2d_2")[0] == 0
    code, _, err = tpulite("run", "net.tpulite", "--outputs", "conv_2d_0")
    assert (code, err) == (
        2,
        "tpulite: net.tpulite is compiled: give --inputs and --outputs to compile\n",
    )
