import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.arch.registers import Fault
from tpulite.compiler.options import Options
from tpulite.configs import CONFIG_PARTS, named_config
from tpulite.frontend.tflite.file import load_tflite
from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.device import FaultReport
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.quick_options import quick_options

RNG = np.random.default_rng(2024)


def floats_at_the_ends() -> bytes:
    """QUANTIZE, CONV_2D, SOFTMAX, DEQUANTIZE: host, machine, host."""
    b = Builder()
    x = b.tensor((1, 5, 6, 3), dtype="float32")
    b.inputs.append(x)
    q = b.tensor((1, 5, 6, 3), 0.05, -7)
    b.operator("QUANTIZE", [x], [q], options_type="QuantizeOptions")
    weight = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    c = b.conv(q, weight, RNG.integers(-900, 900, 4), weight_scale=0.01, scale=0.1, zero_point=3)
    s = b.tensor(b.shape(c), 1 / 256, -128)
    b.operator("SOFTMAX", [c], [s], options_type="SoftmaxOptions", beta=1.0)
    y = b.tensor(b.shape(c), dtype="float32")
    b.operator("DEQUANTIZE", [s], [y], options_type="DequantizeOptions")
    return b.build(y)


def host_in_the_middle() -> bytes:
    """CONV_2D, SOFTMAX, CONV_2D: the host stands between segments of the machine."""
    b = Builder("uint8")
    weight = RNG.integers(0, 256, (2, 3, 1, 1, 3)).astype(np.uint8)
    weights = {"weight_scale": 0.01, "weight_zero_point": 100}
    x = b.input((1, 4, 4, 3), 0.05, 100)
    first = b.conv(x, weight[0], [0, 9, -9], scale=0.1, zero_point=128, **weights)
    shares = b.tensor(b.shape(first), 1 / 256, 0)
    b.operator("SOFTMAX", [first], [shares], options_type="SoftmaxOptions", beta=1.0)
    return b.build(b.conv(shares, weight[1], [0] * 3, scale=0.01, zero_point=99, **weights))


@pytest.fixture(scope="module")
def digits():
    model = Model.load(CNN_DIGITS, options=quick_options()).compile()
    return model, DigitsTest.load().images.reshape(-1, 16, 16, 1)


def test_outputs_are_the_references_and_the_librarys(digits):
    model, images = digits
    results = model.run(images[:5])
    assert results.output.shape == (5, 10) and results.output.dtype == np.int8
    np.testing.assert_array_equal(results.output, model.reference(images[:5])["dense"])
    oracle = open_oracle("litert-ref", CNN_DIGITS, model.graph)
    expected = [oracle({"image": image[None]})["dense"] for image in images[:5]]
    np.testing.assert_array_equal(results.output, np.concatenate(expected))
    assert results.cycles is None
    assert len(results.segments) == 5 and not results.tensors


def test_all_tensors_of_the_machine_are_the_references(digits):
    model, images = digits
    ours, reference = model.run(images[:2], tensors=True).tensors, model.reference(images[:2])
    computed = {name for node in model.graph.nodes for name in node.outputs}
    assert computed <= ours.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, reference[name], err_msg=name)


@pytest.mark.parametrize("size", [4, 8, 32])
def test_other_machines_give_the_same(digits, size):
    model, images = digits
    other = Model.load(CNN_DIGITS, config=Config(array_size=size), options=quick_options())
    np.testing.assert_array_equal(other.run(images[:1]).output, model.run(images[:1]).output)


@pytest.mark.parametrize("exact", ["litert-ref", "litert-opt", "litert-xnnpack"])
@pytest.mark.parametrize("name", CONFIG_PARTS)
def test_machines_for_a_part_give_the_bits_of_each_library(digits, name, exact):
    """XNNPACK rounds as ONNX Runtime does."""
    images = digits[1][:1]
    config, options = named_config(name), quick_options()
    model = Model.load(CNN_DIGITS, exact=exact, config=config, options=options)
    expected = open_oracle(exact, CNN_DIGITS, model.graph)({"image": images})["dense"]
    np.testing.assert_array_equal(model.run(images).output, expected)


@pytest.mark.parametrize(
    ("strict", "machine", "on_the_cpu"),
    [
        (False, "16x16", "QUANTIZE, SOFTMAX, DEQUANTIZE"),
        (True, "16x16", "QUANTIZE, DEQUANTIZE"),
        (True, "4x4", "QUANTIZE, SOFTMAX, DEQUANTIZE"),
        (True, "8x8,softmax=1", "QUANTIZE, DEQUANTIZE"),
    ],
)
def test_floats_at_the_ends_are_the_hosts(tmp_path, strict, machine, on_the_cpu):
    path = tmp_path / "net.tflite"
    path.write_bytes(floats_at_the_ends())
    model = Model.load(path, strict=strict, config=named_config(machine))
    assert [isinstance(x, MachineSegment) for x in model.segments] == [False, True, False]
    x = random_inputs(model.graph, 4, 2024)
    y = model.run(x).output
    assert y.dtype == np.float32 and y.shape == (4, 5, 6, 4)
    oracle = open_oracle("litert-ref", path, load_tflite(path.read_bytes()))
    (name,) = model.graph.inputs
    for i in range(4):
        expected = oracle({name: x[name][i : i + 1]})[model.graph.outputs[0]]
        np.testing.assert_array_equal(y[i : i + 1], expected)
    assert model.host_macs == 0 and model.macs == 5 * 6 * 4 * 27
    assert model.statement() == (
        f"numerics: litert-ref; on the CPU: {on_the_cpu}, 0.0% of 3,240 MACs; "
        "2 tensors move between CPU and machine"
    )


def test_the_host_computes_between_segments_unless_that_is_refused(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(host_in_the_middle())
    config = Config(softmax=False)
    with pytest.raises(ValueError, match=r"softmax_1.*SOFTMAX"):
        Model.load(path, strict=True, config=config)
    model = Model.load(path, config=config)
    assert [isinstance(x, MachineSegment) for x in model.segments] == [True, False, True]
    x = random_inputs(model.graph, 3, 2024)
    results = model.run(x, tensors=True)
    assert len(results.segments[0]) == 2
    oracle = open_oracle("litert-ref", path, load_tflite(path.read_bytes()))
    (name,) = model.graph.inputs
    for i in range(3):
        for tensor, expected in oracle({name: x[name][i : i + 1]}).items():
            np.testing.assert_array_equal(results.tensors[tensor][i : i + 1], expected)
    np.testing.assert_array_equal(results.output, model.run(x).output)


def test_summaries_say_where_and_why(digits):
    model, _ = digits
    assert [operator.where for operator in model.summary()] == [
        *("MXU", "MXU", "MXU", "VPU", "MXU", "VPU", "MXU")
    ]
    assert [operator.macs for operator in model.summary()] == [
        *(18432, 18432, 65536, 0, 294912, 0, 640)
    ]
    assert not any(operator.reason for operator in model.summary())


def test_a_fault_is_an_error(digits):
    class Broken(GoldenDevice):
        def run(self, job):
            result = super().run(job)
            return type(result)(FaultReport(Fault.READ, 3, 64))

    model, images = digits
    with pytest.raises(RuntimeError, match=r"^cnn_digits stopped with FaultReport"):
        model.run(images[:1], Broken(Config()))


def test_a_runner_takes_a_device_that_is_there(digits):
    model, images = digits
    device = GoldenDevice(Config())
    np.testing.assert_array_equal(
        model.run(images[:2], device).output, model.run(images[:2]).output
    )
    with pytest.raises(ValueError, match=r"configuration with hash"):
        model.run(images[:1], GoldenDevice(Config(array_size=8)))
    with pytest.raises(ValueError, match=r"^abacus: no such device"):
        model.run(images[:1], "abacus")


def test_python_of_the_guide_runs(capsys):
    guide = Path(__file__).resolve().parents[3] / "docs/networks.md"
    block, *_ = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(compile(block, "networks.md", "exec"), {})
    assert re.fullmatch(r"(\[[\d ]+\] ){2}None\n", capsys.readouterr().out)


def test_weights_that_stay_are_loaded_by_the_first_run_alone(digits):
    _, images = digits
    model = Model.load(CNN_DIGITS, options=Options(resident=True)).compile()
    results = model.run(images[:4])
    np.testing.assert_array_equal(results.output, model.reference(images[:4])["dense"])
    cold, warm = model.programs
    for program, constants in ((cold, True), (warm, False)):
        loads = [c for c in program.commands if c.opcode == Opcode.LOAD]
        assert any(c["window"] == Window.CONSTANTS for c in loads) == constants


def test_weights_stay_only_if_one_part_is_the_machines(tmp_path):
    (tmp_path / "x.tflite").write_bytes(host_in_the_middle())
    options = Options(resident=True)
    model = Model.load(tmp_path / "x.tflite", config=Config(softmax=False), options=options)
    with pytest.raises(
        ValueError, match=r"^resident weights need a network with one part .*, not 2$"
    ):
        model.compile()
